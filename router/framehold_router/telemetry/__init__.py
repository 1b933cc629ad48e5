"""What a router counts of the requests that it relays."""
