"""APScheduler 3: the job store that it keeps in an SQL database."""
