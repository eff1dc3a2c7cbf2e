# SPDX-License-Identifier: Apache-2.0
"""The settings of a client, and the steps of its work."""

from __future__ import annotations

from dataclasses import dataclass

from .site_key import SiteKey
from .wire import Welcome

@dataclass(frozen=True)
class Address:
    """The host and port of a node or a proxy."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parses ``host:port`` or ``[IPv6]:port``; raises :class:`ValueError`."""
        host, separator, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not separator or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{text!r} is not an address like ADDRESS.onion:7077")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Progress:
    """A step in the client's work, for display."""

    step: str
    """``connecting``, ``connected``, ``welcomed``, ``retrying``, ``queued``, ``waiting`` (for the node's retry_after) or
    ``solving``."""
    node: Address
    reason: str = ""
    """Why the client retries."""
    seconds: float = 0.0
    """How long it waits first."""
    effort: int = 0
    """The expected hashes of the proof of work."""
    welcome: Welcome | None = None


@dataclass(frozen=True)
class Options:
    """The settings of a client; :class:`TocsinClient` has the defaults."""

    nodes: tuple[Address, ...]
    """The nodes, the preferred one first."""
    socks: Address | None
    """tor's SOCKS port; ``None`` to connect directly."""
    work_limit: float
    """The longest time to compute proofs of work for one submission, in seconds; 0 for none."""
    patience: float
    """The longest time for which the client obeys a node's RETRY, in seconds."""
    agent: str
    """The agent in HELLO. Leave it empty, so that the client does not differ from others."""
    connect_timeout: float
    """The longest time for one attempt to connect, in seconds: tor needs some to find an onion service."""
    is_isolated: bool
    """Whether each phone has a tor circuit of its own, so that the node cannot link phones by their circuits."""
    site_key: SiteKey | None
    """The key of a site that the nodes' operators know; ``None`` for any other sender."""
