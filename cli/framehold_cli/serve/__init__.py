"""The commands that serve: `node`, `router` and `stdio`, and how they find their target."""
