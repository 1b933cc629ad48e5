"""What routers and nodes of a fleet share: the HTTP/1.1 server for clients, and the names of internal headers."""
