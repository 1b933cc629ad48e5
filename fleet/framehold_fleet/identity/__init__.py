"""How the processes of a fleet prove to each other that they have its keys, and what they seal with them."""
