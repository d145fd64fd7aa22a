"""Records as JSON: how they are written, read and described; the other responses of the API; and the requests."""
