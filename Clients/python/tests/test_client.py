# SPDX-License-Identifier: Apache-2.0
"""Rules that the transcripts of Tests/Conformance cannot show: pairing, padding, secrets, backoff, the command line."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tocsin_client import (
    Address, BisqNotification, BlockingClient, Envelope, Format, Kind, Magic, NotificationType, PairingError,
    PairingToken, RejectionError, TocsinClient,
)
from tocsin_client.client import _sequence
from tocsin_client.handle import Handle
from tocsin_client.handle_request import HandleOwner, HandleOwnerError, HandleRefused
from tocsin_client.nodes import NodeState, State, choose
from tocsin_client.onion_key import OnionKey, OnionKeyError, is_onion_label

KEY = "A4C595428CAA4C768F60AE7EBFF85852"
APPLE = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"
PIPE = f"iOS|iPhone 15|{KEY}|{APPLE}"
SEALED = f"iOS|iPhone 15|{base64.b64encode(bytes(32)).decode()}|{APPLE}"
ROOT = Path(__file__).parent.parent


# Pairing tokens


def test_a_pairing_token_has_four_parts_and_each_is_checked():
    assert PairingToken(PIPE).default_format is Format.PIPE
    assert PairingToken(SEALED).default_format is Format.SEALED
    for text, word in (
        ("", "four parts"), (f"ios|x|{KEY}|{APPLE}", "magic"), (f"iOS|x|{KEY[1:]}|{APPLE}", "key"),
        (f"iOS|x|{KEY}|{APPLE[1:]}", "device token"), (f"android|x|{KEY}|short", "device token"),
        (f"iOS|x|{'A' * 43}!|{APPLE}", "key"),
    ):
        with pytest.raises(PairingError) as caught:
            PairingToken(text)
        assert word in str(caught.value)
        assert KEY[1:] not in str(caught.value) and APPLE[1:] not in str(caught.value)


def test_nothing_that_is_printed_holds_a_secret():
    pairing = PairingToken(PIPE)
    notification = BisqNotification(NotificationType.TRADE, "a secret title", "a secret text")
    envelope = pairing.seal(notification)
    for value in (pairing, envelope, notification, [pairing], {"e": envelope}):
        for text in (repr(value), str(value)):
            assert all(secret not in text for secret in (KEY, APPLE, "secret", envelope.iv.decode()))


# Sealing


def opened(envelope: Envelope) -> bytes:
    if len(envelope.iv) == 12:
        return AESGCM(bytes(32)).decrypt(envelope.iv, envelope.ciphertext, None)
    decryptor = Cipher(algorithms.AES(KEY.encode()), modes.CBC(envelope.iv)).decryptor()
    return decryptor.update(envelope.ciphertext) + decryptor.finalize()


@pytest.mark.parametrize("token", [PIPE, SEALED])
def test_notifications_of_all_types_have_the_same_length(token):
    lengths = set()
    for type in NotificationType:
        envelope = PairingToken(token).seal(BisqNotification(type, "", "Trade 123 is paid"))
        text = opened(envelope)
        assert len(text) == 256
        json.loads(text)
        lengths.add(len(envelope.ciphertext))
    assert len(lengths) == 1


@pytest.mark.parametrize("token", [PIPE, SEALED])
def test_padding_ends_at_the_limit_of_the_providers(token):
    pairing = PairingToken(token)
    for length, expected in ((0, 0), (1, 256), (256, 256), (257, 512), (2560, 2560), (2561, 2816), (2816, 2816)):
        if length:
            assert len(opened(pairing.seal(b"x" * length))) == expected
    # Beyond the last bucket, only the cipher's own padding.
    assert len(opened(pairing.seal(b"x" * 2817))) == (2832 if token == PIPE else 2817)
    with pytest.raises(RejectionError):
        pairing.seal(b"x" * 3073)


def test_text_of_any_script_is_sealed():
    for text in ("žluťoučký kůň", "取引", "🚀" * 50, "\u0000\u001f\u2028'<>&=\"\\"):
        envelope = PairingToken(PIPE).seal(BisqNotification(NotificationType.TRADE, text, text))
        assert json.loads(opened(envelope))["title"] == text


def test_two_envelopes_never_share_an_iv():
    pairing = PairingToken(PIPE)
    assert len({pairing.seal(b"{}").iv for _ in range(1000)}) == 1000


def test_rules_of_fields():
    good = {
        "magic": Magic.IOS, "device_token": APPLE, "iv": b"0123456789abcdef", "ciphertext": bytes(16),
        "format": Format.PIPE,
    }
    Envelope(**good)
    for change, reason in (
        ({"device_token": "xyz"}, 102), ({"device_token": ""}, 102), ({"iv": b"0123456789abcde|"}, 103),
        ({"iv": b"short"}, 103), ({"ciphertext": bytes(17)}, 104), ({"ciphertext": bytes(3088)}, 104),
        ({"ttl": -1}, 108), ({"ttl": 2_419_201}, 108), ({"collapse_id": ""}, 108), ({"collapse_id": " x"}, 108),
    ):
        with pytest.raises(RejectionError) as caught:
            Envelope(**(good | change))
        assert caught.value.reason == reason


# Nodes


def test_backoff_doubles_up_to_its_cap():
    node = NodeState()
    waits = [node.failed(0.0, 1.0) for _ in range(10)]
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    node.answered()
    assert node.failed(0.0, 0.5) == 0.125
    assert node.failed(0.0, 0.0, at_least=5.0) == 5.0
    assert node.failed(0.0, 0.0, at_least=1e9) == 600


def test_the_first_usable_node_is_chosen():
    nodes = [NodeState() for _ in range(3)]
    assert choose(nodes) == 0
    nodes[0].state = State.DOWN
    nodes[1].refused(0.0, 0)
    assert choose(nodes) == 2
    assert choose(nodes, {2}) is None
    nodes[1].revive(59.0)
    assert choose(nodes) == 2
    nodes[1].revive(60.0)
    assert choose(nodes) == 1
    nodes[1].is_slow = True
    assert choose(nodes) == 2
    assert choose(nodes, {2}) == 1


def test_addresses():
    assert Address.parse("abc.onion:7077") == Address("abc.onion", 7077)
    assert str(Address.parse("[::1]:80")) == "[::1]:80"
    for text in ("", "abc", "abc:", ":80", "abc:0", "abc:65536", "abc:x", "abc:٣"):
        with pytest.raises(ValueError):
            Address.parse(text)


def test_onion_labels_have_a_checksum():
    label = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad"
    assert is_onion_label(label)
    assert not is_onion_label("a" + label[1:])
    assert not is_onion_label(label[:-1])


def test_a_key_file_must_be_private_and_whole(tmp_path):
    label = "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad"
    file = tmp_path / "key.auth_private"
    file.write_text(f"{label}:descriptor:x25519:{'A' * 52}\n")
    file.chmod(0o600)
    key = OnionKey.read(str(file))
    assert key.label == label and "A" * 8 not in repr(key)
    file.chmod(0o644)
    with pytest.raises(OnionKeyError, match="other users"):
        OnionKey.read(str(file))
    file.chmod(0o600)
    file.write_text("nonsense")
    with pytest.raises(OnionKeyError, match="does not contain"):
        OnionKey.read(str(file))
    with pytest.raises(OnionKeyError, match="cannot read"):
        OnionKey.read(str(tmp_path / "none"))


# A whole client against a small node


class Node:
    """Answers each SUBMIT with the same outcome."""

    def __init__(self, outcome: int, reason: int = 0) -> None:
        self.answer = bytes([outcome]) + reason.to_bytes(2, "big") + bytes(4)
        self.hellos = 0

    async def __aenter__(self) -> str:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readexactly(5)
                payload = await reader.readexactly(int.from_bytes(head[:4], "big") - 1)
                if head[4] == 1:
                    self.hellos += 1
                    welcome = bytes.fromhex("020100040000200000400000025800000199c82cc07b") + bytes(24) + b"\0"
                    writer.write(len(welcome).to_bytes(4, "big") + welcome)
                elif head[4] == 3:
                    writer.write(b"\0\0\0\x0c\x04" + payload[:4] + self.answer)
        except asyncio.IncompleteReadError:
            writer.close()


def test_pairing_is_one_call_and_so_is_its_end():
    async def run():
        async with Node(0) as address, TocsinClient([address], socks=None) as client:
            pairing = await client.pair(PIPE)
            assert client.pairings == [pairing]
            assert PairingToken(pairing.reveal()) == pairing
            assert (await client.erase(pairing)).kind is Kind.DELIVERED
            assert client.pairings == []

    asyncio.run(run())


def test_a_phone_that_is_gone_is_reported_once():
    async def run():
        gone: list[PairingToken] = []
        async with Node(4, 304) as address, TocsinClient([address], socks=None, on_gone=gone.append) as client:
            pairing = PairingToken(PIPE)
            client.remember(pairing)
            for _ in range(2):
                outcome = await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid"))
                assert outcome.kind is Kind.GONE
        assert gone == [pairing] and client.pairings == []

    asyncio.run(run())


@pytest.mark.parametrize("reason", [304, 310])
def test_a_pairing_by_handle_survives_the_device_token(reason):
    async def run():
        gone: list[PairingToken] = []
        async with Node(4, reason) as address, TocsinClient([address], socks=None, on_gone=gone.append) as client:
            pairing = PairingToken(PIPE).with_handle(Handle(b"5" * 32))
            client.remember(pairing)
            outcome = await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid"))
            assert outcome.kind is Kind.GONE
            assert (client.pairings, gone) == (([], [pairing]) if reason == 310 else ([pairing], []))

    asyncio.run(run())


def test_a_node_without_handles_is_not_asked_for_one(tmp_path):
    async def run():
        async with Node(0) as address, TocsinClient([address], socks=None) as client:
            pairing = PairingToken(PIPE)
            with pytest.raises(HandleRefused) as refused:
                await client.register(pairing, HandleOwner.of(pairing), timeout=10)
            assert refused.value.outcome.reason == 106
            # The connection is still good.
            outcome = await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid"))
            assert outcome.kind is Kind.DELIVERED

    asyncio.run(run())
    path = tmp_path / "owner"
    HandleOwner.of(PairingToken(PIPE)).save(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert HandleOwner.read(str(path)) == HandleOwner.of(PairingToken(PIPE))
    with pytest.raises(HandleOwnerError):
        HandleOwner.of(PairingToken(PIPE)).save(str(path))


def test_each_phone_has_a_connection_of_its_own():
    async def run():
        node = Node(0)
        async with node as address, TocsinClient([address], socks=None) as client:
            for digit in "123":
                pairing = PairingToken(f"iOS|x|{KEY}|{digit * 64}")
                await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid"))
                await client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid"))
        assert node.hellos == 3

    asyncio.run(run())


def test_circuits_are_bounded():
    async def run():
        node = Node(0)
        async with node as address, TocsinClient([address], socks=None) as client:
            pairings = [PairingToken(f"iOS|x|{KEY}|{number:064x}") for number in range(100)]
            notification = BisqNotification(NotificationType.TRADE, "Paid")
            await asyncio.gather(*(client.notify(pairing, notification) for pairing in pairings))
        assert node.hellos == 64

    asyncio.run(run())


def test_the_blocking_client_works_without_an_event_loop():
    async def address_of(node: Node) -> str:
        return await node.__aenter__()

    import threading

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    address = asyncio.run_coroutine_threadsafe(address_of(Node(0)), loop).result()
    with BlockingClient([address], socks=None) as client:
        pairing = client.pair(PIPE)
        assert client.notify(pairing, BisqNotification(NotificationType.TRADE, "Paid")).kind is Kind.DELIVERED
        assert client.erase(pairing).kind is Kind.DELIVERED
    client.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


# The command line


def command(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tocsin_client", *arguments], cwd=ROOT, input=text, capture_output=True, text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["send", "nonsense", "--node", "127.0.0.1:1", "--direct"], 64, "four parts"),
        (["send", PIPE, "--node", "abc.onion:7077"], 64, "not an onion address"),
        (["send", PIPE, "--node", "127.0.0.1", "--direct"], 64, "--node must be like"),
        (["send", PIPE, "--node", "127.0.0.1:1", "--tor", "x"], 64, "--tor must be like"),
        (["send", PIPE], 64, "--node"),
        ([PIPE, "--node", "127.0.0.1:1"], 64, "unknown command"),
        (["pair", PIPE], 64, "unknown command"),
        (["send", PIPE, "--node", "127.0.0.1:1", "--direct", "--timeout", "1"], 69, "connection refused"),
        (["send", PIPE, "--node", "127.0.0.1:1", "--tor", "127.0.0.1:1", "--timeout", "1"], 69, "start tor"),
        (["send", PIPE, "--node", "127.0.0.1:1", "--direct", "--message", "x" * 3100], 65, "too long by 135 bytes"),
        (["send", "-", "--node", "127.0.0.1:1", "--title", "@-"], 64, "only once"),
        (["send", PIPE, "--node", "127.0.0.1:1", "--title", "@/none"], 64, "cannot read /none"),
        (["pair", "erase", PIPE, "--node", "127.0.0.1:1", "--direct"], 64, "--yes"),
        (["pair", "erase", SEALED, "--node", "127.0.0.1:1", "--direct", "--yes"], 64, "does not support ERASE"),
        (["pair", "read", "iOS|x|short|y"], 65, "the key, has 5 bytes"),
    ],
)
def test_wrong_input_gets_a_sentence_and_no_stack_trace(arguments, code, words):
    done = command(*arguments, text="")
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert KEY not in done.stderr and APPLE not in done.stderr


def test_the_pairing_token_may_come_from_standard_input():
    done = command("pair", "read", "-", text=PIPE[:40] + "\n" + PIPE[40:] + "\n")
    assert done.returncode == 0 and "pipe" in done.stdout and KEY not in done.stdout


def test_help_has_examples_and_exit_codes():
    done = command("send", "--help")
    assert done.returncode == 0 and "examples:" in done.stdout and "exit codes:" in done.stdout
    assert os.linesep in done.stdout


# Handles


def test_the_sequences_of_requests_in_the_same_millisecond_differ():
    sequences = [_sequence() for _ in range(1000)]
    assert sequences == sorted(set(sequences))


# The documentation


def test_the_example_in_the_documentation_runs_as_written(tmp_path):
    page = (ROOT.parents[1] / "Docs" / "clients.md").read_text()
    (tmp_path / "ring.py").write_text(page.split("```python\n")[1].split("```")[0])
    (tmp_path / "pairing").write_text(PIPE)

    async def run(outcome: int, reason: int) -> tuple[int, str, str]:
        async with Node(outcome, reason) as address:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "ring.py", address, "pairing", "Paid", cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            output, errors = await process.communicate()
            return process.returncode or 0, output.decode(), errors.decode()

    steps = "connecting …\nconnected …\nwelcomed …\n"
    assert asyncio.run(run(0, 0)) == (0, "DELIVERED: the push service has accepted it\n", steps)
    assert asyncio.run(run(4, 304)) == (0, "GONE: device token no longer registered\n", steps)
    assert not (tmp_path / "pairing").exists()
