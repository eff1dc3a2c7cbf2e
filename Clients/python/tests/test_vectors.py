# SPDX-License-Identifier: Apache-2.0
"""The client agrees with the protocol's vectors, byte for byte."""

import base64
import json
import struct
import threading
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from conftest import VECTORS
from tocsin_client import Envelope, Format, Handle, HandleOwner, Magic, PairingToken, ProtocolError, Signature
from tocsin_client import BisqNotification, NotificationType, PairingError, RejectionError, Schema, web_push, wire
from tocsin_client.envelope import Submission
from tocsin_client.handle_request import HandleRequest
from tocsin_client.puzzle import solve

APPLE = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"


def decoded(message: bytes) -> list[wire.Message]:
    return [decoded for decoded in wire.FrameDecoder().messages(message) if decoded is not None]


def handle_of(vector):
    return Handle(bytes.fromhex(vector["handle"])) if "handle" in vector else None


def onion_host(key: str) -> str:
    """A host with this public key, whose checksum no signature covers; an address without tor for zeros."""
    return "127.0.0.1" if int(key, 16) == 0 else base64.b32encode(bytes.fromhex(key) + bytes(3)).decode() + ".onion"


def test_digests(vectors):
    for vector in vectors["digests"]:
        form = Format.SEALED if len(vector["iv"]) == 24 else Format.PIPE
        envelope = Envelope(
            Magic(vector.get("magic", "iOS")), vector.get("device_token", ""), bytes.fromhex(vector["iv"]),
            bytes.fromhex(vector["ciphertext"]), form, app=vector["app"], handle=handle_of(vector),
        )
        assert envelope.digest.hex() == vector["digest"], vector["name"]


def test_submissions(vectors):
    checked = 0
    for vector in vectors["messages"]:
        if vector["type"] != "SUBMIT" or "proof" in vector:
            continue
        iv = bytes.fromhex(vector.get("iv", ""))
        envelope = Envelope(
            Magic(vector.get("magic", "iOS")), vector.get("device_token", ""), iv, bytes.fromhex(vector["ciphertext"]),
            Format.SEALED if len(iv) == 12 else Format.PIPE, app=vector.get("app", ""), ttl=vector.get("ttl", 2_419_200),
            is_urgent=vector.get("priority", 10) == 10, sound=vector.get("sound", 1) == 1,
            collapse_id=vector.get("collapse_id"), handle=handle_of(vector),
        )
        signature = None
        if "sender_key" in vector:
            succession = bytes.fromhex(vector["succession"]) if "succession" in vector else None
            signature = Signature(bytes.fromhex(vector["sender_key"]), bytes.fromhex(vector["signature"]), succession)
        submission = Submission(envelope, bool(vector.get("accept_queued", 0)), signature)
        encoded = submission.encode(vector["request"], None)
        # The encoder leaves out options with their default value; the vectors also have them present.
        if len(encoded) * 2 == len(vector["bytes"]):
            assert encoded.hex() == vector["bytes"], vector["name"]
            checked += 1
    assert checked >= 4


def test_requests_of_a_handles_owner(vectors):
    messages = {vector["bytes"]: vector for vector in vectors["messages"]}
    checked = 0
    for signed in vectors["handle_signatures"]:
        # The encoder makes no wrong signatures.
        vector = messages.get(signed["bytes"])
        if vector is None or not signed["holds"]:
            continue
        owner, sequence = HandleOwner(bytes.fromhex(signed["private_seed"])), int(vector["sequence"])
        host = onion_host(signed["onion"])
        keys = bytes.fromhex(vector.get("sender_keys", ""))
        sender_keys = [keys[start : start + 32] for start in range(0, len(keys), 32)]
        key = "A4C595428CAA4C768F60AE7EBFF85852"
        if vector["type"] == "FORGET":
            request = HandleRequest.forget(handle_of(vector), sequence, owner, host)
        else:
            phone = PairingToken(f"{vector['magic']}|x|{key}|{vector['device_token']}")
            if vector["type"] == "REGISTER":
                request = HandleRequest.register(phone, vector.get("app", ""), sender_keys, sequence, owner, host)
            else:
                request = HandleRequest.rotate(handle_of(vector), phone, sender_keys, sequence, owner, host)
        assert request.digest.hex() == signed["hash"], vector["name"]
        proof = vector.get("proof")
        encoded_proof = None
        if proof:
            encoded_proof = bytes.fromhex(proof["seed_prefix"]) + struct.pack(">IQ", proof["effort"], int(proof["nonce"]))
        assert request.encode(vector["request"], encoded_proof).hex() == vector["bytes"], vector["name"]
        checked += 1
    assert checked == 9


