"""Processes that last: ``duly worker``, ``serve``, ``timer-service``, and how they are started and ended."""
