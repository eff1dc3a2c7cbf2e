# SPDX-License-Identifier: Apache-2.0
"""A notification from a Bisq desktop to its phone, with the fields, order and escapes of the desktop."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from enum import Enum

from .envelope import Format


class NotificationType(str, Enum):
    """The subject of a notification."""

    SETUP_CONFIRMATION = "SETUP_CONFIRMATION"
    """The desktop confirms the pairing."""
    OFFER = "OFFER"
    TRADE = "TRADE"
    DISPUTE = "DISPUTE"
    PRICE = "PRICE"
    MARKET = "MARKET"
    FINANCIAL = "FINANCIAL"
    ERASE = "ERASE"
    """The phone's app deletes its pairing and all notifications."""


_CATEGORIES = {
    NotificationType.TRADE: "trade_update",
    NotificationType.DISPUTE: "trade_update",
    NotificationType.OFFER: "offer_update",
}


@dataclass(frozen=True, repr=False)
class BisqNotification:
    """The content of a notification. Prints without it."""

    type: NotificationType
    title: str = ""
    message: str = ""
    trade_id: str = ""
    """The short id of the trade or offer; may be empty."""
    sent_date: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """Unix time in milliseconds."""

    def __repr__(self) -> str:
        return "<BisqNotification redacted>"

    def encode(self, form: Format) -> bytes:
        """Returns the clear text for the apps that decrypt this format."""
        return self.json() if form is Format.PIPE else self.connect_json(secrets.token_hex(16))

    def json(self) -> bytes:
        """Returns the clear text for Bisq 1's apps."""
        return (
            f'{{"sentDate":{self.sent_date},"txId":"{_escaped(self.trade_id)}","title":"{_escaped(self.title)}",'
            f'"message":"{_escaped(self.message)}","type":"{self.type.value}","actionRequired":"","version":1}}'
        ).encode()

    def connect_json(self, identifier: str) -> bytes:
        """Returns the clear text for Bisq Connect: an Android phone replaces a notification with the same identifier."""
        category = _CATEGORIES.get(self.type, "general")
        trade = f',"tradeId":"{_escaped(self.trade_id)}"' if self.trade_id else ""
        return (
            f'{{"id":"{_escaped(identifier)}","title":"{_escaped(self.title)}","message":"{_escaped(self.message)}",'
            f'"category":"{category}"{trade}}}'
        ).encode()


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "'<>&=\u2028\u2029"}
_ESCAPES |= {code: f"\\u{code:04x}" for code in range(0x20)}
_ESCAPES |= {ord(c): e for c, e in {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.items()}
_ESCAPES |= {8: "\\b", 12: "\\f"}


def _escaped(text: str) -> str:
    """Escapes a JSON string as Gson does by default."""
    return text.translate(_ESCAPES)
