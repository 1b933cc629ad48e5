"""What each page of a router or a node checks first: the `Host` that it was asked by, and wrong tokens."""
