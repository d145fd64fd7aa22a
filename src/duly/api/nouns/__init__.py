"""The operations of the API, one file for each noun."""
