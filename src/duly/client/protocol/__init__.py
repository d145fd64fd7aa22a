"""How a client speaks to a server: connection, requests written, answers and refusals read, pages."""
