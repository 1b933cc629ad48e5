"""What the processes of a fleet share: members, identity, settings, the HTTP server and the client for nodes."""
