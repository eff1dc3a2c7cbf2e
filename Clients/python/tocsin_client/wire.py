# SPDX-License-Identifier: Apache-2.0
"""The frames and messages of TNP/1 (PROTOCOL §1, §2, §4–§6), as values. This module does no I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

from .errors import ProtocolError
from .outcome import Kind, Outcome

VERSION = 1
"""The protocol version of this client."""

MAXIMUM_NODE_FRAME = 128 * 1024
"""The largest ``length`` of a frame that the client accepts; a WELCOME with many routes is the largest one."""

MAXIMUM_AGENT = 64
"""The largest agent in HELLO, in bytes."""


class FrameType(IntEnum):
    """The type byte of a frame."""

    HELLO = 0x01
    WELCOME = 0x02
    SUBMIT = 0x03
    RESULT = 0x04
    PING = 0x05
    PONG = 0x06
    PUZZLE = 0x07
    GOAWAY = 0x08
    REGISTER = 0x10
    REGISTERED = 0x11
    ROTATE = 0x12
    FORGET = 0x13
    AUTH = 0x14
    AUTHED = 0x15


FIRST_SKIPPABLE = 0x80
"""Unknown frame types and field tags from here on are skipped."""


class Features(IntFlag):
    """The feature bits of WELCOME (PROTOCOL §2)."""

    DURABLE_QUEUE = 1
    PROOF_OF_WORK = 2
    SENDER_KEYS = 4
    SENDER_KEYS_REQUIRED = 8
    HANDLES = 16
    SITE_KEYS = 32


class Code(IntEnum):
    """The known codes of GOAWAY (PROTOCOL §6)."""

    SHUTTING_DOWN = 0
    PROTOCOL_ERROR = 1
    VERSION = 2
    FRAME_TOO_LARGE = 3
    IDLE = 4
    BUSY = 5
    ABUSE = 6
    HANDSHAKE_TIMEOUT = 7


@dataclass(frozen=True)
class Puzzle:
    """The proof of work that a node requires (PROTOCOL §5); ``effort`` 0 requires none."""

    seed: bytes
    effort: int
    lifetime: int


@dataclass(frozen=True)
class Welcome:
    """WELCOME: the node's answer to HELLO. ``server_time`` is Unix time in milliseconds, to the minute."""

    version: int
    features: Features
    max_frame: int
    max_in_flight: int
    idle_timeout: int
    server_time: int
    puzzle: Puzzle
    routes: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """RESULT: the outcome of one submission."""

    request: int
    outcome: Outcome


@dataclass(frozen=True)
class GoAway:
    """GOAWAY: the announcement that a connection ends. ``retry_after`` is in milliseconds."""

    code: int
    retry_after: int = 0
    text: str = ""

    @property
    def answers_in_flight(self) -> bool:
        """Whether the node answers what it has accepted before it closes the connection."""
        return self.code in (Code.SHUTTING_DOWN, Code.IDLE)

    @property
    def is_fatal(self) -> bool:
        """Whether the node would close a new connection for the same reason."""
        return self.code not in (Code.SHUTTING_DOWN, Code.IDLE, Code.BUSY, Code.HANDSHAKE_TIMEOUT)

    @property
    def reason(self) -> str:
        """One sentence for a person."""
        text = self.text or f"GOAWAY with code {self.code}"
        return f"{text}; try again in {(self.retry_after + 999) // 1000} s" if self.retry_after else text


@dataclass(frozen=True)
class Ping:
    """PING, to be answered with the same bytes."""

    opaque: bytes


@dataclass(frozen=True)
class Authenticated:
    """AUTHED: whether the node has accepted the site's key (PROTOCOL §10)."""

    is_accepted: bool
    name: str | None = None


@dataclass(frozen=True)
class Registered:
    """REGISTERED: the answer to a request about a handle."""

    request: int
    outcome: Outcome
    handle: bytes | None = None
    """32 bytes, if the request was accepted."""


Message = Welcome | Result | Puzzle | GoAway | Ping | Registered | Authenticated


def frame(kind: FrameType, payload: bytes) -> bytes:
    """Encodes one frame."""
    return struct.pack(">IB", len(payload) + 1, kind) + payload


def hello(agent: str = "") -> bytes:
    """Encodes HELLO. Leave ``agent`` empty, so that the client does not differ from others."""
    name = agent.encode()
    if len(name) > MAXIMUM_AGENT:
        raise ValueError(f"an agent has at most {MAXIMUM_AGENT} bytes")
    return frame(FrameType.HELLO, b"TNP" + bytes([VERSION, VERSION, len(name)]) + name)


def pong(opaque: bytes) -> bytes:
    """Encodes PONG."""
    return frame(FrameType.PONG, opaque)


def encoded_field(tag: int, value: bytes) -> bytes:
    """Encodes one field: tag, length and value."""
    return struct.pack(">BH", tag, len(value)) + value


@dataclass
class FrameDecoder:
    """Cuts received bytes into messages. Memory is bounded by :data:`MAXIMUM_NODE_FRAME`."""

    _buffer: bytearray = field(default_factory=bytearray)

    def messages(self, received: bytes) -> Iterator[Message | None]:
        """Yields the messages that are complete now; ``None`` for a frame that needs no reaction.

        Raises :class:`ProtocolError` if the bytes are not frames that a node may send.
        """
        self._buffer += received
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length == 0:
                raise ProtocolError("a frame has length 0")
            if length > MAXIMUM_NODE_FRAME:
                raise ProtocolError(f"a frame of {length} bytes exceeds {MAXIMUM_NODE_FRAME}", Code.FRAME_TOO_LARGE)
            if len(self._buffer) < 4 + length:
                return
            kind, payload = self._buffer[4], bytes(self._buffer[5 : 4 + length])
            del self._buffer[: 4 + length]
            yield _message(kind, payload)


