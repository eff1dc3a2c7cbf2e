# SPDX-License-Identifier: Apache-2.0
"""The search for a proof of work (PROTOCOL §5)."""

from __future__ import annotations

import struct
import threading
import time
from hashlib import blake2b

from .wire import Puzzle

_BATCH = 1024
"""Hashes between two looks at the clock: about a millisecond."""


def solve(puzzle: Puzzle, digest: bytes, start: int, deadline: float, cancelled: threading.Event) -> bytes | None:
    """Searches for a proof on the calling thread.

    :param start: the first nonce; a random one, so that a restarted search does not repeat the previous one.
    :param deadline: the value of ``time.monotonic()`` at which the search ends.
    :returns: the field ``proof`` of SUBMIT, or ``None`` if the deadline passed or the search was cancelled.
    """
    prefix = blake2b(b"tnp1-puzzle" + puzzle.seed + digest + struct.pack(">I", puzzle.effort), digest_size=32)
    target = (2**64 - 1) // max(1, puzzle.effort)
    nonce = start
    while not cancelled.is_set() and time.monotonic() < deadline:
        for _ in range(_BATCH):
            attempt = prefix.copy()
            attempt.update(nonce.to_bytes(8, "big"))
            if int.from_bytes(attempt.digest()[:8], "big") <= target:
                return puzzle.seed[:4] + struct.pack(">IQ", puzzle.effort, nonce)
            nonce = (nonce + 1) % 2**64
        # Lets the thread of the event loop run.
        time.sleep(0)
    return None
