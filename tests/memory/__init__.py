"""Memory under attack: routers and nodes in cgroups of the chart's own limits, and what is sent to fill them."""
