# SPDX-License-Identifier: Apache-2.0
"""A sealed notification and its SUBMIT frame (PROTOCOL §3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from .errors import RejectionError
from .handle import Handle
from .web_push import check_endpoint
from .wire import FrameType, encoded_field, frame

MAXIMUM_TTL = 2_419_200
"""The longest time that Apple and Google keep a notification, in seconds: 28 days."""


class Magic(str, Enum):
    """The push service of a phone: the first part of a pairing token."""

    IOS = "iOS"
    IOS_DEV = "iOSDev"
    ANDROID = "android"
    WEB = "web"
    """Web Push: the server that the device token names."""


class Format(str, Enum):
    """The envelope format that a phone's app decrypts."""

    PIPE = "pipe"
    """AES-256-CBC (Bisq 1, Haveno)."""
    SEALED = "sealed"
    """AES-256-GCM (Bisq Connect)."""


class Signature(NamedTuple):
    """Who signs a submission."""

    key: bytes
    """The public sender key, 32 bytes."""
    signature: bytes
    """Its signature of the envelope's digest, 64 bytes."""
    succession: bytes | None = None
    """Names the key as the successor of another one, 96 bytes."""

    def __repr__(self) -> str:
        return "<Signature redacted>"


@dataclass(frozen=True, repr=False)
class Envelope:
    """A sealed notification whose fields conform to PROTOCOL §3. Prints without its content.

    Raises :class:`RejectionError` with the first rule that a field breaks.
    """

    magic: Magic
    device_token: str
    iv: bytes
    ciphertext: bytes
    format: Format
    app: str = ""
    """The name of an app of the node; empty for its first app."""
    ttl: int = MAXIMUM_TTL
    """How long the push service may keep the notification, in seconds; 0 for now or never."""
    is_urgent: bool = True
    """Whether the provider delivers at once, and not when it suits the phone's battery."""
    sound: bool = True
    collapse_id: str | None = None
    """A later notification with the same id replaces an earlier one."""
    handle: Handle | None = None
    """Addresses the phone in the place of the device token."""
    digest: bytes = field(init=False)
    """The identity of the envelope: the node recognises a resend by it."""

    def __post_init__(self) -> None:
        if self.handle is None:
            check_device_token(self.magic, self.device_token)
        if self.magic is Magic.WEB:
            _check_web_push(self.iv, self.ciphertext)
        else:
            _check_sealed(self.format, self.iv, self.ciphertext)
        if not 0 <= self.ttl <= MAXIMUM_TTL:
            raise RejectionError(108, f"ttl is not between 0 and {MAXIMUM_TTL} seconds")
        if self.collapse_id is not None:
            _check_collapse_id(self.collapse_id)
        object.__setattr__(self, "digest", self._digest())

    def __repr__(self) -> str:
        return "<Envelope redacted>"

    @property
    def address(self) -> str:
        """What the sender addresses the phone by."""
        return self.device_token if self.handle is None else self.handle.reveal()

    def _digest(self) -> bytes:
        magic, address = self.magic.value.encode(), self.device_token.encode()
        if self.handle is not None:
            magic, address = b"", self.handle.bytes
        parts = (self.app.encode(), magic, address, self.iv, self.ciphertext)
        hashed = blake2b(b"tnp1-envelope", digest_size=32)
        for part in parts:
            hashed.update(struct.pack(">H", len(part)) + part)
        return hashed.digest()


