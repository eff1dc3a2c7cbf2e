# SPDX-License-Identifier: Apache-2.0
"""A sender's key to a closed onion, given to the user's own tor for as long as a notification needs it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import pwd
import re
import secrets
import stat
from dataclasses import dataclass

from . import key_file
from .errors import TocsinError

_REPLY_TIME = 20.0
_LINE = re.compile(rb"([a-z2-7]{56}):descriptor:x25519:([A-Z2-7]{52})\s*")
_TOR_USERS = ("debian-tor", "tor", "_tor", "toranon")


class OnionKeyError(TocsinError):
    """The key file cannot be used, or tor does not take the key. The message contains no part of the key."""


def is_onion_label(label: str) -> bool:
    """Whether this is the part of a v3 onion address before ``.onion``, with a valid checksum."""
    if len(label) != 56:
        return False
    try:
        decoded = base64.b32decode(label.upper())
    except ValueError:
        return False
    key, checksum, version = decoded[:32], decoded[32:34], decoded[34:]
    return version == b"\x03" and hashlib.sha3_256(b".onion checksum" + key + version).digest()[:2] == checksum


def check_onion(host: str) -> None:
    """Raises :class:`ValueError` for a host in ``.onion`` that is no v3 onion address."""
    name = host.lower()
    if name.endswith(".onion") and not is_onion_label(name.removesuffix(".onion").rpartition(".")[2]):
        raise ValueError(
            f"{host} is not an onion address: before .onion, it has 56 letters and digits, which include a checksum. "
            "Copy the whole address"
        )


def signed_onion(host: str) -> bytes:
    """What a signature for a node at this host names: the public key in an onion address; zeros for any other host."""
    name = host.lower()
    if not name.endswith(".onion"):
        return bytes(32)
    # Subdomains of an onion address are not part of it.
    label = name.removesuffix(".onion").rpartition(".")[2]
    try:
        return base64.b32decode(label.upper())[:32]
    except ValueError:
        return bytes(32)


@dataclass(frozen=True, repr=False)
class OnionKey:
    """The key and the onion that it opens. Prints without the key."""

    label: str
    private_key: bytes

    @classmethod
    def read(cls, path: str) -> OnionKey:
        """Reads a line ``ADDRESS:descriptor:x25519:KEY``, as ``tocsin onion authorize`` writes it.

        :raises OnionKeyError: also if other users of the machine can read the file.
        """
        match = _LINE.fullmatch(key_file.read(path, 256, OnionKeyError))
        if match is None or not is_onion_label(match[1].decode()):
            raise OnionKeyError(f"{path} does not contain a line ADDRESS:descriptor:x25519:KEY")
        return cls(match[1].decode(), base64.b32decode(match[2] + b"===="))

    def __repr__(self) -> str:
        return "<OnionKey redacted>"


class TemporaryOnionKey:
    """Installs a key over tor's control port, and removes it afterwards. An async context manager."""

    def __init__(self, key: OnionKey, control: str) -> None:
        self._key = key
        self._control = control
        self._is_installed = False

    async def __aenter__(self) -> TemporaryOnionKey:
        mine = base64.b64encode(self._key.private_key).decode()
        try:
            control = await _Control.open(self._control)
            try:
                shown = await control.send(f"ONION_CLIENT_AUTH_VIEW {self._key.label}")
                present = next((line.split(" ") for line in shown if line[4:].startswith("CLIENT ")), None)
                if present is None:
                    await control.send(f"ONION_CLIENT_AUTH_ADD {self._key.label} x25519:{mine}", is_secret=True)
                    self._is_installed = True
                elif not hmac.compare_digest(present[2], f"x25519:{mine}"):
                    raise OnionKeyError(
                        f"the tor at {self._control} already has another key for {self._key.label}.onion; if that key "
                        f"is obsolete, remove it: ONION_CLIENT_AUTH_REMOVE {self._key.label} at the control port"
                    )
            finally:
                control.close()
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            text = getattr(error, "strerror", None) or "it does not answer"
            raise OnionKeyError(f"tor's control port at {self._control}: {text}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_installed:
            return
        try:
            control = await _Control.open(self._control)
            try:
                await control.send(f"ONION_CLIENT_AUTH_REMOVE {self._key.label}")
            finally:
                control.close()
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, OnionKeyError):
            pass  # A tor that has exited has already forgotten the key.


