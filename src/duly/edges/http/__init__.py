"""The HTTP API. ``app`` puts it together; ``answering`` is the path of a request; one file for each subject beside."""
