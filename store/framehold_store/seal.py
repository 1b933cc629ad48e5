"""Seals stored values and the heads of records, so that somebody who can write to the store but lacks the keys can't
forge a value of a call, or what a record says of it.

AES-256-GCM. From each secret of the fleet one subkey per purpose is derived (HKDF-SHA256), so that a value sealed as an
answer can't be opened as an outcome. The place of a value (namespace, call, position, kind, key) is authenticated with
it, so that it can't be moved to another place. The first secret seals, all secrets open. To rotate, put the new secret
first, and drop the old one later.

    blob = 0x01 | key id (4 bytes) | nonce (12) | ciphertext and tag (16 more than the value)

The head of a record is plain text: scripts, routers and operators read it. Its seal is a MAC of 128 bits (BLAKE2b with
a key, which takes a third of the time of an HMAC). A text that is only there to be compared is stored as such a MAC
alone (`digest`), so that a reader of the store can't test guesses. Each purpose has a subkey of its own.

    seal of a head = key id (8 hex digits) | MAC (32 hex digits)

Nonces are random. They are not counted, because a forked or restored process would repeat them. After 2**40 values
under one secret the chance of a repetition is 2**-17; at a thousand writes a second that takes 35 years. Rotate well
before.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from framehold_core.errors import ConfigError, SealError
from framehold_core.ids import CallId, prefix
from framehold_core.requests import Head

MIN_KEY = 32
"""The least length of a secret, in bytes."""
_VERSION = b"\x01"
_ID = slice(1, 5)
_NONCE = slice(5, 17)
_BODY = 17
_TAG = 16
_HEAD = "framehold head 1"
_DIGEST = "framehold digest 1"


def derive(secret: bytes, info: str, length: int) -> bytes:
    """A subkey of `length` bytes for the purpose that `info` names (HKDF-SHA256)."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info.encode()).derive(secret)


def _mac(key: bytes, data: bytes) -> str:
    return hashlib.blake2b(data, key=key, digest_size=16).hexdigest()


class Sealer:
    """Seals and opens values of one namespace.

    Raises:
        ConfigError: there is no key, or one is shorter than 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes], namespace: str) -> None:
        if not keys:
            raise ConfigError("FRAMEHOLD_KEYS is empty; nothing was started; make a key with `framehold keys new`")
        for index, key in enumerate(keys, 1):
            if len(key) < MIN_KEY:
                raise ConfigError(
                    f"FRAMEHOLD_KEYS: key {index} of {len(keys)} has {len(key)} bytes, at least {MIN_KEY} are needed; "
                    "nothing was started; make one with `framehold keys new`"
                )
        self._keys = tuple((derive(key, "framehold key id 1", 4), key) for key in keys)
        self._place = f"{len(namespace)}:{namespace}"
        self._subkeys: dict[str, tuple[tuple[bytes, AESGCM], ...]] = {}
        self._heads = tuple((name.hex(), derive(key, _HEAD, 32)) for name, key in self._keys)
        self._digests = {name.hex(): derive(key, _DIGEST, 32) for name, key in self._keys}

    def seal(self, purpose: str, value: bytes, *, call: str, n: int, kind: str, key: str) -> bytes:
        """`value`, sealed for one purpose and one place: the entry at position `n` of a call, with its kind and key."""
        name, cipher = (self._subkeys.get(purpose) or self._subkeys_of(purpose))[0]
        nonce = os.urandom(12)
        return b"".join((_VERSION, name, nonce, cipher.encrypt(nonce, value, self._where(call, n, kind, key))))

    def open(self, purpose: str, value: bytes, *, call: str, n: int, kind: str, key: str) -> bytes:
        """The value that `seal` sealed for exactly this purpose and place.

        Raises:
            SealError: no key of this fleet sealed these bytes for this purpose and place.
        """
        if len(value) < _BODY + _TAG or value[:1] != _VERSION:
            raise SealError(
                f"the sealed {kind} at position {n} of call {prefix(call)} is no seal of this release; it was not "
                "opened; check who else writes this store, or let a node of a newer release take the call"
            )
        name, where = value[_ID], self._where(call, n, kind, key)
        known = False
        for candidate, cipher in self._subkeys.get(purpose) or self._subkeys_of(purpose):
            if candidate == name:
                known = True
                try:
                    return cipher.decrypt(value[_NONCE], value[_BODY:], where)
                except InvalidTag:
                    continue
        reason = "it was altered or moved" if known else "its key is not among FRAMEHOLD_KEYS"
        raise SealError(
            f"the sealed {kind} at position {n} of call {prefix(call)} does not verify: {reason}; it was not opened; "
            "keep old keys in FRAMEHOLD_KEYS until the last call that was begun under them has ended"
        )

    def head_seal(self, call: CallId, head: Head) -> str:
        """The seal of the head of a call's record."""
        name, key = self._heads[0]
        return name + _mac(key, self._stated(call, head))

    def knows_key(self, seal: str) -> bool:
        """Whether the key that a seal of a head names is one of the fleet's."""
        return seal[:8] in self._digests

    def is_sealed(self, call: CallId, head: Head) -> bool:
        """Whether this fleet made the seal of a head, for this call, and over all that the head says now."""
        stated, given = self._stated(call, head), head.seal.encode()
        keys = [(name, key) for name, key in self._heads if head.seal.startswith(name)]
        return any(hmac.compare_digest((name + _mac(key, stated)).encode(), given) for name, key in keys)

    def _stated(self, call: CallId, head: Head) -> bytes:
        """All of a head but its boot. Each text has its length in front, so that two heads never have equal bytes."""
        mark = "reentrant" if head.reentrant else ""
        what = (call, head.tool, head.method, head.target, head.code, mark, head.args, head.principal, head.strategy)
        return f"{self._place}{''.join([f'{len(text)}:{text}' for text in what])}".encode("utf-8", "surrogatepass")

    def digest(self, data: bytes, head: str = "") -> str:
        """A short name for bytes of which nobody without the keys can test a guess: 32 hex digits. What is compared in
        one call has to be named under one key: `head` is the seal of its head; without one the first key is taken."""
        key = self._digests.get(head[:8])
        return _mac(next(iter(self._digests.values())) if key is None else key, data)

    def _subkeys_of(self, purpose: str) -> tuple[tuple[bytes, AESGCM], ...]:
        """The subkeys of one purpose. They are derived on first use and kept; purposes are constants of the code, so
        there are few."""
        subkeys = tuple((name, AESGCM(derive(key, f"framehold seal 1 {purpose}", 32))) for name, key in self._keys)
        self._subkeys[purpose] = subkeys
        return subkeys

    def _where(self, call: str, n: int, kind: str, key: str) -> bytes:
        """The place as bytes. Each text has its length in front, so that two places never have equal bytes."""
        text = f"{self._place}{len(call)}:{call}{n}:{len(kind)}:{kind}{len(key)}:{key}"
        return text.encode("utf-8", "surrogatepass")