class _Reader:
    """Reads the parts of a payload in order."""

    def __init__(self, payload: bytes, name: str) -> None:
        self._rest = memoryview(payload)
        self._name = name

    def take(self, count: int) -> bytes:
        if count > len(self._rest):
            raise ProtocolError(f"{self._name} is too short")
        taken, self._rest = self._rest[:count], self._rest[count:]
        return bytes(taken)

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def text(self, count: int) -> str:
        try:
            return self.take(count).decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"{self._name} has text that is not UTF-8") from None

    def rest(self) -> str:
        return self.text(len(self._rest))

    def kind(self) -> Kind:
        try:
            return Kind(self.number(1))
        except ValueError:
            raise ProtocolError(f"{self._name} has an unknown outcome") from None

    def puzzle(self) -> Puzzle:
        return Puzzle(seed=self.take(16), effort=self.number(4), lifetime=self.number(4))

    def finish(self) -> None:
        if self._rest:
            raise ProtocolError(f"{self._name} is too long")

    def fields(self) -> Iterator[tuple[int, bytes]]:
        previous = -1
        while self._rest:
            tag = self.number(1)
            if tag <= previous:
                raise ProtocolError(f"{self._name} has fields out of order")
            previous = tag
            yield tag, self.take(self.number(2))


_SENDERS_FRAMES = (
    FrameType.HELLO, FrameType.SUBMIT, FrameType.REGISTER, FrameType.ROTATE, FrameType.FORGET, FrameType.AUTH,
)


def _message(kind: int, payload: bytes) -> Message | None:
    """Decodes a payload; ``None`` for a message that needs no reaction."""
    if kind == FrameType.WELCOME:
        return _welcome(payload)
    if kind == FrameType.RESULT:
        return _result(payload)
    if kind == FrameType.PUZZLE:
        reader = _Reader(payload, "PUZZLE")
        puzzle = reader.puzzle()
        reader.finish()
        return puzzle
    if kind == FrameType.GOAWAY:
        reader = _Reader(payload, "GOAWAY")
        return GoAway(code=reader.number(2), retry_after=reader.number(4), text=reader.rest())
    if kind in (FrameType.PING, FrameType.PONG):
        if len(payload) != 8:
            raise ProtocolError("PING and PONG have 8 bytes")
        return Ping(payload) if kind == FrameType.PING else None
    if kind == FrameType.REGISTERED:
        return _registered(payload)
    if kind == FrameType.AUTHED:
        return _authenticated(payload)
    if kind in _SENDERS_FRAMES:
        raise ProtocolError("a frame type that only a sender may send")
    if kind >= FIRST_SKIPPABLE:
        return None
    raise ProtocolError(f"unknown frame type 0x{kind:02x}")


def _welcome(payload: bytes) -> Welcome:
    reader = _Reader(payload, "WELCOME")
    version = reader.number(1)
    if version != VERSION:
        raise ProtocolError(f"WELCOME selects version {version}, which HELLO did not offer", Code.VERSION)
    welcome = Welcome(
        version=version,
        features=Features(reader.number(2)),
        max_frame=reader.number(4),
        max_in_flight=reader.number(2),
        idle_timeout=reader.number(4),
        server_time=reader.number(8),
        puzzle=reader.puzzle(),
        routes=tuple(reader.text(reader.number(1)) for _ in range(reader.number(1))),
    )
    reader.finish()
    return welcome


def _authenticated(payload: bytes) -> Authenticated:
    reader = _Reader(payload, "AUTHED")
    is_accepted = reader.number(1) == Kind.DELIVERED
    reader.number(2)
    names = [value.decode(errors="replace") for tag, value in reader.fields() if tag == 0x32]
    return Authenticated(is_accepted, names[0] if names else None)


def _registered(payload: bytes) -> Registered:
    reader = _Reader(payload, "REGISTERED")
    request, kind = reader.number(4), reader.kind()
    if kind is Kind.QUEUED:
        raise ProtocolError("REGISTERED has an unknown outcome")
    outcome = Outcome(kind, reader.number(2), reader.number(4))
    handles = [value for tag, value in reader.fields() if tag == 0x0B]
    if any(len(handle) != 32 for handle in handles):
        raise ProtocolError("REGISTERED has a handle that is not 32 bytes long")
    return Registered(request, outcome, handles[0] if handles else None)


def _result(payload: bytes) -> Result:
    reader = _Reader(payload, "RESULT")
    request, kind = reader.number(4), reader.kind()
    reason, retry_after = reader.number(2), reader.number(4)
    texts: dict[int, str] = {}
    numbers: dict[int, int] = {}
    for tag, value in reader.fields():
        if tag in (0x01, 0x02):
            texts[tag] = value.decode(errors="replace")
        elif tag in (0x03, 0x04, 0x05):
            if len(value) != (8 if tag == 0x03 else 4):
                raise ProtocolError("RESULT has a number of the wrong width")
            numbers[tag] = int.from_bytes(value, "big")
    return Result(
        request,
        Outcome(
            kind, reason, retry_after, provider_id=texts.get(1), text=texts.get(2), gone_since=numbers.get(3),
            left=numbers.get(4), full_in=numbers.get(5),
        ),
    )
