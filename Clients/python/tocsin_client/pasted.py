# SPDX-License-Identifier: Apache-2.0
"""A pairing token as people paste it: what mail, editors and web pages do to it is undone where it is unambiguous."""

from __future__ import annotations

import re
import unicodedata

from .handle import PREFIX

LONGEST = 16 * 1024
"""The longest pasted text that is looked at, in bytes of UTF-8."""

MAXIMUM_TOKEN = 2048
"""Longer than all pairing tokens, in characters."""

GOOGLE_LENGTH = 140
"""Characters after the colon of Google's device tokens that begin with APA91b, as issued since 2015."""

APPLE_LENGTH = 64
"""Digits of Apple's device tokens of today."""

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
    if len(text.encode(errors="replace")) > LONGEST:
        return text
    text = _plain_spaces(text)
    # A query's end is no soft line break.
    text = re.sub(r"([?&]up=) *\n", r"\1", text)
    if re.search(r"=7C|=3D(1?\||=| *(\n|$))|(^|\n)[^\n]{69,76}= *\n(?!\|)", text, re.IGNORECASE):
        # Quoted-printable (RFC 2045 §6.7): a line break after = belongs to the mail.
        text = _plain_spaces(_unescaped("=", re.sub(r"= *\n(?!\|)", "", text)))
    if re.search("%7C", text, re.IGNORECASE):
        text = _plain_spaces(_unescaped("%", text))
    text = re.sub(r"<(br|p|/p|div|/div)( [^<>]*|/)?>", "\n", text, flags=re.IGNORECASE)
    text = re.sub(r"</?[A-Za-z][^<>|]*>", "", text)
    text = re.sub(r"&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});", _entity, text)
    text = _plain_spaces(text).translate(_LOOKALIKES)
    # Markdown.
    text = re.sub(r"\\([|_\-*+.:=/])", r"\1", text)
    return _tidied(_joined(text.split("\n")))


def _plain_spaces(text: str) -> str:
    """The text without invisible characters, and with two kinds of white space: spaces and line feeds."""
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = re.sub("\r\n|[\r\v\f\x85\u2028\u2029]", "\n", text)
    return "".join(" " if c in "\t\x1c\x1d\x1e\x1f" or unicodedata.category(c) == "Zs" else c for c in text)


def _unescaped(mark: str, text: str) -> str:
    data = re.sub(
        re.escape(mark).encode() + rb"([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]),
        text.encode(errors="replace"))
    return data.decode(errors="replace")


def _entity(match: re.Match[str]) -> str:
    name = match[1]
    if not name.startswith("#"):
        return _ENTITIES.get(name, match[0])
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(code) if 0x20 <= code < 0xD800 else match[0]


def _joined(lines: list[str]) -> str:
    """The lines of the token as one: without quotation marks of mail, and without what stands before and after."""
    joined, bars = "", 0
    for line in lines:
        line = line.lstrip(" >").rstrip(" ")
        if not joined:
            found = re.search(r"(?<![A-Za-z])(iOSDev|iOS|android|web) *\|", line, re.IGNORECASE | re.ASCII)
            line = line[found.start():] if found else ""
        elif not line or line == "--" or bars >= 3 and (" " in line or _ends(joined, line)):
            break
        joined += line
        bars += line.count("|")
        if len(joined) > MAXIMUM_TOKEN:
            break
    return joined


def _ends(token: str, following: str) -> bool:
    """Whether a token is whole, although another line follows. Apple may have longer tokens than today's."""
    is_longer = len(following) >= 16 and re.fullmatch("[0-9A-Fa-f]*", following) is not None
    parts = token.split("|")
    return _is_whole(parts[0], len(parts), parts[-1]) and not is_longer


def _is_whole(magic: str, count: int, last: str) -> bool:
    """Whether the last part of a token is as long as those of today."""
    last = _bare_last(magic.strip(" " + _QUOTES).lower(), count, last)
    match magic.strip(" " + _QUOTES).lower(), count:
        case "web", 6:
            return re.fullmatch("[A-Za-z0-9_-]{22}", last) is not None
        case "ios" | "iosdev" | "android", 4 if last.startswith(PREFIX):
            return re.fullmatch("[0-9A-Fa-f]{64}", last[len(PREFIX):]) is not None
        case "ios" | "iosdev", 4:
            return re.fullmatch("[0-9A-Fa-f]{64}", last) is not None
        case "android", 4:
            return re.fullmatch("[A-Za-z0-9_-]+:APA91b[A-Za-z0-9_-]{134}", last) is not None
    return False


def _tidied(token: str) -> str:
    parts = token.split("|")
    magic = parts[0].strip(" " + _QUOTES).lower()
    words = parts[-1].strip(" ").split(" ")
    if len(words) > 1 and _is_whole(magic, len(parts), words[0]):
        parts[-1] = words[0]
    for index, part in enumerate(parts):
        parts[index] = part.strip(" " + _QUOTES) if index == 1 else _bare(part)
    parts[0] = _MAGICS.get(magic, parts[0])
    parts[-1] = _bare_last(magic, len(parts), parts[-1])
    return "|".join(parts)


def _bare(part: str) -> str:
    return "".join(c for c in part if c not in _QUOTES and c != " ")


def _bare_last(magic: str, count: int, last: str) -> str:
    """The last part without what stands around it."""
    last = _bare(last).rstrip(".,;:!?)]}>*")
    if count == 4 and last.lower().startswith(PREFIX):
        return PREFIX + _digits(last[len(PREFIX):])
    return _digits(last) if count == 4 and magic.startswith("ios") else last


def _digits(text: str) -> str:
    """Hexadecimal digits, of which O, l and I are none."""
    return text.translate(str.maketrans("OolI", "0011"))


def doubt(magic: str, device_token: str) -> str | None:
    """Why a token that conforms to the protocol is still no token that Google issues."""
    if magic != "android":
        return None
    allowed = "[!-~]" if re.match("https?://", device_token) else "[A-Za-z0-9_:-]"
    for character in device_token:
        if not re.fullmatch(allowed, character):
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


def cut(magic: str, device_token: str) -> str | None:
    """Why what is left of a damaged text may not be the whole token."""
    if magic not in ("iOS", "iOSDev") or not 0 < len(device_token) < APPLE_LENGTH:
        return None
    return (
        f"the device token was cut off: Apple's have {APPLE_LENGTH} digits, this one {len(device_token)}; copy the whole "
        "pairing token"
    )
