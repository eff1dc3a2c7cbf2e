# SPDX-License-Identifier: Apache-2.0
"""The outcome of a submission (PROTOCOL §4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

REASONS = {
    0: "no reason given",
    100: "malformed submission",
    101: "unknown magic",
    102: "invalid device token",
    103: "invalid iv",
    104: "invalid ciphertext length",
    105: "too large for the provider",
    106: "unsupported field",
    107: "unknown app",
    108: "option out of range",
    200: "device token over its rate",
    201: "connection or circuit over its rate",
    202: "node busy",
    203: "proof of work required",
    204: "proof of work invalid",
    205: "sender key required",
    206: "another sender key is bound to this phone",
    208: "iv used before with another ciphertext",
    209: "too many unproven device tokens",
    210: "too many submissions in flight",
    300: "platform not configured on this node",
    301: "provider unreachable",
    302: "provider throttles",
    303: "provider rejects the device token",
    304: "device token no longer registered",
    305: "provider rejects the node's credentials or topic",
    306: "provider rejects the payload",
    307: "ttl expired before delivery",
    310: "unknown or forgotten handle",
    311: "not the handle's owner, or an old sequence",
    312: "not a site's key",
    313: "passed through too many nodes",
    400: "node shutting down",
    401: "internal error of the node",
}
"""The known reasons, by number."""

_HUNDREDS = {1: "invalid submission", 2: "not admitted", 3: "not delivered", 4: "node error"}


class Kind(IntEnum):
    """What the sender does next."""

    DELIVERED = 0
    """The push service has accepted the notification."""
    QUEUED = 1
    """The node has stored the envelope durably; one more outcome follows."""
    REJECTED = 2
    """The sender must never send this envelope again."""
    RETRY = 3
    """The envelope was not accepted; the sender may send it again later."""
    GONE = 4
    """The phone no longer has this device token: forget the pairing."""


_SUCCESSES = {
    Kind.DELIVERED: "the push service has accepted it",
    Kind.QUEUED: "the node keeps it until it is delivered",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one submission. Times are in milliseconds."""

    kind: Kind
    reason: int = 0
    retry_after: int = 0
    """How long to wait before sending again; 0 if unspecified."""
    provider_id: str | None = None
    """The provider's id of the message."""
    text: str | None = None
    """One sentence for a person, from the node: treat it as foreign text."""
    gone_since: int | None = None
    """Unix time since which the device token has been gone."""
    left: int | None = None
    """How many notifications the phone may receive now."""
    full_in: int | None = None
    """How long until the phone has its full allowance again."""

    def ends_pairing(self, by_handle: bool) -> bool:
        """Whether the sender should forget the pairing. One by handle survives the device token."""
        return self.kind is Kind.GONE and (not by_handle or self.reason == 310)

    @property
    def is_final(self) -> bool:
        """Whether no further outcome follows."""
        return self.kind is not Kind.QUEUED

    @property
    def description(self) -> str:
        """The node's sentence, or else the meaning of the reason; an unknown reason is read by its hundred."""
        if self.text:
            return self.text
        if self.reason == 0 and self.kind in _SUCCESSES:
            return _SUCCESSES[self.kind]
        return REASONS.get(self.reason, _HUNDREDS.get(self.reason // 100, "unknown reason"))
