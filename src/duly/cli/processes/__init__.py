"""Long-running processes: ``duly worker``, ``serve``, ``timer-service``, and how they are started and stopped."""
