"""Seals stored values, so that somebody who can write to the store but lacks the keys can't forge a value of a call.

AES-256-GCM. From each secret of the fleet one subkey per purpose is derived (HKDF-SHA256), so that a value sealed as an
answer can't be opened as an outcome. The place of a value (namespace, call, position, kind, key) is authenticated with
it, so that it can't be moved to another place. The first secret seals, all secrets open. To rotate, put the new secret
first, and drop the old one later.

    blob = 0x01 | key id (4 bytes) | nonce (12) | ciphertext and tag (16 more than the value)

Nonces are random. They are not counted, because a forked or restored process would repeat them. After 2**40 values
under one secret the chance of a repetition is 2**-17; at a thousand writes a second that takes 35 years. Rotate well
before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from framehold_core.errors import ConfigError, SealError
from framehold_core.ids import prefix

MIN_KEY = 32
"""The least length of a secret, in bytes."""
_VERSION = b"\x01"
_ID = slice(1, 5)
_NONCE = slice(5, 17)
_BODY = 17
_TAG = 16


def derive(secret: bytes, info: str, length: int) -> bytes:
    """A subkey of `length` bytes for the purpose that `info` names (HKDF-SHA256)."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info.encode()).derive(secret)


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
