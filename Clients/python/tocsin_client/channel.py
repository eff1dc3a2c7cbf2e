# SPDX-License-Identifier: Apache-2.0
"""The links to all nodes over one tor circuit each, and the choice of the node for each submission."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from python_socks.async_.asyncio import Proxy

from . import errors, session
from .link import History, Link, Waiter
from .nodes import HOPELESS_AFTER, State, choose
from .options import Options, Progress
from .outcome import Kind, Outcome

MINIMUM_RETRY = 0.25
"""The shortest wait before the client obeys a node's RETRY, in seconds."""


class Channel:
    """The links to all nodes over one tor circuit each: for one phone, or for all if phones are not isolated."""

    def __init__(
        self,
        options: Options,
        history: History,
        loop: asyncio.AbstractEventLoop,
        solvers: Executor,
        on_progress: Callable[[Progress], None] | None,
        on_idle: Callable[[Channel], None],
    ) -> None:
        self.options = options
        self.history = history
        self.loop = loop
        self.solvers = solvers
        self._on_progress = on_progress
        self._on_idle = on_idle
        self._password = secrets.token_hex(16)
        self.links = [Link(self, index) for index in range(len(self.options.nodes))]
        self.waiters: set[Waiter] = set()
        self._unassigned: dict[Waiter, None] = {}
        """The submissions that found no usable node, oldest first."""
        self.is_closed = False
        self._ticker: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether submissions wait for an outcome."""
        return bool(self.waiters)

    @staticmethod
    def now() -> float:
        """Monotonic time in seconds: a clock that jumps changes nothing."""
        return time.monotonic()

    @staticmethod
    def random() -> float:
        """A random number from 0 up to 1, for jitter."""
        return random.random()

    def report(self, progress: Progress) -> None:
        """Passes a step of the work on."""
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception as error:  # noqa: BLE001: a fault of the app must not end the work.
            self.loop.call_exception_handler({"message": "on_progress failed", "exception": error})

    async def open(self, link: Link) -> None:
        """Opens the connection of a link."""
        address, socks = link.address, self.options.socks
        if socks is None:
            await self.loop.create_connection(lambda: link, address.host, address.port)
            return
        # The proxy resolves the name; the credentials give the circuit its isolation.
        proxy = Proxy.from_url(f"socks5://tocsin:{self._password}@{socks}", rdns=True)
        connected: Any = await proxy.connect(dest_host=address.host, dest_port=address.port, timeout=self.options.connect_timeout)
        await self.loop.create_connection(lambda: link, sock=connected)

    # Submissions

    def submit(self, waiter: Waiter) -> None:
        """Takes a new submission."""
        self.waiters.add(waiter)
        if waiter.submission.is_for_first_node:
            waiter.excluded.update(range(1, len(self.links)))
        waiter.future.add_done_callback(lambda future: self._cancelled(waiter) if future.cancelled() else None)
        waiter.timer = self.loop.call_at(self.loop.time() + waiter.seconds, self._overdue, waiter)
        self._assign(waiter)
        for link in self.links:
            link.wake()
        if self._ticker is None:
            self._tick()

    def _choice(self, waiter: Waiter) -> Link | Outcome | errors.SubmissionError | None:
        """The first usable node that has not refused the submission, or how the submission ends; ``None`` if it waits until
        a node is usable."""
        now = self.now()
        for link in self.links:
            link.node.revive(now)
        states = [link.node for link in self.links]
        index = choose(states, waiter.refused_by | waiter.excluded)
        candidates = [node for number, node in enumerate(states) if number not in waiter.excluded]
        if index is not None:
            return self.links[index]
        if waiter.refusal is not None and waiter.refused_by:
            return waiter.refusal
        return self.links[0].failure if all(node.state is State.REFUSED for node in candidates) else None

    def _assign(self, waiter: Waiter) -> None:
        """Gives a submission that no node has to a node, or ends it."""
        choice = self._choice(waiter)
        if isinstance(choice, Link):
            waiter.link = choice
            waiter.resends = 0
            choice.session.add(waiter)
        elif choice is not None:
            self._finish(waiter, choice)
        else:
            waiter.link = None
            self._unassigned[waiter] = None

    def assign_waiting(self) -> None:
        """Assigns the submissions that found no usable node, also those that stayed with a node that is down."""
        waiting, self._unassigned = self._unassigned, {}
        for waiter in waiting:
            self._assign(waiter)
        for link in self.links:
            if link.node.state is State.DOWN:
                self._give(link, link.session.waiting)

    def move_entries(self, link: Link, only_waiting: bool = False) -> None:
        """Moves the submissions of a link to other nodes."""
        self._give(link, link.session.waiting if only_waiting else link.session.entries)
        self.assign_waiting()
        for other in self.links:
            if other is not link:
                other.wake()

    def _give(self, link: Link, entries: list[session.Entry]) -> None:
        """Gives submissions of a link to other nodes. What the node has stored stays with it; so does, with the search for its
        proof, what no other node can take now."""
        for entry in entries:
            assert isinstance(entry, Waiter)
            if entry.queued is not None:
                if link.node.state is State.REFUSED:
                    self._finish(entry, entry.queued)
            else:
                choice = self._choice(entry)
                # Slow nodes do not take from each other.
                is_no_better = choice is link or isinstance(choice, Link) and choice.node.is_slow and link.node.is_slow
                if choice is not None and not is_no_better:
                    link.session.remove(entry)
                    self._assign(entry)

    def answered(self, link: Link, waiter: Waiter, outcome: Outcome) -> None:
        """Takes a node's answer, and decides what follows a RETRY."""
        if outcome.kind is Kind.QUEUED:
            self.report(Progress("queued", link.address))
            if waiter.returns_when_queued:
                self._finish(waiter, outcome)
        elif outcome.kind is not Kind.RETRY:
            self._finish(waiter, outcome)
        else:
            waiter.link = waiter.queued = None
            waiter.refusal = outcome
            # Jitter, so that submissions with the same pause do not return at the same moment.
            pause = max(outcome.retry_after / 1000, MINIMUM_RETRY) * (1 + self.random() / 10)
            # Waiting does not help against missing work, for which the time is spent.
            is_worth_waiting = outcome.retry_after > 0 and outcome.reason not in (203, 204)
            if is_worth_waiting and pause <= self.options.patience and self.now() + pause < waiter.deadline:
                self.report(Progress("waiting", link.address, reason=outcome.description, seconds=pause))
                waiter.pause = self.loop.call_later(pause, self._again, waiter)
            else:
                waiter.refused_by.add(link.index)
                self._again(waiter)

    def _again(self, waiter: Waiter) -> None:
        waiter.pause = None
        if not waiter.future.done():
            self._assign(waiter)
            if waiter.link is not None:
                waiter.link.wake()

    def _cancelled(self, waiter: Waiter) -> None:
        link = waiter.link
        self._drop(waiter)
        if link is not None:
            link.flush()

    def _drop(self, waiter: Waiter) -> None:
        self.waiters.discard(waiter)
        for timer in (waiter.timer, waiter.pause):
            if timer is not None:
                timer.cancel()
        if waiter.link is not None:
            waiter.link.session.remove(waiter)
            waiter.link = None
        else:
            self._unassigned.pop(waiter, None)

    def _finish(self, waiter: Waiter, result: Outcome | errors.SubmissionError) -> None:
        self._drop(waiter)
        if waiter.future.done():
            return
        if isinstance(result, Outcome):
            waiter.future.set_result(result)
        else:
            waiter.future.set_exception(_copy(result))

    def _overdue(self, waiter: Waiter) -> None:
        if waiter.future.done():
            return
        link, now = waiter.link, self.now()
        if waiter.queued is not None:
            self._finish(waiter, waiter.queued)
        elif link is not None and link.session.lacks_proof(waiter):
            link.stop_solving(waiter)
            for action in link.session.search_ended(waiter):
                assert isinstance(action, session.Answered)
                self._finish(waiter, action.outcome)
        elif waiter.refusal is not None and (link is None or link.session.is_waiting(waiter)):
            self._finish(waiter, waiter.refusal)
        else:
            self._finish(waiter, (link or self.links[0]).deadline_error(waiter, now))
        if link is not None:
            link.flush()

    # Time

    def _tick(self) -> None:
        if self.is_closed:
            return
        now = self.now()
        for link in self.links:
            link.tick(now)
        if not self.history.has_connected:
            self._give_up(now)
        if self.is_active or any(link.is_busy for link in self.links):
            self._ticker = self.loop.call_later(1.0, self._tick)
        else:
            self._ticker = None
            self._on_idle(self)

    def _give_up(self, now: float) -> None:
        """Ends submissions that a mistake in the settings keeps from every node: no proxy, or no node, at the address."""
        for waiter in list(self.waiters):
            links = [link for link in self.links if link.index not in waiter.excluded]
            started = waiter.deadline - waiter.seconds
            if now - started < HOPELESS_AFTER or not all(link.node.is_hopeless(started) for link in links):
                continue
            if links[0].failure is not None:
                self._finish(waiter, links[0].failure)

    def close(self) -> None:
        """Closes all connections; submissions without an outcome fail."""
        self.is_closed = True
        for link in self.links:
            link.close()
        for waiter in list(self.waiters):
            self._finish(waiter, errors.ClientClosed("the client was closed"))


def _copy(error: errors.SubmissionError) -> errors.SubmissionError:
    """An error of its own for each caller: tracebacks gather on a shared one."""
    if isinstance(error, errors.ConnectionRefusedForGood):
        return errors.ConnectionRefusedForGood(str(error), error.retry_after)
    return type(error)(str(error))
