"""What a router tells over HTTP: its models, who may ask, and how the answers are gathered."""
