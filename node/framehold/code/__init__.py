"""The code of handlers: what a handler reaches in its author's modules, a digest over that, and the handler as bytes
that another process can load and enter.

It knows no SDK and no call. `sdk` and `hosts` name the handlers; `engine` asks for their code by its digest.
"""
