# SPDX-License-Identifier: Apache-2.0
"""The state machine of one node's connection (PROTOCOL §2–§6): events in, actions out; no I/O and no clock."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field, replace

from . import wire
from .envelope import Submission
from .errors import ProtocolError
from .handle_request import HandleRequest
from .outcome import Kind, Outcome
from .site_key import SiteKey
from .wire import GoAway, Puzzle, Welcome

EARLY_SUBMISSIONS = 16
"""The largest number of submissions in flight before WELCOME."""

MAXIMUM_IN_FLIGHT = 1024
"""The largest number of submissions in flight, whatever the node allows: bounds the memory of unsent output."""

SEARCHES = 2
"""The largest number of searches for proofs at a time."""

PROOF_RESENDS = 8
"""How often the client sends a submission again because the node requires (more) work."""


@dataclass(eq=False, repr=False)
class Entry:
    """A submission, or a request about a handle, without a final outcome."""

    submission: Submission | HandleRequest
    work_left: float
    """Seconds left to search for its proof."""
    proof: bytes | None = None
    needs_work: bool = False
    """Whether the node has required work: then the entry waits for WELCOME and is not sent early."""
    work_refusal: Outcome | None = None
    """The last RETRY that required work."""
    refusal: Outcome | None = None
    """The last RETRY of a node."""
    resends: int = 0
    queued: Outcome | None = None
    """QUEUED, if the current node has stored the envelope."""
    handle: bytes | None = None
    """The handle in the node's answer to a request about one."""


# The actions that a session asks its caller for.


@dataclass(frozen=True)
class Send:
    """Send these bytes."""

    data: bytes


@dataclass(frozen=True)
class Welcomed:
    """WELCOME has arrived."""

    welcome: Welcome


@dataclass(frozen=True)
class Answered:
    """The node has answered an entry. The session keeps it only if the outcome is QUEUED."""

    entry: Entry
    outcome: Outcome


@dataclass(frozen=True)
class Leaving:
    """The node takes no more submissions on this connection."""

    go_away: GoAway


@dataclass(frozen=True)
class Solve:
    """Search for a proof; report the end with :meth:`Session.solved` or :meth:`Session.search_ended`."""

    entry: Entry
    puzzle: Puzzle
    seconds: float


@dataclass(frozen=True)
class StopSolving:
    """Cancel the search for this entry's proof."""

    entry: Entry


Action = Send | Welcomed | Answered | Leaving | Solve | StopSolving


@dataclass
class _Search:
    puzzle: Puzzle
    #: When it began; None while it waits for a thread.
    started: float | None = None


