# SPDX-License-Identifier: Apache-2.0
"""The command line: the options and exit codes of ``tocsin send``, ``pair``, ``register``, ``rotate`` and ``forget``."""

from __future__ import annotations

import argparse
import asyncio
import base64
import codecs
import contextlib
import io
import os
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

from .client import TocsinClient
from .options import Address, Progress
from .envelope import MAXIMUM_TTL, Envelope, Format, Magic, Signature
from .errors import ConnectionRefusedForGood, PairingError, ProxyUnreachable, RejectionError, SubmissionError
from .handle import PREFIX, Handle
from .handle_request import HandleOwner, HandleOwnerError, HandleRefused
from .notification import BisqNotification, NotificationType, Schema
from .onion_key import OnionKey, OnionKeyError, TemporaryOnionKey, check_onion
from .outcome import Kind, Outcome
from .pairing import PairingToken
from .site_key import SiteKey, SiteKeyError

DELIVERED, FAILURE, USAGE, REJECTED, UNREACHABLE, TRY_LATER, GONE, CONFIGURATION = 0, 1, 64, 65, 69, 75, 76, 78
MAXIMUM_TEXT = 16 * 1024

T = TypeVar("T")

EXIT_CODES = """\
exit codes:
  0   delivered or queued
  64  wrong usage
  65  rejected: do not send it again
  69  no node could be reached
  75  try again later
  76  the phone no longer has this device token: forget the pairing
  78  the key to a closed onion cannot be used
"""


