"""The typed bodies of the HTTP API and of `/admin`, which node, router and command line share."""
