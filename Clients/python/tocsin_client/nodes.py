# SPDX-License-Identifier: Apache-2.0
"""Which node to use: the state of each node of a list, as values with the time and the randomness as parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

BACKOFF_BASE = 0.25
"""The ceiling of the first wait before a new attempt to connect, in seconds. It doubles with each failure."""

BACKOFF_CAP = 30.0
"""The ceiling of all such waits, in seconds."""

MAXIMUM_PAUSE = 600.0
"""The longest ``retry_after`` of a GOAWAY that the client obeys, in seconds."""

UNRELIABLE = 3
"""Losses in a row, without a RESULT between them, after which other nodes are tried."""

HOPELESS_AFTER = 5.0
"""How long a submission waits for nodes that a mistake seems to keep away, in seconds."""

MISTAKE_PAUSE = 2.0
"""The longest wait after such an attempt, in seconds."""

SLOW_PART = 0.25
"""The part of the time limit of an attempt to connect after which other nodes come first: 15 s of 60. Through tor a connection
takes a few seconds; of a machine without power tor learns nothing."""

FATAL_PAUSE = 60.0
"""How long the client does not use a node that closed a connection for good, in seconds."""


class State(Enum):
    """What the client knows of a node."""

    UNUSED = auto()
    """There is no connection, and no reason not to open one."""
    CONNECTING = auto()
    """The client is connecting, possibly again after a lost connection: the node is likely to be back at once."""
    CONNECTED = auto()
    DOWN = auto()
    """The last attempt to connect failed, or the node is shutting down or busy."""
    REFUSED = auto()
    """The node ended the connection for a reason that a retry does not remove, or does not speak TNP."""


@dataclass
class NodeState:
    """One node of the list."""

    state: State = State.UNUSED
    is_slow: bool = False
    """Whether the client has been connecting for so long that it prefers other nodes meanwhile."""
    failures: int = 0
    """Failures since the last RESULT."""
    mistaken_at: float | None = None
    """When the last attempt failed because nothing answers at the proxy, or without one at the node's address; ``None`` if it
    failed otherwise."""
    retry_at: float = 0.0
    """The time from which the client may connect again, while the node is down or has refused."""

    @property
    def is_usable(self) -> bool:
        """Whether new submissions may go to this node."""
        return self.state in (State.UNUSED, State.CONNECTING, State.CONNECTED)

    def answered(self) -> None:
        """Resets the backoff after a RESULT."""
        self.failures = 0

    @property
    def is_unreliable(self) -> bool:
        """Whether the node loses connections before it answers anything."""
        return self.failures >= UNRELIABLE

    def is_hopeless(self, since: float) -> bool:
        """Whether several attempts have failed, the last one after this time, in a way that waiting is not likely to change."""
        is_mistaken = self.mistaken_at is not None and self.mistaken_at >= since
        return self.state is State.DOWN and is_mistaken and self.failures >= UNRELIABLE

    def failed(self, now: float, random: float, at_least: float = 0.0, by_mistake: bool = False) -> float:
        """Counts a failure.

        :param random: from 0 up to 1: the wait is this part of the present ceiling (full jitter).
        :param at_least: the node's ``retry_after`` in seconds.
        :param by_mistake: whether nothing answers at the proxy or the node's address: an attempt then costs nobody anything.
        :returns: the wait before the next attempt, in seconds.
        """
        ceiling = min(BACKOFF_BASE * float(1 << min(self.failures, 16)), BACKOFF_CAP)
        self.failures += 1
        self.mistaken_at = now if by_mistake else None
        wait = min(ceiling * random, MISTAKE_PAUSE) if by_mistake else ceiling * random
        pause = max(min(at_least, MAXIMUM_PAUSE), wait)
        self.retry_at = now + pause
        return pause

    def refused(self, now: float, at_least: float) -> None:
        """Marks the node as refusing."""
        self.state = State.REFUSED
        self.retry_at = now + max(min(at_least, MAXIMUM_PAUSE), FATAL_PAUSE)

    def revive(self, now: float) -> bool:
        """Lets a refusing node be tried again once its pause is over; whether that is so now."""
        is_over = self.state is State.REFUSED and now >= self.retry_at
        if is_over:
            self.state = State.UNUSED
        return is_over


def choose(nodes: list[NodeState], excluding: Collection[int] = ()) -> int | None:
    """The first usable node, a slow one only if there is no other: the client prefers the first of its list, so that bindings
    and rates are one node's."""
    usable = [index for index, node in enumerate(nodes) if node.is_usable and index not in excluding]
    return next((index for index in usable if not nodes[index].is_slow), usable[0] if usable else None)
