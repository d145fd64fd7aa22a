"""The HTTP server below the API: sockets, connections, proxies, and the reading of requests."""
