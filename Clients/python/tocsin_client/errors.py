# SPDX-License-Identifier: Apache-2.0
"""The errors that the client raises. No message contains a key, a device token or a notification."""

from __future__ import annotations


class TocsinError(Exception):
    """The base class of all errors of this package."""


class PairingError(TocsinError):
    """A text is not a pairing token. The message never contains the text."""


class RejectionError(TocsinError):
    """An envelope breaks a rule of the protocol (PROTOCOL §3), so the node would reject it.

    ``reason`` is the number of the reason in RESULT, e.g. 104.
    """

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ProtocolError(TocsinError):
    """The peer sent bytes that are not TNP/1. ``code`` is the GOAWAY code of the fault (PROTOCOL §6)."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class SubmissionError(TocsinError):
    """A submission has no outcome. The subclass names the cause."""


class NodeUnreachable(SubmissionError):
    """No node could be reached, or each connection was lost, until the time limit passed."""


class ProxyUnreachable(SubmissionError):
    """The client could not connect to tor's SOCKS port, or the proxy refused to serve it."""


class NoResult(SubmissionError):
    """The client was connected to a node that sent no result in time. The node may still deliver the notification."""


class NoWelcome(SubmissionError):
    """The client was connected, but the peer sent no WELCOME in time."""


class ConnectionRefusedForGood(SubmissionError):
    """Every node ended the connection for a reason that a retry does not remove, or does not speak TNP.

    ``retry_after`` is the node's hint in seconds; 0 if there is none.
    """

    def __init__(self, text: str, retry_after: float = 0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class QueueFull(SubmissionError):
    """The client already has its maximum number of submissions without an outcome."""


class ClientClosed(SubmissionError):
    """The client was closed before the submission had an outcome."""