class Failure(Exception):
    """The command fails with this message and exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # A pairing token or a handle in the wrong place must not be printed.
        text = "unknown command or argument" if "|" in message or PREFIX in message else message
        self.exit(USAGE, f"{self.prog}: {text}\n{self.format_usage()}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal cannot show is no reason to fail.
            stream.reconfigure(errors="replace")
    try:
        options = _parser().parse_args(_as_typed(sys.argv[1:] if arguments is None else arguments))
        result: int = options.run(options)
        return result
    except Failure as failure:
        print(f"tocsin_client: {_line(str(failure))}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return 130


def _parser() -> _Parser:
    parser = _Parser(prog="tocsin_client", description="Ring a paired phone through a Tocsin node.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    send = commands.add_parser(
        "send", help="encrypt one notification for a phone and deliver it through a node", formatter_class=raw,
        epilog=EXIT_CODES
        + "\nexamples:\n"
        "  tocsin_client send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message @text < pairing\n"
        "  tocsin_client send 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct --title Taken --type OFFER\n",
    )
    _pairing_argument(send)
    send.add_argument(
        "--type", type=NotificationType, default=NotificationType.TRADE, metavar="TYPE",
        help=f"the notification's type: {', '.join(t.value for t in NotificationType)}",
    )
    send.add_argument("--title", default="", help="the title; @FILE reads it from a file, @- from standard input")
    send.add_argument("--message", default="", help="the message; @FILE and @- as for --title")
    send.add_argument("--trade-id", default="", help="the short id of the trade or offer")
    send.add_argument("--action-required", default="", help="what the user has to do, for apps that show it")
    send.add_argument("--silent", action="store_true", help="send it without a sound")
    _delivery_options(send)
    send.set_defaults(run=_send)

    pair = commands.add_parser("pair", help="read a pairing token, confirm or erase a pairing")
    pairs = pair.add_subparsers(title="commands", required=True, metavar="COMMAND")
    read = pairs.add_parser("read", help="check a pairing token")
    _pairing_argument(read)
    read.set_defaults(run=_pair_read)
    confirm = pairs.add_parser("confirm", help="tell a phone that it is paired", formatter_class=raw, epilog=EXIT_CODES)
    _pairing_argument(confirm)
    _delivery_options(confirm)
    confirm.set_defaults(run=_pair_confirm)
    erase = pairs.add_parser(
        "erase", help="make a phone's app delete its pairing and all notifications", formatter_class=raw,
        epilog=EXIT_CODES,
    )
    _pairing_argument(erase)
    erase.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _delivery_options(erase)
    erase.set_defaults(run=_pair_erase)

    register = commands.add_parser(
        "register", help="get a handle for a phone, to give to desktops in place of its device token",
        formatter_class=raw, epilog=EXIT_CODES
        + "\nexample:\n  tocsin_client register - --owner phone.key --node ADDRESS.onion:7077 < pairing > by-handle\n",
    )
    _pairing_argument(register)
    register.add_argument("--app", default="", help="the name of an app of the node; default: its first app")
    _handle_options(register, sender_keys=True)
    register.set_defaults(run=_register)
    rotate = commands.add_parser(
        "rotate", help="put a phone's new device token behind its handle", formatter_class=raw, epilog=EXIT_CODES
        + "\nexample:\n  tocsin_client rotate - --handle @by-handle --owner phone.key --node ADDRESS.onion:7077 < pairing\n",
    )
    _pairing_argument(rotate)
    _handle_argument(rotate)
    _handle_options(rotate, sender_keys=True)
    rotate.set_defaults(run=_rotate)
    forget = commands.add_parser(
        "forget", help="end a handle: nobody can ring the phone by it any more", formatter_class=raw, epilog=EXIT_CODES
        + "\nexample:\n  tocsin_client forget --handle @by-handle --owner phone.key --node ADDRESS.onion:7077\n",
    )
    _handle_argument(forget)
    _handle_options(forget, sender_keys=False)
    forget.set_defaults(run=_forget)
    return parser


def _handle_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--handle", required=True,
        help="the handle, or a pairing token with it; @FILE reads it from a file, where other users of this machine cannot "
        "see it",
    )


def _handle_options(parser: argparse.ArgumentParser, sender_keys: bool) -> None:
    parser.add_argument(
        "--owner", required=True, metavar="FILE",
        help="the file of the owner's private key; register creates it from the pairing token if it does not exist",
    )
    if sender_keys:
        parser.add_argument(
            "--sender-key", action="append", default=[], metavar="KEY",
            help="the public key, in Base64, of a sender that may ring the phone besides the owner; give it again for "
            "further ones, up to 8; default: whoever has the handle may",
        )
    _connection_options(parser)


def _pairing_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pairing",
        help="the phone's pairing token, magic|descriptor|key|device token. It contains the key: use - to read it from "
        "standard input, where other users of this machine cannot see it",
    )


def _connection_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--node", action="append", required=True, metavar="ADDRESS:PORT",
        help="the node's onion address and port; give it again for further nodes, the preferred one first",
    )
    parser.add_argument("--tor", default="127.0.0.1:9050", metavar="ADDRESS:PORT", help="tor's SOCKS port")
    parser.add_argument("--direct", action="store_true", help="connect without tor")
    parser.add_argument("--timeout", type=int, default=120, help="seconds until the command gives up; default 120")
    parser.add_argument(
        "--max-work", type=int, default=60,
        help="maximum seconds of computing if the node requires proof of work; 0: none; default 60",
    )
    parser.add_argument(
        "--site-key", metavar="FILE",
        help="the file with a site's key, as created by tocsin site key: the node applies the site's rate",
    )
    parser.add_argument(
        "--onion-key", metavar="FILE",
        help="the file with the key to a closed onion, as created by its operator with tocsin onion authorize",
    )
    parser.add_argument(
        "--tor-control", default="unix:/run/tor/control", metavar="ADDRESS", help="tor's control port, for --onion-key"
    )


def _delivery_options(parser: argparse.ArgumentParser) -> None:
    _connection_options(parser)
    parser.add_argument("--app", default="", help="the name of an app of the node; default: its first app")
    parser.add_argument(
        "--ttl", type=int, default=MAXIMUM_TTL,
        help="seconds that the push service may store the notification for a phone that is offline; 0: now or never",
    )
    parser.add_argument(
        "--queue", action="store_true", help="exit as soon as the node has stored the notification, if it can do that"
    )
    parser.add_argument("--no-key", action="store_true", help="do not sign")
    parser.add_argument(
        "--old-pairing", metavar="FILE",
        help="the pairing token that this phone had before it was paired anew with the same device token: the node then "
        "accepts the new pairing's sender key in place of the old one's",
    )
    parser.add_argument(
        "--format", type=Format, metavar="FORMAT",
        help="the format that the phone's app decrypts: pipe (Bisq 1, Haveno) or sealed (Bisq Connect); default: sealed "
        "if the key in the pairing token is Base64 of 32 bytes, else pipe",
    )
    parser.add_argument(
        "--schema", type=Schema, default=Schema.BISQ, metavar="SCHEMA",
        help="which fields the notification's text has: bisq (what Bisq's and Haveno's apps read) or tocsin (what an app of "
        "your own reads)",
    )


# The commands


def _send(options: argparse.Namespace) -> int:
    if [options.pairing == "-", options.title == "@-", options.message == "@-"].count(True) > 1:
        raise Failure("standard input can be read only once: for the pairing token, --title or --message", USAGE)
    notification = BisqNotification(
        options.type, _text(options.title), _text(options.message), options.trade_id,
        action_required=options.action_required,
    )
    return _deliver(options, _pairing(options), notification, sound=not options.silent)


def _pair_read(options: argparse.Namespace) -> int:
    text = _pairing_text(options)
    problem, pairing = "", None
    try:
        pairing = PairingToken.pasted(text)
        text = pairing.reveal()
    except PairingError as error:
        problem = str(error)
    parts = text.split("|")
    print("part          content")
    if len(parts) == 4:
        magic = parts[0] if parts[0] in [m.value for m in Magic] else f"{len(parts[0])} characters"
        for name, content in (
            ("magic", magic), ("descriptor", parts[1]), ("key", f"{len(parts[2].encode())} bytes"),
            ("device token", f"{len(parts[3].encode())} bytes"),
        ):
            print(f"{name:<14}{_line(content)}")
    if pairing is None:
        raise Failure(problem, REJECTED)
    print(f"valid, for apps that decrypt the format {pairing.default_format.value}")
    return DELIVERED


def _pair_confirm(options: argparse.Namespace) -> int:
    pairing = _pairing(options)
    notification = BisqNotification.confirmation(options.format or pairing.default_format, options.schema)
    return _deliver(options, pairing, notification, sound=True)


def _pair_erase(options: argparse.Namespace) -> int:
    pairing = _pairing(options)
    if not options.schema.supports_erase(options.format or pairing.default_format):
        raise Failure(
            "Bisq Connect does not support ERASE: delete the pairing in the app or uninstall it. For an app of your own, "
            "add --schema tocsin", USAGE)
    if not options.yes:
        if not sys.stdin.isatty():
            raise Failure("cannot ask for confirmation, standard input is not a terminal: add --yes", USAGE)
        print(
            f"This deletes all notifications and the pairing of the app on “{_line(pairing.descriptor)}”. "
            "Type yes to continue:",
            file=sys.stderr,
        )
        if sys.stdin.readline().strip().lower() not in ("yes", "y"):
            raise Failure("nothing was sent", FAILURE)
    return _deliver(options, pairing, BisqNotification(NotificationType.ERASE), sound=False)


# Handles


def _register(options: argparse.Namespace) -> int:
    phone, sender_keys = _phone(options), _sender_keys(options)
    try:
        if not os.path.exists(options.owner):
            HandleOwner.of(phone).save(options.owner)
        owner = HandleOwner.read(options.owner)
    except HandleOwnerError as error:
        raise Failure(str(error), CONFIGURATION) from None
    handle = _ask(options, lambda client: client.register(
        phone, owner, app=options.app, sender_keys=sender_keys, timeout=options.timeout
    ))
    print(phone.with_handle(handle).reveal())
    return DELIVERED


def _rotate(options: argparse.Namespace) -> int:
    handle, phone, sender_keys, owner = _handle(options), _phone(options), _sender_keys(options), _owner(options)
    _ask(options, lambda client: client.rotate(
        handle, phone, owner, sender_keys=sender_keys, timeout=options.timeout
    ))
    print("rotated")
    return DELIVERED


def _forget(options: argparse.Namespace) -> int:
    handle, owner = _handle(options), _owner(options)
    _ask(options, lambda client: client.forget(handle, owner, timeout=options.timeout))
    print("forgotten")
    return DELIVERED


def _phone(options: argparse.Namespace) -> PairingToken:
    phone = _pairing(options)
    if phone.handle is not None:
        raise Failure(
            "this pairing token has a handle: give the one that the phone shows, with its device token", USAGE
        )
    return phone


def _handle(options: argparse.Namespace) -> Handle:
    text = "".join(_text(options.handle).splitlines())
    try:
        return Handle.parse(text.rpartition("|")[2])
    except ValueError as error:
        raise Failure(f"--handle must be a handle, or a pairing token with one: {error}", USAGE) from None


def _owner(options: argparse.Namespace) -> HandleOwner:
    try:
        return HandleOwner.read(options.owner)
    except HandleOwnerError as error:
        raise Failure(str(error), CONFIGURATION) from None


def _sender_keys(options: argparse.Namespace) -> list[bytes]:
    try:
        keys = [base64.b64decode(text, validate=True) for text in options.sender_key]
    except ValueError:
        keys = [b""]
    if any(len(key) != 32 for key in keys):
        raise Failure("--sender-key must be a public key: 44 characters of Base64", USAGE)
    if len(keys) > 8:
        raise Failure("a handle has at most 8 sender keys", USAGE)
    return keys


def _ask(options: argparse.Namespace, request: Callable[[TocsinClient], Awaitable[T]]) -> T:
    if len(options.node) > 1:
        raise Failure("a handle is kept by one node: give --node once", USAGE)
    try:
        return _with_client(options, request, "asking the node")
    except HandleRefused as error:
        text, outcome = _line(str(error)), error.outcome
        if outcome.kind is Kind.GONE:
            raise Failure(f"gone: {text}. Register the phone again", GONE) from None
        if outcome.kind is Kind.RETRY:
            raise Failure(f"try again {_when(outcome)}: {text} (reason {outcome.reason})", TRY_LATER) from None
        raise Failure(f"rejected: {text} (reason {outcome.reason})", REJECTED) from None


# Delivery


def _deliver(
    options: argparse.Namespace, pairing: PairingToken, notification: BisqNotification, sound: bool
) -> int:
    try:
        envelope = pairing.seal(
            notification, app=options.app, ttl=options.ttl, sound=sound, format=options.format, schema=options.schema
        )
    except RejectionError as error:
        raise Failure(str(error), REJECTED) from None
    if options.no_key and options.old_pairing is not None:
        raise Failure("--old-pairing needs a signature: omit --no-key", USAGE)
    signature = None if options.no_key else _signature(options, pairing, envelope)
    outcome = _with_client(options, lambda client: client.submit(
        envelope, signature=signature, timeout=options.timeout,
        accept_queued=options.queue, returns_when_queued=options.queue,
    ), "sending the notification")
    return _report(outcome, pairing)


def _with_client(
    options: argparse.Namespace, work: Callable[[TocsinClient], Awaitable[T]], purpose: str
) -> T:
    """Runs ``work`` with a client for the nodes that the options name, and shows its progress."""
    nodes = [_node(text, options.direct) for text in options.node]
    if options.max_work < 0 or options.timeout < 0:
        raise Failure("--max-work and --timeout must not be negative", USAGE)
    if options.direct and options.onion_key:
        raise Failure("--onion-key requires an onion, which --direct cannot reach", USAGE)
    try:
        socks = None if options.direct else Address.parse(options.tor)
    except ValueError:
        raise Failure(f"--tor must be like 127.0.0.1:9050, not {options.tor}", USAGE) from None
    key = _onion_key(options, nodes)
    try:
        site_key = SiteKey.read(options.site_key) if options.site_key else None
    except SiteKeyError as error:
        raise Failure(str(error), CONFIGURATION) from None

    async def run() -> T:
        async with contextlib.AsyncExitStack() as stack:
            if key is not None:
                await stack.enter_async_context(TemporaryOnionKey(key, options.tor_control))
            client = TocsinClient(
                nodes, socks=socks, work_limit=options.max_work, site_key=site_key,
                on_progress=_Display(options.direct, purpose),
            )
            await stack.enter_async_context(client)
            answer = await work(client)
        return answer

    try:
        return asyncio.run(run())
    except OnionKeyError as error:
        raise Failure(f"cannot give tor the onion's key: {error}", UNREACHABLE) from None
    except ConnectionRefusedForGood as error:
        raise Failure(str(error), TRY_LATER if error.retry_after else REJECTED) from None
    except ProxyUnreachable as error:
        raise Failure(
            f"{error}. This is tor's SOCKS port: start tor, give another port with --tor (Tor Browser's is "
            "127.0.0.1:9150), or use --direct if the node is on this machine",
            UNREACHABLE,
        ) from None
    except SubmissionError as error:
        raise Failure(str(error), UNREACHABLE) from None
    finally:
        _Display.clear()


def _report(outcome: Outcome, pairing: PairingToken) -> int:
    if outcome.left is not None and (outcome.left == 0 or outcome.reason == 200):
        full = f"; full allowance in {_seconds(outcome.full_in)}" if outcome.full_in is not None else ""
        print(f"tocsin_client: notifications left for this phone now: {outcome.left}{full}", file=sys.stderr)
    if outcome.kind is Kind.DELIVERED:
        print("delivered" + (f": {_line(outcome.provider_id)}" if outcome.provider_id else ""))
        return DELIVERED
    if outcome.kind is Kind.QUEUED:
        print("queued")
        return DELIVERED
    text = _line(outcome.description)
    if outcome.kind is Kind.GONE and pairing.handle is not None and outcome.reason == 304:
        raise Failure(
            f"gone: {text}. Its owner can put its new device token behind the handle with rotate", GONE
        )
    if outcome.kind is Kind.GONE:
        raise Failure(f"gone: {text}. Forget this pairing", GONE)
    advice = {
        205: "; this phone accepts only signed notifications: send without --no-key",
        206: "; this phone was paired anew elsewhere, or this pairing token is an old one: use the phone's current one. If "
        "it is the current one, give the one before with --old-pairing; if that is lost, ask the node's operator to run "
        "tocsin unbind",
        203: "; --max-work SECONDS allows more computing",
        204: "; --max-work SECONDS allows more computing",
    }.get(outcome.reason, "")
    if outcome.kind is Kind.REJECTED:
        raise Failure(f"rejected: {text} (reason {outcome.reason}){advice}", REJECTED)
    raise Failure(f"try again {_when(outcome)}: {text} (reason {outcome.reason}){advice}", TRY_LATER)


def _when(outcome: Outcome) -> str:
    return f"in {_seconds(outcome.retry_after)}" if outcome.retry_after else "later"


class _Display:
    """Shows the progress on one line of the terminal."""

    def __init__(self, is_direct: bool, purpose: str) -> None:
        self._purpose = purpose
        self._through = "" if is_direct else " through tor"

    def __call__(self, progress: Progress) -> None:
        texts = {
            "connecting": f"connecting to {progress.node}{self._through} …",
            "connected": f"connected; {self._purpose} …",
            "welcomed": "waiting for the answer …",
            "queued": "stored by the node; waiting for the push service …",
            "solving": "the node requires proof of work: computing …",
            "retrying": f"{progress.reason}; retrying in {progress.seconds:.1f} s …",
            "waiting": f"{progress.reason}; sending again in {progress.seconds:.1f} s …",
        }
        if sys.stderr.isatty():
            print(f"\r\x1b[K{_line(texts[progress.step])}", end="", file=sys.stderr, flush=True)

    @staticmethod
    def clear() -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _onion_key(options: argparse.Namespace, nodes: list[Address]) -> OnionKey | None:
    if not options.onion_key:
        return None
    try:
        key = OnionKey.read(options.onion_key)
    except OnionKeyError as error:
        raise Failure(str(error), CONFIGURATION) from None
    if not any(node.host.lower() == f"{key.label}.onion" for node in nodes):
        raise Failure(f"{options.onion_key} is the key to {key.label}.onion, not to {nodes[0]}", USAGE)
    return key


def _node(text: str, is_direct: bool) -> Address:
    try:
        address = Address.parse(text)
    except ValueError:
        raise Failure(f"--node must be like ADDRESS.onion:7077, not {text}", USAGE) from None
    if is_direct and address.host.lower().endswith(".onion"):
        raise Failure("--direct cannot reach an onion: omit it, or give the node's own address", USAGE)
    try:
        check_onion(address.host)
    except ValueError as error:
        raise Failure(str(error), USAGE) from None
    return address


def _pairing_text(options: argparse.Namespace) -> str:
    text: str = options.pairing
    if text != "-":
        return text
    return sys.stdin.readline() if sys.stdin.isatty() else _text("@-")


def _pairing(options: argparse.Namespace) -> PairingToken:
    try:
        return PairingToken.pasted(_pairing_text(options))
    except PairingError as error:
        raise Failure(str(error), USAGE) from None


def _signature(options: argparse.Namespace, pairing: PairingToken, envelope: Envelope) -> Signature:
    if options.old_pairing is None:
        return pairing.sign(envelope)
    try:
        earlier = PairingToken.pasted(_text("@" + options.old_pairing))
        return pairing.sign(envelope, succeeding=earlier)
    except (PairingError, ValueError) as error:
        raise Failure(f"{options.old_pairing}: {error}", USAGE) from None


def _text(argument: str) -> str:
    """The argument, or for ``@FILE`` the content of that file without its last line end, and with the line ends of Unix;
    ``@@`` at the beginning stands for ``@``."""
    if not argument.startswith("@"):
        return argument
    name = argument[1:]
    if name.startswith("@"):
        return name
    try:
        if name == "-":
            content = sys.stdin.buffer.read(MAXIMUM_TEXT + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(MAXIMUM_TEXT + 1)
    except OSError as error:
        raise Failure(f"cannot read {name}: {error.strerror}", USAGE) from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Failure(f"{name} is UTF-16 text: save it as UTF-8", USAGE)
    try:
        if len(content) > MAXIMUM_TEXT:
            raise ValueError
        # As editors of Windows write it.
        return content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except ValueError:
        raise Failure(f"{name} is not UTF-8 text of at most {MAXIMUM_TEXT} bytes", USAGE) from None


def _as_typed(arguments: Sequence[str]) -> list[str]:
    """The arguments with the characters that the locale does not have, which Python keeps as lone surrogates."""
    typed = []
    for number, argument in enumerate(arguments, 1):
        try:
            has_bytes = any("\udc80" <= c <= "\udcff" for c in argument)
            typed.append(os.fsencode(argument).decode() if has_bytes else argument)
        except ValueError:
            raise Failure(
                f"argument {number} is not text in this locale's encoding: set LC_ALL=C.UTF-8, or give @FILE with the text "
                "in UTF-8", USAGE,
            ) from None
    return typed


def _seconds(milliseconds: int) -> str:
    return f"{(milliseconds + 999) // 1000} s"


def _line(text: str) -> str:
    """Makes foreign text safe for a terminal: no control, format or separator characters, and one line."""
    safe = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp"))
    return safe if len(safe) <= 1000 else safe[:1000] + "…"
