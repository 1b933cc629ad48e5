"""HTTP/1.1 on two asyncio protocols: the connections of clients, the connections to nodes, and what passes between."""
