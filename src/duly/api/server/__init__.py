"""The server beneath the API: sockets, connections, proxies, and how requests are read from them."""
