"""How commands reach a fleet: addresses, credentials, and the client of the router's API."""
