# SPDX-License-Identifier: Apache-2.0
"""Web Push: push endpoints (PROTOCOL §15), and the encryption of messages for a phone or browser (RFC 8291)."""

from __future__ import annotations

import os
import re
import struct

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .errors import RejectionError

_LABEL = r"(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"(?:{_LABEL}\.)*(?![0-9]){_LABEL}"
_ONION = rf"(?:{_LABEL}\.)*[a-z0-9]{{56}}\.onion"
_ENDPOINT = re.compile(
    rf"(?:https://(?P<name>{_NAME})|http://(?P<onion>{_ONION}))(?::(?P<port>[1-9][0-9]{{0,4}}))?"
    r"/[!$-;=?-\[\]_a-z~]*", re.ASCII)

_RECORD_SIZE = 4096
MAXIMUM_TEXT = _RECORD_SIZE - 16 - 4 - 1 - 65 - 1 - 16
"""The longest clear text: a message without its header, the mark of the last record and the tag (RFC 8188 §2)."""


def check_endpoint(url: str) -> None:
    """Raises :class:`RejectionError` unless ``url`` is a push endpoint, in the only valid way to write it."""
    match = _ENDPOINT.fullmatch(url)
    if match is None or len(url) > 1024:
        raise RejectionError(
            102, "a push endpoint is a URL of at most 1024 characters, https://NAME/PATH, with a lower-case name that is "
            "no IP address")
    name = match["name"] or match["onion"]
    if len(name) > 253 or int(match["port"] or 443) > 65535:
        raise RejectionError(102, "the push endpoint's name or port is not valid")
    if name.endswith(".onion") and not re.fullmatch(_ONION, name):
        raise RejectionError(102, "the push endpoint's name is no onion service of version 3")


def receiver_key(encoded: bytes) -> ec.EllipticCurvePublicKey:
    """Decodes a receiver's public key, a point of P-256 in uncompressed form. Raises :class:`ValueError`."""
    if len(encoded) != 65:
        raise ValueError("not an uncompressed point")
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), encoded)


def seal(
    text: bytes,
    receiver: bytes,
    secret: bytes,
    *,
    sender: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Encrypts a text for a receiver as a message in the content coding ``aes128gcm``.

    :param receiver: the receiver's public key, ``p256dh``.
    :param secret: the receiver's authentication secret, ``auth``.
    :param sender: a key for this message alone; a new one by default.
    :param salt: 16 random bytes.
    :raises RejectionError: if the text is too long.
    """
    if len(text) > MAXIMUM_TEXT:
        raise RejectionError(104, "the text is too long for Web Push")
    sender = sender or ec.generate_private_key(ec.SECP256R1())
    salt = salt or os.urandom(16)
    own = sender.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    shared = sender.exchange(ec.ECDH(), receiver_key(receiver))
    material = _derive(shared, secret, b"WebPush: info\0" + receiver + own, 32)
    key = _derive(material, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(material, salt, b"Content-Encoding: nonce\0", 12)
    record = AESGCM(key).encrypt(nonce, text + b"\x02", None)
    return salt + struct.pack(">IB", _RECORD_SIZE, len(own)) + own + record


def _derive(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(material)
