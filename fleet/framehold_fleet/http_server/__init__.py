"""The HTTP/1.1 server for clients, on one asyncio protocol. Routers and nodes run on it."""