@dataclass(frozen=True, repr=False)
class Submission:
    """SUBMIT without its request number and its proof of work. Prints without its content."""

    envelope: Envelope
    accept_queued: bool = False
    signature: Signature | None = None

    def __repr__(self) -> str:
        return "<Submission redacted>"

    may_need_proof = True

    @property
    def digest(self) -> bytes:
        """What a proof of work is for."""
        return self.envelope.digest

    @property
    def is_for_first_node(self) -> bool:
        """Whether no node but the first, which keeps the handle, can deliver it."""
        return self.envelope.handle is not None

    def encode(self, request: int, proof: bytes | None) -> bytes:
        """Encodes the frame. The order of the tags is ascending, as the protocol requires."""
        envelope = self.envelope
        fields = []
        if envelope.handle is None:
            fields = [(0x01, envelope.magic.value.encode()), (0x02, envelope.device_token.encode())]
        if envelope.iv:
            fields.append((0x03, envelope.iv))
        fields.append((0x04, envelope.ciphertext))
        if envelope.ttl != MAXIMUM_TTL:
            fields.append((0x05, struct.pack(">I", envelope.ttl)))
        if not envelope.is_urgent:
            fields.append((0x06, b"\x05"))
        if not envelope.sound:
            fields.append((0x07, b"\x00"))
        if envelope.collapse_id is not None:
            fields.append((0x08, envelope.collapse_id.encode()))
        if self.accept_queued:
            fields.append((0x09, b"\x01"))
        if envelope.app:
            fields.append((0x0A, envelope.app.encode()))
        if envelope.handle is not None:
            fields.append((0x0B, envelope.handle.bytes))
        if proof is not None:
            fields.append((0x10, proof))
        if self.signature is not None:
            fields += [(0x11, self.signature.key), (0x12, self.signature.signature)]
            if self.signature.succession is not None:
                fields.append((0x82, self.signature.succession))
        return frame(
            FrameType.SUBMIT, struct.pack(">I", request) + b"".join(encoded_field(tag, value) for tag, value in fields)
        )


def check_device_token(magic: Magic, token: str) -> None:
    """The one rule for device tokens, here and in a node.

    :raises RejectionError: if the token breaks it.
    """
    length = len(token.encode())
    if magic is Magic.WEB:
        check_endpoint(token)
    elif not 1 <= length <= 512:
        raise RejectionError(102, "the device token must be 1 to 512 bytes")
    elif magic is Magic.ANDROID:
        if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in token):
            raise RejectionError(102, "a Google device token must be text without spaces or control characters")
    elif not length or length % 2 or length > 200 or any(character not in "0123456789abcdefABCDEF" for character in token):
        raise RejectionError(102, "an Apple device token must be 2 to 200 hexadecimal digits, an even number")


_OTHER_FORMAT = "the notification has the format {}, but the app takes {}: is it a pairing of another app?"


def _check_sealed(form: Format, iv: bytes, ciphertext: bytes) -> None:
    if form is Format.PIPE:
        if len(iv) == 12:
            raise RejectionError(103, _OTHER_FORMAT.format("sealed", "pipe"))
        if len(iv) != 16 or any(not 0x20 <= byte <= 0x7E or byte == 0x7C for byte in iv):
            raise RejectionError(103, "this app requires an iv of 16 printable ASCII characters except |")
        if not 16 <= len(ciphertext) <= 3072 or len(ciphertext) % 16:
            raise RejectionError(104, "this app requires a ciphertext of 16 to 3072 bytes, a multiple of 16")
    else:
        if len(iv) == 16:
            raise RejectionError(103, _OTHER_FORMAT.format("pipe", "sealed"))
        if len(iv) != 12:
            raise RejectionError(103, "this app requires an iv of 12 bytes")
        if not 17 <= len(ciphertext) <= 3072:
            raise RejectionError(104, "this app requires a ciphertext of 17 to 3072 bytes")


def _check_web_push(iv: bytes, ciphertext: bytes) -> None:
    if iv:
        raise RejectionError(103, "Web Push has no iv")
    if not 1 <= len(ciphertext) <= 4096:
        raise RejectionError(104, "Web Push requires a ciphertext of 1 to 4096 bytes")


def _check_collapse_id(collapse_id: str) -> None:
    encoded = collapse_id.encode()
    if (
        not 1 <= len(encoded) <= 64
        or any(byte < 0x20 or byte == 0x7F for byte in encoded)
        or collapse_id.startswith(" ")
        or collapse_id.endswith(" ")
    ):
        raise RejectionError(
            108, "the collapse id must be 1 to 64 bytes of UTF-8 without control characters or spaces at its ends"
        )
