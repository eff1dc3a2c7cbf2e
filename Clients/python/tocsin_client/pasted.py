# SPDX-License-Identifier: Apache-2.0
"""A pairing token as people paste it: what mail, editors and web pages do to it is undone where it is unambiguous."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 16 * 1024
"""The longest pasted text that is looked at, in characters."""

GOOGLE_LENGTH = 140
"""Characters after the colon of Google's device tokens that begin with APA91b, as issued since 2015."""

_BARS = "│┃¦｜￨ǀ∣❘︱║‖"
_QUOTES = "\"'`“”„‘’«»"
_LETTERS = dict(zip("АВЕЅІЈКМНОРСТХаеосрхѕіјΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABESIJKMHOPCTXaeocpxsijABEZHIKMNOPTXo"))
"""Cyrillic and Greek letters that look like Latin ones."""
_LOOKALIKES = str.maketrans(
    {bar: "|" for bar in _BARS}
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {"‐": "-", "‑": "-", "−": "-"}
    | _LETTERS
)
_ENTITIES = {
    "amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " ", "vert": "|", "verbar": "|",
    "VerticalLine": "|", "plus": "+", "sol": "/", "equals": "=", "colon": ":", "lowbar": "_", "hyphen": "-",
}
_MAGICS = {"ios": "iOS", "iosdev": "iOSDev", "android": "android", "web": "web"}


def token_in(text: str) -> str:
    """Returns the pairing token that a pasted text holds, as the phone showed it; another text if it holds none."""
    if len(text) > LONGEST:
        return text
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = re.sub("\r\n|[\r\u2028\u2029]", "\n", text)
    if re.search(r"=7C|=3D|=[ \t]*\n(?!\|)", text, re.IGNORECASE):
        # Quoted-printable (RFC 2045 §6.7): a line break after = belongs to the mail.
        text = _unescaped("=", re.sub(r"=[ \t]*\n(?!\|)", "", text))
    if re.search("%7C", text, re.IGNORECASE):
        text = _unescaped("%", text)
    text = re.sub(r"<(br|p|/p|div|/div)(\s[^<>]*|/)?>", "\n", text, flags=re.IGNORECASE)
    text = re.sub(r"</?[A-Za-z][^<>|]*>", "", text)
    text = re.sub(r"&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});", _entity, text)
    text = "".join(" " if unicodedata.category(c) == "Zs" else c for c in text).translate(_LOOKALIKES)
    # Markdown.
    text = re.sub(r"\\([|_\-*+.:=/])", r"\1", text)
    return _tidied(_joined(text.split("\n")))


def _unescaped(mark: str, text: str) -> str:
    data = re.sub(
        re.escape(mark).encode() + rb"([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())
    return data.decode(errors="replace")


def _entity(match: re.Match[str]) -> str:
    name = match[1]
    if not name.startswith("#"):
        return _ENTITIES.get(name, match[0])
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(code) if 0x20 <= code < 0xD800 else match[0]


def _joined(lines: list[str]) -> str:
    """The lines of the token as one: without quotation marks of mail, and without what stands before and after."""
    joined = ""
    for line in lines:
        line = re.sub(r"^[\s>]+", "", line).rstrip()
        if not joined:
            found = re.search(r"(?<![A-Za-z])(iOSDev|iOS|android|web)\s*\|", line, re.IGNORECASE)
            joined = line[found.start():] if found else ""
        elif not line or line == "--" or joined.count("|") >= 3 and " " in line or _is_whole(joined, line):
            break
        else:
            joined += line
    return joined


def _is_whole(token: str, following: str) -> bool:
    """Whether a token ends here, although another line follows."""
    parts = token.split("|")
    if len(parts) != 4:
        return False
    magic, last = parts[0].strip().lower(), parts[3]
    if magic == "android":
        return re.fullmatch(r"[\w-]+:APA91b[\w-]{134}", last, re.ASCII) is not None
    return magic != "web" and re.search(r"[^0-9A-Fa-f]", following) is not None and not last.startswith("handle:")


def _tidied(token: str) -> str:
    parts = token.split("|")
    for index, part in enumerate(parts):
        if index == 1:
            parts[index] = part.strip(" " + _QUOTES)
        else:
            parts[index] = "".join(c for c in part if c not in _QUOTES and not c.isspace())
    parts[0] = _MAGICS.get(parts[0].lower(), parts[0])
    parts[-1] = parts[-1].rstrip(".,;:!?)]}>*")
    if len(parts) > 3 and parts[3].lower().startswith("handle:"):
        parts[3] = "handle:" + _digits(parts[3][len("handle:"):])
    elif len(parts) > 3 and parts[0].startswith("iOS"):
        parts[3] = _digits(parts[3])
    return "|".join(parts)


def _digits(text: str) -> str:
    """Hexadecimal digits, of which O, l and I are none."""
    return text.translate(str.maketrans("OolI", "0011"))


def doubt(magic: str, device_token: str) -> str | None:
    """Why a token that conforms to the protocol is still no token that Google issues."""
    if magic != "android":
        return None
    for character in device_token:
        if not character.isascii():
            return (
                f"the device token contains {character} (U+{ord(character):04X}), which Google does not use: a mail program "
                "or an editor may have put it in place of another character; copy the pairing token again"
            )
    match = re.fullmatch(r"[\w-]+:(APA91b[\w-]*)", device_token, re.ASCII)
    if match is not None and len(match[1]) < GOOGLE_LENGTH:
        return (
            f"the device token was cut off: after the colon, Google's have {GOOGLE_LENGTH} characters, this one "
            f"{len(match[1])}; copy the whole pairing token"
        )
    return None
