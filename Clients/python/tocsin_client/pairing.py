# SPDX-License-Identifier: Apache-2.0
"""The pairing token of a phone, and what the desktop makes of it: sealed envelopes and signatures."""

from __future__ import annotations

import base64
import binascii
import os
import re
from hashlib import blake2b

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .envelope import MAXIMUM_TTL, Envelope, Format, Magic, Signature, check_device_token
from .errors import PairingError, RejectionError
from .handle import PREFIX, Handle
from .notification import BisqNotification, Schema
from .pasted import cut, doubt, token_in
from . import web_push

BUCKET = 256
"""Texts are padded with spaces to a multiple of this many bytes, so that their length does not reveal their type."""

MAXIMUM_PADDED = 2816
"""The largest padded text: the last bucket that fits into the limits of Apple and Google. A longer text is not padded
beyond what its cipher needs."""

MAXIMUM_TEXT = {Format.PIPE: 3072, Format.SEALED: 3072 - 16}
"""The longest clear text for Apple and Google: the longest ciphertext, in AES-GCM without its tag."""


class PairingToken:
    """The text that the phone gives the desktop by QR code: ``magic|descriptor|key|device token``, or, for a phone that
    has registered a handle, ``magic|descriptor|key|handle:HANDLE``. For Web Push, two parts follow: the receiver's public
    key and authentication secret in Base64url.

    Prints without its content. Raises :class:`PairingError` if ``text`` is not a pairing token.
    """

    def __init__(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PairingError("the text is not valid Unicode") from None
        parts = text.strip().split("|")
        if len(parts) not in (4, 6):
            raise PairingError(
                "a pairing token has four parts, magic|descriptor|key|device token, and two more for Web Push; this "
                f"text has {len(parts)}"
            )
        try:
            self.magic = Magic(parts[0])
        except ValueError:
            raise PairingError("the first part, the magic, is not iOS, iOSDev, android or web") from None
        if (self.magic is Magic.WEB) != (len(parts) == 6):
            raise PairingError(
                f"a pairing token for {self.magic.value} has {6 if self.magic is Magic.WEB else 4} parts; this text has "
                f"{len(parts)}"
            )
        self.descriptor = parts[1]
        self._key, self.default_format = _key(parts[2])
        self.handle = _handle(parts[3])
        """The handle that a node keeps for this phone; ``None`` if the pairing has a device token."""
        self.device_token = parts[3] if self.handle is None else ""
        if self.handle is not None:
            pass
        elif self.magic is Magic.ANDROID and len(self.device_token.encode()) < 32:
            raise PairingError("the fourth part, the device token, has fewer than 32 characters")
        else:
            try:
                check_device_token(self.magic, self.device_token)
            except RejectionError as error:
                raise PairingError(f"the fourth part: {error}") from None
        self._web_push = _web_push_keys(parts[4], parts[5]) if self.magic is Magic.WEB else None
        self._text = "|".join(parts)

    @classmethod
    def pasted(cls, text: str) -> PairingToken:
        """The pairing token in a text that somebody pasted: what mail programs, editors and web pages do to it (line
        breaks, quotation marks, quoted-printable, HTML, look-alike letters, a signature after it) is undone.

        :raises PairingError: if no pairing token remains, or Google cannot have issued its device token.
        """
        error = PairingError("")
        plain = text.strip(" \t\r\n")
        # Other white space is damage.
        for candidate in (plain, token_in(text)) if plain == plain.strip() else (token_in(text),):
            try:
                pairing = cls(candidate)
            except PairingError as failure:
                error = failure
                continue
            problem = doubt(pairing.magic.value, pairing.device_token)
            if problem is None and candidate is not plain:
                problem = cut(pairing.magic.value, pairing.device_token)
            if problem is None:
                return pairing
            error = PairingError(problem)
        raise error

    def __repr__(self) -> str:
        return "<PairingToken redacted>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairingToken) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def reveal(self) -> str:
        """Returns the whole token with its key, e.g. to store it."""
        return self._text

    def with_handle(self, handle: Handle) -> PairingToken:
        """The same pairing, by a handle that a node keeps for this phone."""
        parts = self._text.split("|")
        return PairingToken("|".join(parts[:3] + [handle.reveal()] + parts[4:]))

    @property
    def address(self) -> str:
        """What senders address the phone by."""
        return self.device_token if self.handle is None else self.handle.reveal()

    @property
    def sender_seed(self) -> bytes:
        """The seed of :attr:`sender_key`, 32 bytes."""
        address = self.device_token.encode() if self.handle is None else self.handle.bytes
        return blake2b(b"tnp1-sender-seed" + address, digest_size=32, key=self._key).digest()

    @property
    def sender_key(self) -> Ed25519PrivateKey:
        """The key that signs submissions for this phone. All desktops with this pairing derive the same one."""
        return Ed25519PrivateKey.from_private_bytes(self.sender_seed)

    def sign(self, envelope: Envelope, *, succeeding: PairingToken | None = None) -> Signature:
        """Returns the public sender key and its signature of the envelope.

        :param succeeding: the pairing that the phone had before it was paired anew with the same device token: the
            notification moves the phone's binding to this pairing's sender key when it is delivered.
        :raises ValueError: if that pairing has another device token.
        """
        key = self.sender_key
        public = _public(key)
        signature = Signature(public, key.sign(b"tnp1-sender" + envelope.digest))
        if succeeding is None:
            return signature
        if self.handle is not None or self.identity != succeeding.identity:
            raise ValueError("the earlier pairing has another device token")
        earlier = succeeding.sender_key
        message = b"tnp1-successor" + public + self.identity.encode()
        return signature._replace(succession=_public(earlier) + earlier.sign(message))

    @property
    def identity(self) -> str:
        """The device token as nodes know the phone by it: Apple's hexadecimal digits in lower case."""
        return self.device_token.lower() if self.magic in (Magic.IOS, Magic.IOS_DEV) else self.device_token

    def seal(
        self,
        content: BisqNotification | bytes,
        *,
        app: str = "",
        ttl: int = MAXIMUM_TTL,
        sound: bool = True,
        is_urgent: bool = True,
        collapse_id: str | None = None,
        format: Format | None = None,
        iv: bytes | None = None,
        padding: int = BUCKET,
        schema: Schema = Schema.BISQ,
    ) -> Envelope:
        """Seals a notification or a clear text for this phone.

        :param schema: which fields a notification has.
        :param iv: an initialisation vector, which must not be used twice; random by default. Web Push has none.
        :param padding: the bucket in bytes; 1 for no more padding than the cipher needs.
        :raises RejectionError: if the envelope breaks a rule of the protocol, e.g. because the text is too long.
        """
        form = format or self.default_format
        text = content if isinstance(content, bytes) else content.encode(form, schema)
        room = web_push.MAXIMUM_TEXT if self._web_push is not None else MAXIMUM_TEXT[form]
        if len(text) > room:
            raise RejectionError(
                104,
                f"the text is too long by {len(text) - room} bytes: letters beyond ASCII have 2 to 4 bytes, and ' < > & = 6",
            )
        if self._web_push is not None:
            return Envelope(
                self.magic, self.device_token, b"", web_push.seal(padded(text, padding, Format.SEALED), *self._web_push),
                form, app=app, ttl=ttl, is_urgent=is_urgent, sound=sound, collapse_id=collapse_id, handle=self.handle,
            )
        if iv is None:
            iv = os.urandom(12) if form is Format.SEALED else base64.b64encode(os.urandom(12))
        text = padded(text, padding, form)
        if form is Format.SEALED:
            ciphertext = AESGCM(self._key).encrypt(iv, text, None) if len(iv) == 12 else b""
        elif len(iv) == 16:
            encryptor = Cipher(algorithms.AES(self._key), modes.CBC(iv)).encryptor()
            ciphertext = encryptor.update(text) + encryptor.finalize()
        else:
            ciphertext = b""
        return Envelope(
            self.magic, self.device_token, iv, ciphertext, form, app=app, ttl=ttl, is_urgent=is_urgent, sound=sound,
            collapse_id=collapse_id, handle=self.handle,
        )


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def padded(text: bytes, bucket: int, form: Format) -> bytes:
    """Pads a text with spaces, which the phones' JSON parsers skip."""
    length = -(-len(text) // bucket) * bucket
    if length > MAXIMUM_PADDED:
        length = max(len(text), MAXIMUM_PADDED)
    block = 16 if form is Format.PIPE else 1
    return text.ljust(-(-length // block) * block)


def _handle(text: str) -> Handle | None:
    if not text.startswith(PREFIX):
        return None
    try:
        return Handle.parse(text)
    except ValueError as error:
        raise PairingError(f"the fourth part is not a handle: {error}") from None


def _web_push_keys(receiver: str, secret: str) -> tuple[bytes, bytes]:
    keys = _base64url(receiver), _base64url(secret)
    try:
        web_push.receiver_key(keys[0])
    except ValueError:
        raise PairingError("the fifth part is not the Base64url of a public key of P-256") from None
    if len(keys[1]) != 16:
        raise PairingError("the sixth part is not the Base64url of an authentication secret of 16 bytes")
    return keys


def _base64url(text: str) -> bytes:
    """Decodes Base64url without padding; empty if the text is something else."""
    if re.fullmatch("[A-Za-z0-9_-]*", text) is None or len(text) % 4 == 1:
        return b""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _key(text: str) -> tuple[bytes, Format]:
    encoded = text.encode()
    if len(encoded) == 32:
        return encoded, Format.PIPE
    if len(encoded) == 44:
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) == 32:
            return key, Format.SEALED
    raise PairingError(
        f"the third part, the key, has {len(encoded)} bytes; it must have 32, or be Base64 of 32 bytes"
    )
