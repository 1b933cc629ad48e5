"""The command `call`: a client in the terminal that shows questions as forms."""