def test_messages_from_the_node(vectors):
    kinds = {"WELCOME": wire.Welcome, "RESULT": wire.Result, "PUZZLE": wire.Puzzle, "GOAWAY": wire.GoAway,
             "REGISTERED": wire.Registered, "AUTHED": wire.Authenticated}
    checked = 0
    for vector in vectors["messages"]:
        if vector["from"] != "node" or vector["type"] not in kinds:
            continue
        (message,) = decoded(bytes.fromhex(vector["bytes"]))
        assert isinstance(message, kinds[vector["type"]]), vector["name"]
        if isinstance(message, wire.Registered):
            assert (message.request, message.outcome.kind) == (vector["request"], vector["outcome"])
            assert (message.outcome.reason, message.outcome.retry_after) == (vector["reason"], vector["retry_after"])
            assert message.handle == (bytes.fromhex(vector["handle"]) if "handle" in vector else None)
        if isinstance(message, wire.Authenticated):
            assert message.is_accepted == (vector["outcome"] == 0)
            assert message.name == vector.get("site_name")
        if isinstance(message, wire.Welcome):
            assert message.max_frame == vector["max_frame"]
            assert message.max_in_flight == vector["max_in_flight"]
            assert message.idle_timeout == vector["idle_timeout"]
            assert message.server_time == int(vector["server_time"])
            assert message.puzzle.seed.hex() == vector["puzzle"]["seed"]
            assert list(message.routes) == vector["routes"]
        elif isinstance(message, wire.Result):
            assert message.request == vector["request"]
            assert message.outcome.kind == vector["outcome"]
            assert message.outcome.reason == vector["reason"]
            assert message.outcome.retry_after == vector["retry_after"]
            assert message.outcome.provider_id == vector.get("provider_id")
            assert message.outcome.text == vector.get("text")
            assert message.outcome.left == vector.get("left")
            assert message.outcome.full_in == vector.get("full_in")
        elif isinstance(message, wire.GoAway):
            assert (message.code, message.retry_after) == (vector["code"], vector["retry_after"])
        checked += 1
    assert checked > 50


def test_what_a_sender_refuses(vectors):
    checked = 0
    for vector in vectors["refused"]:
        if vector["reader"] != "sender":
            continue
        with pytest.raises(ProtocolError):
            decoded(bytes.fromhex(vector["bytes"]))
            pytest.fail(vector["name"])
        checked += 1
    assert checked > 10


def test_hello(vectors):
    assert wire.hello().hex() == next(v["bytes"] for v in vectors["messages"] if v["name"] == "HELLO empty agent")


def test_puzzles(vectors):
    for vector in vectors["puzzles"]:
        if not vector["holds"] or vector["effort"] > 100_000 or "smallest" not in vector["name"]:
            continue
        puzzle = wire.Puzzle(bytes.fromhex(vector["seed"]), vector["effort"], 60)
        proof = solve(puzzle, bytes.fromhex(vector["digest"]), 0, time.monotonic() + 60, threading.Event())
        expected = puzzle.seed[:4] + struct.pack(">IQ", vector["effort"], int(vector["nonce"]))
        assert proof == expected, vector["name"]


def test_signatures(vectors):
    for vector in vectors["signatures"]:
        if not vector["holds"]:
            continue
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["private_seed"]))
        assert key.sign(b"tnp1-sender" + bytes.fromhex(vector["digest"])).hex() == vector["signature"]


def test_sender_keys(vectors):
    for vector in vectors["sender_keys"]:
        token = vector.get("device_token") or f"handle:{vector['handle']}"
        magic = "iOS" if len(token) == 64 else "web" if token.startswith("https:") else "android"
        receiver = "|{p256dh}|{auth}".format(**vectors["web_push"][0]) if magic == "web" else ""
        pairing = PairingToken(f"{magic}|x|{vector['key']}|{token}{receiver}")
        public = pairing.sender_key.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        assert public.hex() == vector["sender_key"], vector["name"]
        envelope = pairing.seal(b"{}")
        key, signature, _ = pairing.sign(envelope)
        Ed25519PublicKey.from_public_bytes(key).verify(signature, b"tnp1-sender" + envelope.digest)


