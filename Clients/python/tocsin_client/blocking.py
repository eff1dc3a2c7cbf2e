# SPDX-License-Identifier: Apache-2.0
"""A client for programs without an event loop. It runs :class:`TocsinClient` on a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from .client import TocsinClient
from .errors import ClientClosed

P = ParamSpec("P")
T = TypeVar("T")


def _options_of(
    source: Callable[Concatenate[TocsinClient, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[BlockingClient, P], None]]:
    """Gives a constructor the parameters of another one, which stand there only."""
    return functools.wraps(source)


def _blocking(
    method: Callable[Concatenate[TocsinClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient, P], T]:
    """The method, with the same parameters, that waits for the result."""

    @functools.wraps(method)
    def call(self: BlockingClient, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._start(method(self._client, *arguments, **options)).result()

    return call


class BlockingClient:
    """Like :class:`TocsinClient`, with the same options, but its methods block; they may be called from any thread.

    Callbacks run on the client's own thread and must not block it.
    """

    @_options_of(TocsinClient.__init__)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._client = TocsinClient(*arguments, **options)
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin-client", daemon=True)
        self._thread.start()

    submit = _blocking(TocsinClient.submit)
    notify = _blocking(TocsinClient.notify)
    register = _blocking(TocsinClient.register)
    rotate = _blocking(TocsinClient.rotate)
    forget = _blocking(TocsinClient.forget)
    pair = _blocking(TocsinClient.pair)
    erase = _blocking(TocsinClient.erase)

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
