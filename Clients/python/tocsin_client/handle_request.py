# SPDX-License-Identifier: Apache-2.0
"""What the owner of a handle asks of a node (PROTOCOL §11)."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from . import key_file
from .errors import TocsinError
from .handle import Handle
from .onion_key import signed_onion
from .outcome import Outcome
from .pairing import PairingToken
from .wire import FrameType, encoded_field, frame

MAXIMUM_SENDER_KEYS = 8
"""The largest number of sender keys of a handle."""

_KEY_LENGTH = 32
_PROOF_TAG = 0x10


class HandleOwnerError(TocsinError):
    """The file with an owner's key cannot be used. The message contains no part of the key."""


class HandleRefused(TocsinError):
    """The node did not accept a request about a handle. :attr:`outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.description)
        self.outcome = outcome


@dataclass(frozen=True, repr=False)
class HandleOwner:
    """The key of a handle's owner, who may change or end the handle. Prints without the key."""

    seed: bytes

    @classmethod
    def of(cls, pairing: PairingToken) -> HandleOwner:
        """The owner whose key all programs with a pairing can derive. Keep it in a file, because it is derived from the
        device token, which may change."""
        return cls(pairing.sender_seed)

    @classmethod
    def read(cls, path: str) -> HandleOwner:
        """Reads a file that :meth:`save` or ``tocsin register`` has written.

        :raises HandleOwnerError: also if other users of the machine can access the file.
        """
        seed = key_file.read(path, _KEY_LENGTH + 1, HandleOwnerError)
        if len(seed) != _KEY_LENGTH:
            raise HandleOwnerError(f"{path} is not the key of a handle's owner, which has {_KEY_LENGTH} bytes")
        return cls(seed)

    def save(self, path: str) -> None:
        """Creates a file with the key.

        :raises HandleOwnerError: if the file cannot be created, e.g. because it exists.
        """
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(self.seed)
        except OSError as cause:
            raise HandleOwnerError(f"cannot create {path}: {cause.strerror}") from None

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def public_key(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)

    def sign(self, message: bytes) -> bytes:
        """Returns the signature of a message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return "<HandleOwner redacted>"


@dataclass(frozen=True, repr=False)
class HandleRequest:
    """REGISTER, ROTATE or FORGET: what the owner of a handle asks of the node."""

    kind: FrameType
    fields: Sequence[tuple[int, bytes]]
    """The fields that the owner signs, in ascending order of tag."""
    owner: HandleOwner
    host: str
    """The node's host: what is signed for one onion is not valid at another."""
    address: str
    """Decides which connections the request uses."""
    digest: bytes = field(init=False)
    """The hash that the owner signs, and that a proof of work is for."""
    is_for_first_node: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        signed = b"".join(encoded_field(tag, value) for tag, value in self.fields)
        object.__setattr__(self, "digest", blake2b(signed, digest_size=32).digest())

    def __repr__(self) -> str:
        return "<HandleRequest redacted>"

    @classmethod
    def register(
        cls, phone: PairingToken, app: str, sender_keys: Sequence[bytes], sequence: int, owner: HandleOwner, host: str
    ) -> HandleRequest:
        """Asks for a handle for a phone."""
        named = [(0x0A, app.encode())] if app else []
        fields = [*_phone(phone), *named, (0x20, owner.public_key), *_rest(sender_keys, sequence)]
        return cls(FrameType.REGISTER, fields, owner, host, phone.address)

    @classmethod
    def rotate(
        cls, handle: Handle, phone: PairingToken, sender_keys: Sequence[bytes], sequence: int, owner: HandleOwner,
        host: str,
    ) -> HandleRequest:
        """Puts another device token behind a handle."""
        fields = [*_phone(phone), (0x0B, handle.bytes), *_rest(sender_keys, sequence)]
        return cls(FrameType.ROTATE, fields, owner, host, handle.reveal())

    @classmethod
    def forget(cls, handle: Handle, sequence: int, owner: HandleOwner, host: str) -> HandleRequest:
        """Ends a handle."""
        return cls(FrameType.FORGET, [(0x0B, handle.bytes), *_rest([], sequence)], owner, host, handle.reveal())

    @property
    def may_need_proof(self) -> bool:
        """Whether the node may require a proof of work."""
        return self.kind is FrameType.REGISTER

    def encode(self, request: int, proof: bytes | None) -> bytes:
        """Encodes the frame."""
        signature = self.owner.sign(b"tnp1-handle" + bytes([self.kind]) + signed_onion(self.host) + self.digest)
        fields = [*self.fields, (0x23, signature)]
        if proof is not None:
            fields = sorted([*fields, (_PROOF_TAG, proof)])
        return frame(
            self.kind, struct.pack(">I", request) + b"".join(encoded_field(tag, value) for tag, value in fields)
        )


def _phone(phone: PairingToken) -> list[tuple[int, bytes]]:
    if phone.handle is not None:
        raise ValueError("a pairing with a handle does not name the device token")
    return [(0x01, phone.magic.value.encode()), (0x02, phone.device_token.encode())]


def _rest(sender_keys: Sequence[bytes], sequence: int) -> list[tuple[int, bytes]]:
    if len(sender_keys) > MAXIMUM_SENDER_KEYS or any(len(key) != _KEY_LENGTH for key in sender_keys):
        raise ValueError(f"a handle has at most {MAXIMUM_SENDER_KEYS} sender keys of {_KEY_LENGTH} bytes each")
    keys = [(0x21, b"".join(sender_keys))] if sender_keys else []
    return [*keys, (0x22, struct.pack(">Q", sequence))]
