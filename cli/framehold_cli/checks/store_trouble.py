"""Explains from an exception why a store can't be used, and what to do. The words contain no secret."""

from __future__ import annotations

import socket
import ssl
from typing import NamedTuple

from framehold_core.errors import causes
from framehold_router.verdict.wording import remedy
from framehold_store import StoreConfig


class Trouble(NamedTuple):
    """`says` is what is wrong, as the end of a sentence that begins with the store's name. `do` is what to do."""

    says: str
    do: str


def trouble(error: BaseException, config: StoreConfig) -> Trouble:
    """The meaning of `error`, which a client raised for the store that `config` names."""
    from redis import exceptions
    from redis.asyncio.sentinel import MasterNotFoundError

    from framehold_store.link import answer_of, words_of

    every = list(causes(error))
    if isinstance(error, MasterNotFoundError):
        return Trouble(
            "has no master: of its sentinels none answers, or none knows one",
            f"correct hosts, service or sentinel_password in {_NAMED}, or wait for the end of a fail-over",
        )
    if _any(every, ssl.SSLCertVerificationError):
        return Trouble(
            "shows a certificate that isn't trusted",
            f"name its authority in {_NAMED}: ?ssl_ca_certs=/PATH/ca.pem, and a host that the certificate names",
        )
    if _any(every, exceptions.AuthenticationError) or _refused_by_name(error):
        return Trouble(
            "refuses the password (or the user)", f"correct them in {_NAMED}: redis://USER:PASSWORD@HOST:PORT"
        )
    if refusal := next(filter(None, map(words_of, every)), ""):
        return Trouble(f"answers, and refuses what is asked of it ({refusal})", remedy(refusal))
    if answer := next(filter(None, map(answer_of, every)), ""):
        return Trouble(f"answers with an error ({answer})", remedy(answer))
    if _any(every, socket.gaierror):
        return Trouble("has a host name that nobody knows", f"correct the host in {_NAMED}")
    if _any(every, ConnectionRefusedError):
        return Trouble(
            "doesn't answer: the connection was refused", f"start it there, or correct host and port in {_NAMED}"
        )
    if _any(every, FileNotFoundError):
        return _missing_file(config)
    if _any(every, TimeoutError | exceptions.TimeoutError):
        return Trouble("doesn't answer in time", f"look for a firewall between, or correct the host in {_NAMED}")
    tls = "rediss:// speaks TLS, redis:// doesn't"
    return Trouble(f"doesn't answer ({type(error).__name__})", f"start it, or correct {_NAMED}: {tls}")


def _missing_file(config: StoreConfig) -> Trouble:
    if config.scheme == "unix":
        return Trouble("doesn't answer: there is no such socket", f"start it, or correct the path in {_NAMED}")
    return Trouble(
        "can't be reached: a certificate or a key that its address names is not on this machine",
        f"correct ssl_ca_certs, ssl_certfile and ssl_keyfile in {_NAMED}, or put the file there",
    )


_NAMED = "FRAMEHOLD_STORE_URL"


def _any(errors: list[BaseException], kinds: object) -> bool:
    return any(isinstance(error, kinds) for error in errors)  # type: ignore[arg-type]


def _refused_by_name(error: BaseException) -> bool:
    """Whether the text of an error says that the password was refused. Some servers and clients have no class for
    it."""
    return str(error).startswith(("WRONGPASS", "NOAUTH", "invalid username-password", "invalid password"))
