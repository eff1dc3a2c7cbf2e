# SPDX-License-Identifier: Apache-2.0
"""A handle: what stands for a phone at one node, in the place of its device token (PROTOCOL §11)."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "handle:"
"""The text before a handle in a pairing token, in the place of the device token."""

_LENGTH = 32


@dataclass(frozen=True, repr=False)
class Handle:
    """A handle. Who has it can ring the phone. Prints without its content.

    Raises :class:`ValueError` unless there are 32 bytes.
    """

    bytes: bytes

    def __post_init__(self) -> None:
        if len(self.bytes) != _LENGTH:
            raise ValueError(f"a handle has {_LENGTH} bytes")

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Parses ``handle:``, which may be missing, and 64 hexadecimal digits.

        :raises ValueError: if the text is not a handle.
        """
        digits = text.removeprefix(PREFIX)
        if len(digits) != 2 * _LENGTH or any(c not in "0123456789abcdefABCDEF" for c in digits):
            raise ValueError(f"a handle is {PREFIX} and {2 * _LENGTH} hexadecimal digits")
        return cls(bytes.fromhex(digits))

    def reveal(self) -> str:
        """Returns the handle as in a pairing token."""
        return PREFIX + self.bytes.hex()

    def __repr__(self) -> str:
        return "<Handle redacted>"
