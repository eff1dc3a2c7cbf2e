# SPDX-License-Identifier: Apache-2.0
"""The key of a site: a sender that the operators of its nodes know (PROTOCOL §10)."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from . import key_file, wire
from .errors import TocsinError
from .onion_key import signed_onion

_LENGTH = 32


class SiteKeyError(TocsinError):
    """The key file cannot be used. The message contains no part of the key."""


@dataclass(frozen=True, repr=False)
class SiteKey:
    """The private key of a site. Prints without the key."""

    private_key: Ed25519PrivateKey

    @classmethod
    def read(cls, path: str) -> SiteKey:
        """Reads the 32 bytes that ``tocsin site key`` writes.

        :raises SiteKeyError: also if other users of the machine can read the file.
        """
        key = key_file.read(path, _LENGTH + 1, SiteKeyError)
        if len(key) != _LENGTH:
            raise SiteKeyError(f"{path} is not a site's key: tocsin site key FILE makes one")
        return cls(Ed25519PrivateKey.from_private_bytes(key))

    def authentication(self, seed: bytes, host: str) -> bytes:
        """Encodes AUTH for a connection to ``host`` whose WELCOME has a puzzle with this seed."""
        public_key = self.private_key.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        signature = self.private_key.sign(b"tnp1-site" + seed + signed_onion(host))
        fields = wire.encoded_field(0x30, public_key) + wire.encoded_field(0x31, signature)
        return wire.frame(wire.FrameType.AUTH, fields)