@dataclass
class Session:
    """Tracks the entries of one node across its connections."""

    does_work: bool
    """Whether the client computes proofs at all; if not, it leaves the rejection to the node."""
    site_key: SiteKey | None = None
    host: str = ""
    """The node's host, which a site's signature names."""
    welcome: Welcome | None = None
    _puzzle: Puzzle | None = None
    _previous_seed: bytes | None = None
    _is_open: bool = False
    """Whether the connection takes submissions: connected, and no GOAWAY yet."""
    _is_site: bool = False
    """Whether the node has accepted the site's key on this connection: it then requires no proof of work."""
    _awaits_authentication: bool = False
    """Whether submissions wait for AUTHED."""
    _decoder: wire.FrameDecoder = field(default_factory=wire.FrameDecoder)
    _pending: dict[int, Entry] = field(default_factory=dict)
    _requests: dict[Entry, int] = field(default_factory=dict)
    _queue: list[int] = field(default_factory=list)
    """The requests that wait for a slot or a proof, oldest first."""
    _sent: set[int] = field(default_factory=set)
    """The requests in flight on this connection, including abandoned ones."""
    _searches: dict[Entry, _Search] = field(default_factory=dict)
    _next_request: int = 1

    # Entries

    def add(self, entry: Entry) -> None:
        """Adds an entry; :meth:`flush` sends it when there is a slot and, if required, a proof."""
        while self._next_request in self._pending or self._next_request in self._sent:
            self._next_request = (self._next_request + 1) % 2**32
        request, self._next_request = self._next_request, (self._next_request + 1) % 2**32
        self._pending[request] = entry
        self._requests[entry] = request
        self._queue.append(request)

    def remove(self, entry: Entry) -> None:
        """Abandons an entry. If it is in flight, it occupies its slot until the node answers."""
        request = self._requests.pop(entry, None)
        if request is None:
            return
        del self._pending[request]
        if request not in self._sent:
            del self._queue[bisect.bisect_left(self._queue, request)]

    @property
    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        return [self._pending[request] for request in sorted(self._pending)]

    @property
    def waiting(self) -> list[Entry]:
        """The entries that are not in flight, oldest first."""
        return [self._pending[request] for request in self._queue]

    def is_waiting(self, entry: Entry) -> bool:
        """Whether the session has the entry, and it is not in flight."""
        request = self._requests.get(entry)
        return request is not None and request not in self._sent

    @property
    def is_in_flight(self) -> bool:
        """Whether the node owes a RESULT on this connection."""
        return bool(self._sent)

    @property
    def is_owed_answer(self) -> bool:
        """Whether the node owes more than WELCOME: what it says of the site key, or a RESULT."""
        return self.is_in_flight or self._awaits_authentication

    def lacks_proof(self, entry: Entry) -> bool:
        """Whether the entry has not been sent because it lacks the proof that the node requires."""
        request = self._requests.get(entry)
        return (
            request is not None and self._is_open and self._puzzle is not None and request not in self._sent
            and not self._is_ready(entry)
        )

    @property
    def is_blocked_by_abandoned(self) -> bool:
        """Whether abandoned submissions occupy all slots of the connection while others wait for one."""
        return (
            self._is_open and self.welcome is not None and bool(self._queue) and len(self._sent) >= max(1, self._limit)
            and not any(request in self._pending for request in self._sent)
        )

    # Connections

    def connected(self, agent: str = "") -> bytes:
        """Starts a new connection and returns HELLO. All entries are sent again, with the same bytes."""
        self._is_open = True
        self._is_site, self._awaits_authentication = False, self.site_key is not None
        self._decoder = wire.FrameDecoder()
        self.welcome = self._puzzle = self._previous_seed = None
        self._sent = set()
        self._queue = sorted(self._pending)
        return wire.hello(agent)

    def disconnected(self) -> None:
        """Ends the connection. Searches go on: their proofs may be valid on the next one."""
        self._is_open = False
        self._sent = set()
        self._queue = sorted(self._pending)

    @property
    def _limit(self) -> int:
        if self._awaits_authentication:
            return 0
        if self.welcome is None:
            return EARLY_SUBMISSIONS
        return min(self.welcome.max_in_flight, MAXIMUM_IN_FLIGHT)

    def flush(self, now: float) -> list[Action]:
        """Returns the actions that are due: submissions to send, searches to start and to stop."""
        actions: list[Action] = []
        self._abandon_searches(now, actions)
        if not self._is_open:
            return actions
        output: list[bytes] = []
        waiting: list[int] = []
        examined = 0
        # An entry without its proof reserves a slot, so that later ones do not overtake it indefinitely.
        while examined < len(self._queue) and len(self._sent) + len(waiting) < self._limit:
            request = self._queue[examined]
            entry = self._pending[request]
            examined += 1
            if (refusal := self._refusal(entry)) is not None:
                self._forget(entry)
                actions.append(Answered(entry, refusal))
            elif self._is_ready(entry):
                frame = self._frame(request, entry)
                if self.welcome is not None and len(frame) - 4 > self.welcome.max_frame:
                    self._forget(entry)
                    text = f"the notification exceeds the node's frame limit of {self.welcome.max_frame} bytes"
                    actions.append(Answered(entry, Outcome(Kind.REJECTED, 105, text=text)))
                    continue
                self._sent.add(request)
                output.append(frame)
            elif self._puzzle is not None and entry.work_left <= 0:
                self._forget(entry)
                actions.append(Answered(entry, self._work_limit_outcome(entry)))
            else:
                waiting.append(request)
                self._start_search(entry, actions)
        self._queue[:examined] = waiting
        if output:
            actions.append(Send(b"".join(output)))
        return actions

    def _refusal(self, entry: Entry) -> Outcome | None:
        """The outcome of a request that the node does not understand; it would close the connection."""
        if self.welcome is None or not isinstance(entry.submission, HandleRequest):
            return None
        if wire.Features.HANDLES in self.welcome.features:
            return None
        return Outcome(Kind.REJECTED, 106, text="this node keeps no handles")

    def _frame(self, request: int, entry: Entry) -> bytes:
        # The node would count a proof for a seed that it no longer knows as invalid.
        if entry.proof is not None and not self._is_for_known_seed(entry.proof):
            entry.proof = None
        return entry.submission.encode(request, entry.proof)

    def received(self, data: bytes, actions: list[Action]) -> bool:
        """Processes received bytes and appends the actions that follow, including those before an error.

        :returns: whether a whole frame has arrived.
        :raises ProtocolError: if the bytes are not frames that a node may send.
        """
        is_alive = False
        for message in self._decoder.messages(data):
            is_alive = True
            if message is None:
                continue
            if isinstance(message, Welcome):
                self.welcome = message
                self._announced(message.puzzle)
                actions.append(Welcomed(message))
                self._authenticate(message, actions)
            elif self.welcome is None and not isinstance(message, GoAway | wire.Ping):
                raise ProtocolError("the first frame is not WELCOME")
            elif isinstance(message, wire.Result):
                self._answered(message.request, message.outcome, actions)
            elif isinstance(message, wire.Registered):
                entry = self._pending.get(message.request)
                if entry is not None and message.request in self._sent and isinstance(entry.submission, HandleRequest):
                    entry.handle = message.handle
                self._answered(message.request, message.outcome, actions)
            elif isinstance(message, Puzzle):
                self._announced(message)
            elif isinstance(message, wire.Authenticated):
                self._authenticated(message, actions)
            elif isinstance(message, wire.Ping):
                actions.append(Send(wire.pong(message.opaque)))
            else:
                self._is_open = False
                actions.append(Leaving(message))
        return is_alive

    def _authenticate(self, welcome: Welcome, actions: list[Action]) -> None:
        """Sends AUTH, if the client is a site and the node takes site keys."""
        if self.site_key is None or wire.Features.SITE_KEYS not in welcome.features:
            self._awaits_authentication = False
        else:
            actions.append(Send(self.site_key.authentication(welcome.puzzle.seed, self.host)))

    def _authenticated(self, answer: wire.Authenticated, actions: list[Action]) -> None:
        if not self._awaits_authentication:
            return
        self._awaits_authentication = False
        self._is_site = answer.is_accepted
        if not answer.is_accepted:
            self._is_open = False
            text = "the node does not know this site key, or the key is for another onion"
            actions.append(Leaving(GoAway(wire.Code.ABUSE, text=text)))

    def _answered(self, request: int, outcome: Outcome, actions: list[Action]) -> None:
        # A RESULT for a request that is not in flight has no effect.
        if request not in self._sent:
            return
        if outcome.is_final:
            self._sent.discard(request)
        entry = self._pending.get(request)
        if entry is None:
            return
        if outcome.kind is Kind.QUEUED:
            entry.queued = outcome
        elif outcome.kind is Kind.RETRY:
            if outcome.reason == 210 and self.welcome is not None and len(self._sent) >= self._limit:
                # Sent before WELCOME, above the node's limit: send it again when a slot is free.
                return bisect.insort(self._queue, request)
            if outcome.reason in (203, 204) and self._requires_work(request, entry, outcome):
                return None
            if outcome.reason in (203, 204) and entry.work_left <= 0:
                outcome = replace(outcome, text=self._work_limit_text)
        if outcome.is_final:
            self._forget(entry)
        actions.append(Answered(entry, outcome))
        return None

    def _forget(self, entry: Entry) -> None:
        request = self._requests.pop(entry)
        del self._pending[request]

    # Proof of work

    def solved(self, entry: Entry, proof: bytes, now: float) -> None:
        """Stores the proof that a search has found."""
        self._end_search(entry, now)
        entry.proof = proof

    def search_ended(self, entry: Entry) -> list[Action]:
        """Ends an entry with RETRY, because the time for its proof is over."""
        self._searches.pop(entry, None)
        entry.work_left = 0
        if entry not in self._requests:
            return []
        self.remove(entry)
        return [Answered(entry, self._work_limit_outcome(entry))]

    def _announced(self, puzzle: Puzzle) -> None:
        if self._puzzle is not None and self._puzzle.seed != puzzle.seed:
            self._previous_seed = self._puzzle.seed
        self._puzzle = puzzle

    def _requires_work(self, request: int, entry: Entry, outcome: Outcome) -> bool:
        """Handles a RETRY that requires work: whether the entry is sent again with a proof."""
        if self._puzzle is None or self._puzzle.effort == 0 or entry.work_left <= 0 or entry.resends >= PROOF_RESENDS:
            return False
        entry.needs_work = True
        entry.work_refusal = outcome
        entry.resends += 1
        entry.proof = None
        bisect.insort(self._queue, request)
        return True

    @property
    def _work_limit_text(self) -> str:
        text = "the node requires more proof of work than the sender's limit allows"
        return f"{text}: effort {self._puzzle.effort}" if self._puzzle is not None else text

    def _work_limit_outcome(self, entry: Entry) -> Outcome:
        return replace(entry.work_refusal or Outcome(Kind.RETRY, 203), text=self._work_limit_text)

    def _is_ready(self, entry: Entry) -> bool:
        if self._puzzle is None:
            return not entry.needs_work and not isinstance(entry.submission, HandleRequest)
        if self._puzzle.effort == 0 or not self.does_work or self._is_site or not entry.submission.may_need_proof:
            return True
        proof = entry.proof
        return (
            proof is not None
            and int.from_bytes(proof[4:8], "big") >= self._puzzle.effort
            and self._is_for_known_seed(proof)
        )

    def _is_for_known_seed(self, proof: bytes) -> bool:
        seeds = (self._puzzle.seed if self._puzzle else None, self._previous_seed)
        return any(seed is not None and seed[:4] == proof[:4] for seed in seeds)

    def _start_search(self, entry: Entry, actions: list[Action]) -> None:
        if self._puzzle is None or entry in self._searches or len(self._searches) >= SEARCHES:
            return
        entry.needs_work = True
        self._searches[entry] = _Search(self._puzzle)
        actions.append(Solve(entry, self._puzzle, entry.work_left))

    def search_began(self, entry: Entry, now: float) -> None:
        """Starts the time of a search, which may have waited for a thread."""
        search = self._searches.get(entry)
        if search is not None:
            search.started = now

    def _abandon_searches(self, now: float, actions: list[Action]) -> None:
        """Stops the searches whose proof would not be sent. A search keeps no state, so nothing is lost."""
        for entry, search in list(self._searches.items()):
            if self._is_obsolete(entry, search):
                self._end_search(entry, now)
                actions.append(StopSolving(entry))

    def _is_obsolete(self, entry: Entry, search: _Search) -> bool:
        if entry not in self._requests:
            return True
        # Between two connections the required effort is unknown.
        if self._puzzle is None:
            return False
        return search.puzzle.effort != self._puzzle.effort or search.puzzle.seed not in (
            self._puzzle.seed, self._previous_seed,
        )

    def _end_search(self, entry: Entry, now: float) -> None:
        search = self._searches.pop(entry, None)
        if search is not None and search.started is not None:
            entry.work_left -= now - search.started
