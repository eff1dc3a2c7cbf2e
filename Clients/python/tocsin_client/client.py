# SPDX-License-Identifier: Apache-2.0
"""The asyncio client: submits envelopes through one or more nodes until each has an outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from . import errors, session
from .channel import Channel
from .envelope import Envelope, Format, Signature, Submission
from .handle import Handle
from .handle_request import HandleOwner, HandleRefused, HandleRequest
from .link import History, Waiter
from .notification import BisqNotification, NotificationType, Schema
from .onion_key import check_onion
from .options import Address, Options, Progress
from .outcome import Kind, Outcome
from .pairing import PairingToken
from .site_key import SiteKey

MAXIMUM_QUEUE = 10_000
"""The largest number of submissions without an outcome."""

MAXIMUM_CIRCUITS = 64
"""The largest number of tor circuits per node at a time. Beyond it, phones share circuits."""


class TocsinClient:
    """Submits notifications through nodes, the preferred one first. Use it as an async context manager.

    >>> async with TocsinClient(["ADDRESS.onion:7077"]) as client:      # doctest: +SKIP
    ...     pairing = await client.pair(scanned_text)
    ...     await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid", "Trade 123 is paid"))

    :param nodes: the nodes' addresses, like ``ADDRESS.onion:7077``. What is addressed by handle goes to the first node
        only, which keeps the handle.
    :param socks: tor's SOCKS port, or ``None`` to connect directly.
    :param work_limit: the longest time to compute proofs of work for one submission, in seconds; 0 for none.
    :param patience: the longest time for which the client obeys a node's RETRY, in seconds, if the submission's own time
        limit allows it; for longer, it tries the other nodes, and then returns RETRY.
    :param site_key: the key of a site that the nodes' operators know.
    :param on_progress: receives the steps of the work, on the event loop's thread.
    :param on_gone: receives the pairing of a phone that no longer has its device token, or whose handle the node does not
        know.
    """

    def __init__(
        self,
        nodes: Sequence[str | Address],
        *,
        socks: str | Address | None = "127.0.0.1:9050",
        work_limit: float = 60.0,
        patience: float = 600.0,
        agent: str = "",
        connect_timeout: float = 60.0,
        is_isolated: bool = True,
        site_key: SiteKey | None = None,
        schema: Schema = Schema.BISQ,
        on_progress: Callable[[Progress], None] | None = None,
        on_gone: Callable[[PairingToken], None] | None = None,
    ) -> None:
        addresses = tuple(Address.parse(node) if isinstance(node, str) else node for node in nodes)
        if not addresses:
            raise ValueError("a client needs at least one node")
        for address in addresses:
            check_onion(address.host)
        proxy = Address.parse(socks) if isinstance(socks, str) else socks
        self.options = Options(
            nodes=addresses, socks=proxy, work_limit=work_limit, patience=patience, agent=agent,
            connect_timeout=connect_timeout, is_isolated=is_isolated, site_key=site_key,
        )
        self._schema = schema
        self.on_progress = on_progress
        self.on_gone = on_gone
        self._solvers = ThreadPoolExecutor(session.SEARCHES, "tocsin-solver")
        self._pairings: dict[str, PairingToken] = {}
        self._channels: dict[str, Channel] = {}
        self._history = History()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which the client runs: the one of its first use."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def __aenter__(self) -> TocsinClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections; submissions without an outcome fail with :class:`ClientClosed`."""
        self._is_closed = True
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self._solvers.shutdown(wait=False, cancel_futures=True)

    async def submit(
        self,
        envelope: Envelope,
        *,
        signature: Signature | None = None,
        timeout: float = 180.0,
        accept_queued: bool = False,
        returns_when_queued: bool = False,
    ) -> Outcome:
        """Submits an envelope and waits for its final outcome. Cancel the task to abandon the submission.

        A node's RETRY is obeyed within ``timeout`` and the client's patience; then the other nodes are tried. RETRY is the outcome if all
        nodes answer it.

        :param signature: from :meth:`PairingToken.sign`; ``None`` for an unsigned submission.
        :param timeout: the longest time to wait, in seconds, including time in which no node is reachable.
        :param accept_queued: whether the node may store the envelope durably and deliver it later.
        :param returns_when_queued: whether to return at QUEUED, without waiting for the final outcome.
        :raises SubmissionError: if there is no outcome.
        """
        waiter = await self._send(
            Submission(envelope, accept_queued, signature), envelope.address, timeout,
            returns_when_queued=returns_when_queued,
        )
        outcome: Outcome = waiter.future.result()
        if outcome.ends_pairing(envelope.handle is not None):
            self._gone(envelope.address)
        return outcome

    async def _send(
        self, request: Submission | HandleRequest, address: str, timeout: float, *, returns_when_queued: bool = False
    ) -> Waiter:
        """Sends a submission or a request about a handle, and waits for its outcome."""
        if self._is_closed:
            raise errors.ClientClosed("the client was closed")
        if sum(len(channel.waiters) for channel in self._channels.values()) >= MAXIMUM_QUEUE:
            raise errors.QueueFull(f"{MAXIMUM_QUEUE} submissions wait for an outcome already")
        channel = self._channel(address)
        waiter = Waiter(
            request,
            work_left=self.options.work_limit,
            future=self.loop.create_future(),
            deadline=channel.now() + timeout,
            seconds=timeout,
            returns_when_queued=returns_when_queued,
        )
        channel.submit(waiter)
        await waiter.future
        return waiter

    # Handles

    async def register(
        self, phone: PairingToken, owner: HandleOwner, *, app: str = "", sender_keys: Sequence[bytes] = (),
        timeout: float = 180.0,
    ) -> Handle:
        """Asks the first node for a handle, which stands for a phone in the place of its device token.

        The same phone, app and owner always get the same handle. Unless the phone rings by the handle within ten minutes,
        the node drops it.

        :param phone: the phone's pairing token with its device token.
        :param owner: who may later change or end the handle.
        :param sender_keys: the Ed25519 public keys, 32 bytes each, that may ring the phone besides the owner's; at most 8.
            Without any, whoever has the handle may.
        :raises HandleRefused: if the node does not accept the request.
        :raises SubmissionError: if there is no answer.
        """
        return await self._ask(HandleRequest.register(phone, app, sender_keys, _sequence(), owner, self._host), timeout)

    async def rotate(
        self, handle: Handle, phone: PairingToken, owner: HandleOwner, *, sender_keys: Sequence[bytes] = (),
        timeout: float = 180.0,
    ) -> None:
        """Puts another device token behind a handle. Its sender keys are replaced, too. Raises as :meth:`register`.

        :param phone: the phone's pairing token with its new device token.
        """
        await self._ask(HandleRequest.rotate(handle, phone, sender_keys, _sequence(), owner, self._host), timeout)

    async def forget(self, handle: Handle, owner: HandleOwner, *, timeout: float = 180.0) -> None:
        """Ends a handle: nobody can ring the phone by it any more. Raises as :meth:`register`."""
        await self._ask(HandleRequest.forget(handle, _sequence(), owner, self._host), timeout)

    @property
    def _host(self) -> str:
        """The host of the only node that requests about handles go to."""
        return self.options.nodes[0].host

    async def _ask(self, request: HandleRequest, timeout: float) -> Handle:
        waiter = await self._send(request, request.address, timeout)
        outcome: Outcome = waiter.future.result()
        if outcome.kind is not Kind.DELIVERED or waiter.handle is None:
            raise HandleRefused(outcome)
        return Handle(waiter.handle)

    async def notify(
        self,
        pairing: PairingToken,
        notification: BisqNotification | bytes,
        *,
        app: str = "",
        sound: bool = True,
        format: Format | None = None,
        succeeding: PairingToken | None = None,
        timeout: float = 180.0,
    ) -> Outcome:
        """Seals, signs and submits a notification, or a clear text of the app's own form, which is padded with spaces.

        :param succeeding: the pairing that the phone had before it was paired anew with the same device token, until a
            notification is delivered.
        """
        envelope = pairing.seal(notification, app=app, sound=sound, format=format, schema=self._schema)
        signature = pairing.sign(envelope, succeeding=succeeding)
        return await self.submit(envelope, signature=signature, timeout=timeout)

    # Pairing

    @property
    def pairings(self) -> list[PairingToken]:
        """The phones that this client has paired with and not erased."""
        return list(self._pairings.values())

    def remember(self, pairing: PairingToken) -> None:
        """Adds a pairing from an earlier session, so that :attr:`on_gone` reports it."""
        self._pairings[pairing.address] = pairing

    async def pair(self, text: str, *, app: str = "", timeout: float = 180.0) -> PairingToken:
        """Reads a pairing token, confirms the pairing to the phone, and remembers it.

        :returns: the pairing; store :meth:`PairingToken.reveal` where secrets belong.
        :raises PairingError: if ``text`` is not a pairing token.
        :raises PairingRefused: if the confirmation has another outcome than delivered.
        """
        pairing = PairingToken(text)
        outcome = await self.confirm(pairing, app=app, timeout=timeout)
        if outcome.kind is not Kind.DELIVERED:
            raise PairingRefused(outcome)
        self.remember(pairing)
        return pairing

    async def confirm(
        self, pairing: PairingToken, *, app: str = "", format: Format | None = None, timeout: float = 180.0
    ) -> Outcome:
        """Tells the phone that it is paired. A Bisq 1 app shows its own text for it."""
        notification = BisqNotification.confirmation(format or pairing.default_format, self._schema)
        return await self.notify(pairing, notification, app=app, format=format, timeout=timeout)

    async def erase(self, pairing: PairingToken, *, app: str = "", timeout: float = 180.0) -> Outcome:
        """Makes the phone's app delete its pairing and all notifications, and forgets the pairing here.

        :raises ValueError: if the app does not support it: Bisq Connect does not.
        """
        if not self._schema.supports_erase(pairing.default_format):
            raise ValueError("Bisq Connect does not support ERASE: delete the pairing in the app")
        outcome = await self.notify(
            pairing, BisqNotification(NotificationType.ERASE), app=app, sound=False, timeout=timeout
        )
        if outcome.kind is Kind.DELIVERED or outcome.ends_pairing(pairing.handle is not None):
            self._pairings.pop(pairing.address, None)
        return outcome

    def _gone(self, address: str) -> None:
        pairing = self._pairings.pop(address, None)
        if pairing is None or self.on_gone is None:
            return
        try:
            self.on_gone(pairing)
        except Exception as error:  # noqa: BLE001: a fault of the app must not replace the outcome.
            self.loop.call_exception_handler({"message": "on_gone failed", "exception": error})

    # Channels

    def _channel(self, address: str) -> Channel:
        """The channel of a phone. The dictionary is bounded; phones beyond the bound share channels."""
        key = address if self.options.is_isolated else ""
        channel = self._channels.get(key)
        if channel is None and len(self._channels) >= MAXIMUM_CIRCUITS:
            shared = list(self._channels.values())
            return shared[hash(address) % len(shared)]
        if channel is None:
            channel = Channel(
                self.options, self._history, self.loop, self._solvers, self.on_progress, self._forget)
            self._channels[key] = channel
        return channel

    def _forget(self, channel: Channel) -> None:
        """Removes a channel that has neither submissions nor connections, unless a node's pause is running."""
        now = channel.now()
        pause = max((link.node.retry_at - now for link in channel.links if not link.node.is_usable), default=0.0)
        self.loop.call_later(max(0.0, pause), self._forget_later, channel)

    def _forget_later(self, channel: Channel) -> None:
        if not channel.is_active and not any(link.is_busy for link in channel.links):
            self._channels = {key: other for key, other in self._channels.items() if other is not channel}


_last_sequence = 0
_sequence_lock = threading.Lock()


def _sequence() -> int:
    """The present Unix time in milliseconds, or one more than the last sequence of this process if that is greater."""
    global _last_sequence
    with _sequence_lock:
        _last_sequence = max(_last_sequence + 1, time.time_ns() // 1_000_000)
        return _last_sequence


class PairingRefused(errors.TocsinError):
    """The confirmation of a pairing was not delivered. :attr:`outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"the pairing was not confirmed: {outcome.description}")
        self.outcome = outcome
