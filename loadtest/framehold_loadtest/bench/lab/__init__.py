"""What the sections of the benchmark share: how servers, routers and proxies are started and loaded."""
