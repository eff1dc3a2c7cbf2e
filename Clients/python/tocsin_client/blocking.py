# SPDX-License-Identifier: Apache-2.0
"""A client for programs without an event loop. It runs :class:`TocsinClient` on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from .client import TocsinClient
from .options import Address, Progress
from .envelope import Envelope, Signature
from .errors import ClientClosed
from .handle import Handle, HandleOwner
from .notification import BisqNotification
from .outcome import Outcome
from .pairing import PairingToken
from .site_key import SiteKey

T = TypeVar("T")


class BlockingClient:
    """Like :class:`TocsinClient`, but its methods block; they may be called from any thread.

    Callbacks run on the client's own thread and must not block it.
    """

    def __init__(
        self,
        nodes: Sequence[str | Address],
        *,
        socks: str | Address | None = "127.0.0.1:9050",
        work_limit: float = 60.0,
        patience: float = 600.0,
        agent: str = "",
        site_key: SiteKey | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_gone: Callable[[PairingToken], None] | None = None,
    ) -> None:
        self._client = TocsinClient(
            nodes, socks=socks, work_limit=work_limit, patience=patience, agent=agent, site_key=site_key,
            on_progress=on_progress, on_gone=on_gone,
        )
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._is_closed:
                work.close()
                raise ClientClosed("the client was closed")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(self) -> None:
        """Closes the client, and lets the calls that have begun end."""
        await self._client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        """Closes all connections and ends the thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(
        self,
        envelope: Envelope,
        *,
        signature: Signature | None = None,
        timeout: float = 180.0,
        accept_queued: bool = False,
        returns_when_queued: bool = False,
    ) -> Outcome:
        """See :meth:`TocsinClient.submit`."""
        return self._start(
            self._client.submit(
                envelope, signature=signature, timeout=timeout, accept_queued=accept_queued,
                returns_when_queued=returns_when_queued,
            )
        ).result()

    def notify(
        self, pairing: PairingToken, notification: BisqNotification, *, app: str = "", sound: bool = True,
        succeeding: PairingToken | None = None, timeout: float = 180.0,
    ) -> Outcome:
        """See :meth:`TocsinClient.notify`."""
        return self._start(
            self._client.notify(
                pairing, notification, app=app, sound=sound, succeeding=succeeding, timeout=timeout)
        ).result()

    def register(
        self, phone: PairingToken, owner: HandleOwner, *, app: str = "", sender_keys: Sequence[bytes] = (),
        timeout: float = 180.0,
    ) -> Handle:
        """See :meth:`TocsinClient.register`."""
        return self._start(
            self._client.register(phone, owner, app=app, sender_keys=sender_keys, timeout=timeout)
        ).result()

    def rotate(
        self, handle: Handle, phone: PairingToken, owner: HandleOwner, *, sender_keys: Sequence[bytes] = (),
        timeout: float = 180.0,
    ) -> None:
        """See :meth:`TocsinClient.rotate`."""
        self._start(self._client.rotate(handle, phone, owner, sender_keys=sender_keys, timeout=timeout)).result()

    def forget(self, handle: Handle, owner: HandleOwner, *, timeout: float = 180.0) -> None:
        """See :meth:`TocsinClient.forget`."""
        self._start(self._client.forget(handle, owner, timeout=timeout)).result()

    def pair(self, text: str, *, app: str = "", timeout: float = 180.0) -> PairingToken:
        """See :meth:`TocsinClient.pair`."""
        return self._start(self._client.pair(text, app=app, timeout=timeout)).result()

    def erase(self, pairing: PairingToken, *, app: str = "", timeout: float = 180.0) -> Outcome:
        """See :meth:`TocsinClient.erase`."""
        return self._start(self._client.erase(pairing, app=app, timeout=timeout)).result()
