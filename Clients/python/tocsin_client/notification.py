# SPDX-License-Identifier: Apache-2.0
"""A notification from a desktop to its phone, with the order and escapes of Bisq's desktop."""

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


class Schema(str, Enum):
    """Which fields a notification's clear text has: what the phones' app reads."""

    BISQ = "bisq"
    """What today's Bisq apps read: Bisq Connect's fields for a pairing key in Base64, Bisq 1's for any other."""
    TOCSIN = "tocsin"
    """What an app of one's own reads: the same fields for every phone, over Apple, Google and Web Push."""

    def supports_erase(self, form: Format) -> bool:
        """Whether the app deletes its pairing at ERASE: Bisq Connect does not."""
        return self is Schema.TOCSIN or form is Format.PIPE


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
    action_required: str = ""
    """What the user has to do; empty if nothing. Bisq Connect has no field for it."""

    @classmethod
    def confirmation(cls, form: Format, schema: Schema = Schema.BISQ) -> BisqNotification:
        """The confirmation of a pairing. A Bisq 1 app shows its own text for it."""
        has_text = form is Format.SEALED or schema is Schema.TOCSIN
        title, message = ("Paired", "This phone is paired.") if has_text else ("", "")
        return cls(NotificationType.SETUP_CONFIRMATION, title, message)

    def __repr__(self) -> str:
        return "<BisqNotification redacted>"

    def encode(self, form: Format, schema: Schema = Schema.BISQ) -> bytes:
        """Returns the clear text for the apps that decrypt this format and read this schema."""
        if form is Format.PIPE or schema is Schema.TOCSIN:
            return self.json()
        return self.connect_json(secrets.token_hex(16))

    def json(self) -> bytes:
        """Returns the clear text for Bisq 1's apps and for apps of one's own."""
        return (
            f'{{"sentDate":{self.sent_date},"txId":"{_escaped(self.trade_id)}","title":"{_escaped(self.title)}",'
            f'"message":"{_escaped(self.message)}","type":"{self.type.value}",'
            f'"actionRequired":"{_escaped(self.action_required)}","version":1}}'
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