def test_device_tokens(vectors):
    for vector in vectors["device_tokens"]:
        receiver = "|{p256dh}|{auth}".format(**vectors["web_push"][0]) if vector["magic"] == "web" else ""
        text = f"{vector['magic']}|x|A4C595428CAA4C768F60AE7EBFF85852|{vector['device_token']}{receiver}"
        try:
            PairingToken(text)
            is_valid = True
        except PairingError:
            is_valid = False
        assert is_valid == vector["valid"], vector["name"]


def test_pasted_tokens():
    vectors = json.loads((VECTORS.parent / "pasted.json").read_text())
    for vector in vectors:
        try:
            assert PairingToken.pasted(vector["text"]).reveal() == vector["token"], vector["name"]
        except PairingError as error:
            assert vector["refused"] in str(error), vector["name"]


def test_successions(vectors):
    """Pairings of one phone whose sender keys are those of the vectors."""

    class Pairing(PairingToken):
        seed = b""
        sender_seed = property(lambda self: self.seed)

    for vector in vectors["successions"]:
        if not vector["holds"]:
            continue
        receiver = "|{p256dh}|{auth}".format(**vectors["web_push"][0]) if vector["magic"] == "web" else ""
        text = f"{vector['magic']}|x|A4C595428CAA4C768F60AE7EBFF85852|{vector['device_token']}{receiver}"
        earlier, new = Pairing(text), Pairing(text)
        earlier.seed = bytes.fromhex(vector["earlier_private_seed"])
        new.seed = bytes.fromhex(next(v["private_seed"] for v in vectors["signatures"] if v["sender_key"] == vector["sender_key"]))
        assert new.sign(new.seal(b"{}"), succeeding=earlier).succession.hex() == vector["succession"], vector["name"]
    other = Pairing(f"iOS|x|A4C595428CAA4C768F60AE7EBFF85852|{APPLE[::-1]}")
    with pytest.raises(ValueError):
        new.sign(new.seal(b"{}"), succeeding=other)


def test_web_push(vectors):
    for vector in vectors["web_push"]:
        sender = ec.derive_private_key(int(vector["sender_private_key"], 16), ec.SECP256R1())
        receiver, secret = (base64.urlsafe_b64decode(vector[name] + "==") for name in ("p256dh", "auth"))
        message = web_push.seal(
            vector["plaintext"].encode(), receiver, secret, sender=sender, salt=bytes.fromhex(vector["salt"]))
        assert message.hex() == vector["ciphertext"], vector["name"]


def test_push_endpoints(vectors):
    """What a node rejects, and what it accepts."""
    checked = 0
    for vector in vectors["rejected"]:
        if not vector["name"].startswith("web endpoint"):
            continue
        _, _, rest = bytes.fromhex(vector["bytes"]).partition(b"web\x02")
        url = rest[2 : 2 + int.from_bytes(rest[:2], "big")].decode()
        with pytest.raises(RejectionError) as caught:
            web_push.check_endpoint(url)
            pytest.fail(vector["name"])
        assert caught.value.reason == 102
        checked += 1
    assert checked > 10
    for vector in vectors["messages"]:
        if vector.get("magic") == "web":
            web_push.check_endpoint(vector["device_token"])


def test_notifications(vectors):
    assert vectors["notifications"]
    for vector in vectors["notifications"]:
        notification = BisqNotification(
            NotificationType(vector["type"]), vector["title"], vector["message"], vector["tx_id"], vector["sent_date"],
            vector["action_required"],
        )
        for form in Format:
            assert notification.encode(form, Schema.TOCSIN).decode() == vector["text"], vector["name"]


def test_sealing(vectors):
    checked = 0
    for vector in vectors["sealing"]:
        form = Format(vector["format"])
        key = vector["key"] if form is Format.PIPE else base64.b64encode(bytes.fromhex(vector["key"])).decode()
        pairing = PairingToken(f"iOS|x|{key}|{APPLE}")
        iv = vector["iv"].encode() if form is Format.PIPE else bytes.fromhex(vector["iv"])
        envelope = pairing.seal(vector["plaintext"].encode(), iv=iv, format=form, padding=1)
        assert envelope.ciphertext.hex() == vector["ciphertext"], vector["name"]
        checked += 1
    assert checked > 5
