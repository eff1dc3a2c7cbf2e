# SPDX-License-Identifier: Apache-2.0
"""One node of a client: its session, and the shell that connects it and performs the session's actions."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import threading
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

from python_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError

from . import errors, session, wire
from .nodes import SLOW_PART, NodeState, State
from .options import Options, Progress
from .outcome import Outcome
from .puzzle import solve
from .session import Entry
from .wire import Code, GoAway, Puzzle

PING_AFTER = 20.0
"""The silence of a node that owes an answer after which the client sends PING, in seconds."""

SILENCE_LIMIT = 40.0
"""The silence of such a node after which the client gives up the connection, in seconds."""

IDLE_TIME = 60.0
"""How long an idle connection stays open, in seconds; less if the node's idle timeout is short."""

MAXIMUM_UNSENT = 1024 * 1024
"""Bytes of unsent output above which the client does not answer PING."""


@dataclass(eq=False, repr=False, kw_only=True)
class Waiter(Entry):
    """An entry with its caller."""

    future: asyncio.Future[Outcome]
    deadline: float
    """The value of ``time.monotonic()`` at which the caller gives up."""
    seconds: float
    """The caller's time limit."""
    returns_when_queued: bool
    link: Link | None = None
    excluded: set[int] = field(default_factory=set)
    """The nodes that cannot know what the request is about."""
    refused_by: set[int] = field(default_factory=set)
    """The nodes that answered RETRY for longer than the caller waits."""
    timer: asyncio.TimerHandle | None = None
    pause: asyncio.TimerHandle | None = None
    """Runs while the entry waits for a node's retry_after."""


@dataclass
class History:
    """What all channels of a client have seen."""

    has_connected: bool = False
    """Whether the client has ever reached a node. What fails then is no mistake of its settings."""


class Channel(Protocol):
    """What a link needs of the channel that it belongs to."""

    history: History
    options: Options
    loop: asyncio.AbstractEventLoop
    solvers: Executor
    is_closed: bool

    @property
    def is_active(self) -> bool: ...

    def now(self) -> float: ...

    def random(self) -> float: ...

    def report(self, progress: Progress) -> None: ...

    async def open(self, link: Link) -> None: ...

    def assign_waiting(self) -> None: ...

    def move_entries(self, link: Link, only_waiting: bool = False) -> None: ...

    def answered(self, link: Link, waiter: Waiter, outcome: Outcome) -> None: ...