class _Control:
    """A connection to tor's control port, authenticated with tor's cookie (control-spec, SAFECOOKIE)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: str) -> _Control:
        if address.startswith("unix:"):
            opening = asyncio.open_unix_connection(address[5:])
        else:
            host, _, port = address.rpartition(":")
            opening = asyncio.open_connection(host, int(port))
        control = cls(*await asyncio.wait_for(opening, 5))
        try:
            await control._log_in(address)
        except BaseException:
            control.close()
            raise
        return control

    async def _log_in(self, address: str) -> None:
        offered = next((line for line in await self.send("PROTOCOLINFO 1") if line[4:].startswith("AUTH ")), "")
        methods = re.search(r"METHODS=(\S+)", offered)
        path = re.search(r'COOKIEFILE="((?:[^"\\]|\\.)*)"', offered)
        if methods and "NULL" in methods[1].split(","):
            raise OnionKeyError(
                f"the control port at {address} requires no authentication, so the process behind it need not be tor: "
                "set CookieAuthentication 1 in its torrc"
            )
        if not methods or "SAFECOOKIE" not in methods[1].split(",") or path is None:
            raise OnionKeyError(
                f"the tor at {address} does not offer cookie authentication: set CookieAuthentication 1 in its torrc"
            )
        cookie = _cookie(re.sub(r"\\(.)", r"\1", path[1]))
        nonce = secrets.token_bytes(32)
        challenge = (await self.send(f"AUTHCHALLENGE SAFECOOKIE {nonce.hex()}"))[-1]
        found = re.search(r"SERVERHASH=([0-9A-Fa-f]{64}) SERVERNONCE=([0-9A-Fa-f]{64})", challenge)
        server_nonce = bytes.fromhex(found[2]) if found else b""
        label = b"Tor safe cookie authentication %s hash"
        expected = hmac.digest(label % b"server-to-controller", cookie + nonce + server_nonce, "sha256")
        if found is None or not hmac.compare_digest(expected, bytes.fromhex(found[1])):
            raise OnionKeyError(
                f"the process at {address} is not the tor that wrote the cookie file: check what listens there"
            )
        answer = hmac.digest(label % b"controller-to-server", cookie + nonce + server_nonce, "sha256")
        await self.send(f"AUTHENTICATE {answer.hex()}")

    async def send(self, command: str, is_secret: bool = False) -> list[str]:
        self._writer.write(f"{command}\r\n".encode())
        reply: list[str] = []
        while not reply or reply[-1][3:4] != " ":
            line = await asyncio.wait_for(self._reader.readuntil(b"\n"), _REPLY_TIME)
            reply.append(line.decode(errors="replace").rstrip())
            if len(reply) > 1000:
                raise OnionKeyError("the reply of tor's control port is too long")
        if not reply[-1].startswith("25"):
            # The reply may repeat a key.
            raise OnionKeyError(f"tor rejected {command.split()[0]}: {reply[-1][:3] if is_secret else reply[-1]}")
        return reply

    def close(self) -> None:
        self._writer.close()


def _cookie(path: str) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_tor(status.st_uid):
                raise OnionKeyError(
                    f"the control port's cookie file {path} belongs neither to this user nor to root nor to tor's "
                    "user: the process behind the port may not be tor"
                )
            cookie = file.read(33)
    except OSError as error:
        raise OnionKeyError(
            f"cannot read tor's cookie file {path}: {error.strerror}; on Debian, members of the group debian-tor can"
        ) from None
    if len(cookie) != 32:
        raise OnionKeyError(f"{path} is not a cookie file of tor: check which process listens at the control port")
    return cookie


def _is_tor(user: int) -> bool:
    if user in (os.geteuid(), os.getuid(), 0):
        return True
    try:
        return pwd.getpwuid(user).pw_name in _TOR_USERS
    except KeyError:
        return False
