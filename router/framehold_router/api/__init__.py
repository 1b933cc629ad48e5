"""What a router tells over HTTP: its routes, who may ask, and how the answers are gathered."""