class Link(asyncio.Protocol):
    """One node of a channel: its session, and the shell that connects it."""

    def __init__(self, channel: Channel, index: int) -> None:
        self.channel = channel
        self.index = index
        self.address = channel.options.nodes[index]
        self.node = NodeState()
        self.session = session.Session(
            does_work=channel.options.work_limit > 0, site_key=channel.options.site_key, host=self.address.host
        )
        self.failure: errors.SubmissionError | None = None
        """Why the last attempt failed, or the last connection ended."""
        self.connected_at = self.last_frame = 0.0
        self._transport: asyncio.Transport | None = None
        self._dial: asyncio.Task[None] | None = None
        self._dialled_at: float | None = None
        self._leaving: GoAway | None = None
        self._pinged = False
        self._idle_since: float | None = None
        self._searches: dict[Entry, threading.Event] = {}

    @property
    def is_busy(self) -> bool:
        """Whether there is a connection, or an attempt to open one."""
        return self._transport is not None or self._dial is not None

    # Connecting

    def wake(self) -> None:
        """Connects if there is a reason to and nothing speaks against it; then flushes."""
        node = self.node
        now = self.channel.now()
        if node.revive(now):
            self.channel.assign_waiting()
        if self._transport is not None or self._dial is not None or self.channel.is_closed:
            pass
        elif node.state is State.UNUSED and self.session.entries:
            self._start_dial(0.0)
        elif node.state is State.DOWN and self.channel.is_active:
            self._start_dial(max(0.0, node.retry_at - now))
        self.flush()

    def _start_dial(self, pause: float) -> None:
        if self.node.state is State.UNUSED:
            self.node.state = State.CONNECTING
        self._dial = self.channel.loop.create_task(self._connect(pause))

    async def _connect(self, pause: float) -> None:
        await asyncio.sleep(pause)
        if not self.channel.is_active:
            self._dial = None
            if self.node.state is State.CONNECTING:
                self.node.state = State.UNUSED
            return
        self.channel.report(Progress("connecting", self.address))
        self._dialled_at = self.channel.now()
        failure: errors.SubmissionError
        is_mistaken = False
        try:
            await asyncio.wait_for(self.channel.open(self), self.channel.options.connect_timeout)
            return
        except ProxyConnectionError as error:
            is_mistaken = _is_nothing_there(error)
            failure = errors.ProxyUnreachable(
                f"the SOCKS proxy at {self.channel.options.socks} cannot be reached: {_cause(error)}"
            )
        except ProxyError as error:
            failure = errors.NodeUnreachable(f"the node cannot be reached: the SOCKS proxy answered: {error}")
        except (ProxyTimeoutError, asyncio.TimeoutError):
            failure = errors.NodeUnreachable(
                f"the node cannot be reached: no connection within {self.channel.options.connect_timeout:g} s"
            )
        except OSError as error:
            is_mistaken = self.channel.options.socks is None and _is_nothing_there(error)
            failure = errors.NodeUnreachable(f"the node cannot be reached: {_cause(error)}")
        except Exception as error:  # noqa: BLE001: a library's surprise must not end the attempts in silence.
            failure = errors.NodeUnreachable(f"the node cannot be reached: {type(error).__name__}")
        # The time limit may pass at the moment of success.
        if self._dial is asyncio.current_task():
            self._end_dial()
            self.fail(failure, by_mistake=is_mistaken)

    def _end_dial(self) -> None:
        self._dial = self._dialled_at = None
        self.node.is_slow = False

    def fail(self, failure: errors.SubmissionError, at_least: float = 0.0, by_mistake: bool = False) -> None:
        """Marks the node as down. Its entries move to other nodes, and it is tried again later."""
        self.failure = failure
        self.node.state = State.DOWN
        pause = self.node.failed(self.channel.now(), self.channel.random(), at_least, by_mistake)
        self.channel.report(Progress("retrying", self.address, reason=str(failure), seconds=pause))
        self.channel.move_entries(self)
        self.wake()

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._end_dial()
        if self.channel.is_closed:
            transport.abort()
            return
        self._transport = transport
        self._leaving = None
        self._pinged = False
        self._idle_since = None
        self.node.state = State.CONNECTED
        self.channel.history.has_connected = True
        self.connected_at = self.last_frame = self.channel.now()
        self.channel.report(Progress("connected", self.address))
        transport.write(self.session.connected(self.channel.options.agent))
        self.channel.assign_waiting()
        self.flush()

    def data_received(self, data: bytes) -> None:
        actions: list[session.Action] = []
        error: errors.ProtocolError | None = None
        try:
            if self.session.received(data, actions):
                self.last_frame = self.channel.now()
                self._pinged = False
        except errors.ProtocolError as caught:
            error = caught
        for action in actions:
            self._perform(action)
        if error is not None:
            self.refuse(errors.ConnectionRefusedForGood(f"connection closed: the node does not speak TNP ({error})"))
        else:
            self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:
            return
        self._disconnect()
        leaving = self._leaving
        if leaving is not None and leaving.code != Code.IDLE:
            self.fail(_go_away_failure(leaving), leaving.retry_after / 1000)
            return
        reason = _cause(error) if isinstance(error, OSError) else "the connection was closed"
        self._lost(errors.NodeUnreachable(f"the node cannot be reached: {reason}"))

    def _lost(self, failure: errors.SubmissionError) -> None:
        """Connects again to a node that has proved itself; else other nodes come first."""
        if self.session.welcome is not None and not self.node.is_unreliable:
            self._reconnect(failure)
        else:
            self.fail(failure)

    def _reconnect(self, failure: errors.SubmissionError) -> None:
        """Connects to the same node again: entries in flight may already be known there, and ring once."""
        self.failure = failure
        if self.session.entries:
            self.node.state = State.CONNECTING
            pause = self.node.failed(self.channel.now(), self.channel.random())
            self.channel.report(Progress("retrying", self.address, reason=str(failure), seconds=pause))
            self._start_dial(pause)
        else:
            self.node.state = State.UNUSED

    def _disconnect(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self.session.disconnected()

    def refuse(self, failure: errors.ConnectionRefusedForGood) -> None:
        """Ends the connection for good."""
        self._disconnect()
        if self._dial is not None:
            self._dial.cancel()
            self._end_dial()
        self.failure = failure
        self.node.refused(self.channel.now(), failure.retry_after)
        self.channel.move_entries(self)

    def close(self) -> None:
        """Ends everything at once."""
        if self._dial is not None:
            self._dial.cancel()
        for cancelled in self._searches.values():
            cancelled.set()
        self._disconnect()
        if self.node.state in (State.CONNECTING, State.CONNECTED):
            self.node.state = State.UNUSED

    def flush(self) -> None:
        """Performs what is due in the session."""
        for action in self.session.flush(self.channel.now()):
            self._perform(action)
        if self._transport is not None and self.session.is_blocked_by_abandoned:
            self._disconnect()
            self._reconnect(errors.NodeUnreachable("abandoned submissions occupy all slots of the connection"))

    def _perform(self, action: session.Action) -> None:
        if isinstance(action, session.Send):
            # A node that sends PING but does not read gets no answer.
            if self._transport is not None and (
                len(action.data) > 16 or self._transport.get_write_buffer_size() < MAXIMUM_UNSENT
            ):
                self._transport.write(action.data)
        elif isinstance(action, session.Welcomed):
            self.channel.report(Progress("welcomed", self.address, welcome=action.welcome))
        elif isinstance(action, session.Answered):
            assert isinstance(action.entry, Waiter)
            self.node.answered()
            self.channel.answered(self, action.entry, action.outcome)
        elif isinstance(action, session.Leaving):
            self._leave(action.go_away)
        elif isinstance(action, session.Solve):
            self.channel.report(Progress("solving", self.address, effort=action.puzzle.effort))
            self._solve(action.entry, action.puzzle, action.seconds)
        else:
            self.stop_solving(action.entry)

    def _leave(self, go_away: GoAway) -> None:
        if self._transport is None:
            return
        if go_away.is_fatal:
            self.refuse(
                errors.ConnectionRefusedForGood(f"connection closed: {go_away.reason}", go_away.retry_after / 1000)
            )
            return
        self._leaving = go_away
        if go_away.code == Code.IDLE:
            # The node works: submissions it has not accepted wait for the next connection.
            self.node.state = State.CONNECTING
        else:
            self.node.state = State.DOWN
            self.channel.move_entries(self, only_waiting=True)
        if not go_away.answers_in_flight or not self.session.is_in_flight:
            self.connection_lost(None)

    # Proof of work

    def _solve(self, entry: Entry, puzzle: Puzzle, seconds: float) -> None:
        cancelled = threading.Event()
        self._searches[entry] = cancelled
        digest = entry.submission.digest

        def search() -> bytes | None:
            # The search may have waited for a thread: its time begins now.
            self.channel.loop.call_soon_threadsafe(self._search_began, entry, cancelled)
            return solve(puzzle, digest, secrets.randbits(64), time.monotonic() + seconds, cancelled)

        future = self.channel.loop.run_in_executor(self.channel.solvers, search)
        future.add_done_callback(lambda done: self._search_ended(entry, cancelled, done))

    def _search_began(self, entry: Entry, cancelled: threading.Event) -> None:
        # Another search may be running for the entry of a cancelled one.
        if not cancelled.is_set():
            self.session.search_began(entry, self.channel.now())

    def _search_ended(self, entry: Entry, cancelled: threading.Event, done: asyncio.Future[bytes | None]) -> None:
        # Ignores a cancelled search: another may be running for the same entry.
        if cancelled.is_set() or done.cancelled():
            return
        self._searches.pop(entry, None)
        proof = done.result()
        if proof is not None:
            self.session.solved(entry, proof, self.channel.now())
        else:
            for action in self.session.search_ended(entry):
                self._perform(action)
        self.flush()

    def stop_solving(self, entry: Entry) -> None:
        """Cancels the search for an entry's proof."""
        cancelled = self._searches.pop(entry, None)
        if cancelled is not None:
            cancelled.set()

    # Time

    def tick(self, now: float) -> None:
        """Watches for silence and idleness; called every second."""
        if self._transport is None:
            limit = self.channel.options.connect_timeout * SLOW_PART
            if self._dialled_at is not None and now - self._dialled_at >= limit:
                self.node.is_slow = True
                self.channel.move_entries(self)
            self.wake()
            return
        if self._leaving is not None and not self.session.is_in_flight:
            self.connection_lost(None)
        elif self.session.welcome is None or self.session.is_owed_answer or self._leaving is not None:
            self._idle_since = None
            silence = now - self.last_frame
            if silence >= SILENCE_LIMIT and self._leaving is not None:
                self.connection_lost(None)
            elif silence >= SILENCE_LIMIT:
                self._disconnect()
                self._lost(errors.NodeUnreachable("the node cannot be reached: it stopped responding"))
            elif silence >= PING_AFTER and not self._pinged and self.session.welcome is not None:
                self._pinged = True
                self._transport.write(wire.frame(wire.FrameType.PING, secrets.token_bytes(8)))
        elif not self.session.entries:
            self._idle_since = now if self._idle_since is None else self._idle_since
            self.last_frame = now
            if now - self._idle_since >= min(IDLE_TIME, self.session.welcome.idle_timeout * 0.75):
                self._disconnect()
                self.node.state = State.UNUSED
        else:
            self._idle_since = None
            # A node that owes nothing may be silent.
            self.last_frame = now

    def deadline_error(self, waiter: Waiter, now: float) -> errors.SubmissionError:
        """The error of a submission whose deadline has passed."""
        if self._transport is None:
            return self.failure or errors.NodeUnreachable(
                f"the node cannot be reached: no connection within {waiter.seconds:g} s"
            )
        if self.session.welcome is None:
            return errors.NoWelcome(f"connected, but the node sent nothing within {now - self.connected_at:.0f} s")
        return errors.NoResult(
            f"no result within {waiter.seconds:.0f} s; the node may still deliver the notification"
        )


def _is_nothing_there(error: BaseException) -> bool:
    """Whether no name or nobody is at an address: a peer that is only slow or far away fails otherwise."""
    causes = (error, error.__cause__, error.__context__)
    return any(isinstance(cause, (ConnectionRefusedError, socket.gaierror)) for cause in causes) or any(
        getattr(cause, "errno", None) == errno.ECONNREFUSED for cause in causes)


def _cause(error: OSError) -> str:
    """The reason of an error of the operating system, without the address."""
    text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__
    return text[:1].lower() + text[1:]


def _go_away_failure(go_away: GoAway) -> errors.SubmissionError:
    return errors.NodeUnreachable(f"the node cannot be reached: {go_away.reason}")
