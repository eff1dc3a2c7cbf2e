# SPDX-License-Identifier: Apache-2.0
"""Rings phones through Tocsin nodes: seals a notification for a pairing and submits it over TNP/1 through tor.

The asyncio client is :class:`TocsinClient`; :class:`BlockingClient` wraps it for programs without an event loop.
"""

from .blocking import BlockingClient
from .client import PairingRefused, TocsinClient
from .envelope import Envelope, Format, Magic, Signature
from .errors import (
    ClientClosed,
    ConnectionRefusedForGood,
    NodeUnreachable,
    NoResult,
    NoWelcome,
    PairingError,
    ProtocolError,
    ProxyUnreachable,
    QueueFull,
    RejectionError,
    SubmissionError,
    TocsinError,
)
from .handle import Handle
from .handle_request import HandleOwner, HandleOwnerError, HandleRefused
from .notification import BisqNotification, NotificationType, Schema
from .options import Address, Progress
from .outcome import Kind, Outcome
from .pairing import PairingToken
from .site_key import SiteKey, SiteKeyError

__all__ = [
    "Address",
    "BisqNotification",
    "BlockingClient",
    "ClientClosed",
    "ConnectionRefusedForGood",
    "Envelope",
    "Format",
    "Handle",
    "HandleOwner",
    "HandleOwnerError",
    "HandleRefused",
    "Kind",
    "Magic",
    "NoResult",
    "NoWelcome",
    "NodeUnreachable",
    "NotificationType",
    "Outcome",
    "PairingError",
    "PairingRefused",
    "PairingToken",
    "Progress",
    "ProtocolError",
    "ProxyUnreachable",
    "QueueFull",
    "RejectionError",
    "Schema",
    "Signature",
    "SiteKey",
    "SiteKeyError",
    "SubmissionError",
    "TocsinClient",
    "TocsinError",
]
