#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TNP/1 written a second time: the Swift and this agree only where both read the protocol alike.

    tnp1.py --check FILE    derive every vector of FILE again from its meaning; exit 1 naming each that differs
    tnp1.py --write FILE    write the vectors from tnp1_inputs.py, the same bytes every time, and check them

Needs Python 3.11 and `cryptography`. Shares nothing with the Swift sources, on purpose.
"""
import base64
import json
import re
import sys
import unicodedata
import uuid
from hashlib import blake2b

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

HELLO_LIMIT, MAX_FRAME, TTL_LIMIT = 256, 8192, 2_419_200
TYPES = {1: "HELLO", 2: "WELCOME", 3: "SUBMIT", 4: "RESULT", 5: "PING", 6: "PONG", 7: "PUZZLE", 8: "GOAWAY",
         0x10: "REGISTER", 0x11: "REGISTERED", 0x12: "ROTATE", 0x13: "FORGET", 0x14: "AUTH", 0x15: "AUTHED"}
CODES = {name: code for code, name in TYPES.items()}
BOTH = {"PING", "PONG", "GOAWAY"}
OWNERS = {"REGISTER", "ROTATE", "FORGET"}  # what the owner of a handle asks for
MAY_SEND = {"sender": BOTH | OWNERS | {"HELLO", "SUBMIT", "AUTH"},
            "node": BOTH | {"WELCOME", "RESULT", "PUZZLE", "REGISTERED", "AUTHED"}}

class Refused(Exception):
    """Ends the connection: the GOAWAY code, and why."""


# ---- values: each is (meaning -> bytes, bytes -> meaning)

def need(true, why):  # not `assert`, which python -O drops
    if not true:
        raise Refused(1, why)

def uint(width, spelled=int):
    def read(raw):
        need(len(raw) == width, "width")
        return spelled(int.from_bytes(raw, "big"))
    return (lambda value: int(value).to_bytes(width, "big")), read

def is_text(raw, least, most):
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return least <= len(raw) <= most

def read_text(raw):
    need(is_text(raw, 0, MAX_FRAME), "not UTF-8")
    return raw.decode("utf-8")

U8, U16, U32 = uint(1), uint(2), uint(4)
U64 = uint(8, str)  # a decimal string: many JSON readers round whole numbers above 2^53
TEXT = (lambda value: value.encode(), read_text)
HEX = (bytes.fromhex, bytes.hex)
PROOF = (lambda p: bytes.fromhex(p["seed_prefix"]) + U32[0](p["effort"]) + U64[0](p["nonce"]),
         lambda raw: {"seed_prefix": raw[:4].hex(), "effort": U32[1](raw[4:8]), "nonce": U64[1](raw[8:])})
SUBMIT = {0x01: ("magic", TEXT), 0x02: ("device_token", TEXT), 0x03: ("iv", HEX), 0x04: ("ciphertext", HEX),
          0x05: ("ttl", U32), 0x06: ("priority", U8), 0x07: ("sound", U8), 0x08: ("collapse_id", TEXT),
          0x09: ("accept_queued", U8), 0x0A: ("app", TEXT), 0x0B: ("handle", HEX), 0x10: ("proof", PROOF), 0x11: ("sender_key", HEX),
          0x12: ("signature", HEX), 0x81: ("hops", U8), 0x82: ("succession", HEX)}
RESULT = {1: ("provider_id", TEXT), 2: ("text", TEXT), 3: ("gone_since", U64), 4: ("left", U32), 5: ("full_in", U32)}
AUTH = {0x30: ("site_key", HEX), 0x31: ("site_signature", HEX)}
AUTHED = {0x32: ("site_name", TEXT)}
HANDLE = {0x01: ("magic", TEXT), 0x02: ("device_token", TEXT), 0x0A: ("app", TEXT), 0x0B: ("handle", HEX),
          0x10: ("proof", PROOF), 0x20: ("owner", HEX), 0x21: ("sender_keys", HEX), 0x22: ("sequence", U64),
          0x23: ("owner_signature", HEX)}
TABLES = {"SUBMIT": SUBMIT, "RESULT": RESULT, "AUTH": AUTH, "AUTHED": AUTHED, "REGISTERED": {0x0B: ("handle", HEX)}}
TABLES |= {kind: HANDLE for kind in OWNERS}
# The parts in front of fields, routes and texts; a whole payload where nothing comes after.
PUZZLE = (("seed", HEX, 16), ("effort", U32, 4), ("lifetime", U32, 4))
LAYOUT = {
    "HELLO": (("lowest", U8, 1), ("highest", U8, 1)), "SUBMIT": (("request", U32, 4),), "PUZZLE": PUZZLE,
    "WELCOME": (("version", U8, 1), ("features", U16, 2), ("max_frame", U32, 4), ("max_in_flight", U16, 2),
                ("idle_timeout", U32, 4), ("server_time", U64, 8)),
    "RESULT": (("request", U32, 4), ("outcome", U8, 1), ("reason", U16, 2), ("retry_after", U32, 4)),
    "REGISTERED": (("request", U32, 4), ("outcome", U8, 1), ("reason", U16, 2), ("retry_after", U32, 4)),
    **{kind: (("request", U32, 4),) for kind in sorted(OWNERS)}, "AUTH": (), "AUTHED": (("outcome", U8, 1), ("reason", U16, 2)),
    "PING": (("opaque", HEX, 8),), "PONG": (("opaque", HEX, 8),), "GOAWAY": (("code", U16, 2), ("retry_after", U32, 4)),
}


# ---- frames and payloads

def frame(kind, payload=b""):
    return U32[0](1 + len(payload)) + U8[0](kind) + payload

def tlv(pairs):
    return b"".join(U8[0](tag) + U16[0](len(raw)) + raw for tag, raw in pairs)

def short(raw):
    return U8[0](len(raw)) + raw

def put(parts, meaning):
    return b"".join(write(meaning[name]) for name, (write, _), _ in parts)

def pack_fields(table, meaning):
    known = [(tag, write(meaning[name])) for tag, (name, (write, _)) in table.items() if name in meaning]
    return tlv(sorted(known + [(u["tag"], bytes.fromhex(u["value"])) for u in meaning.get("unknown", [])]))

def encode(kind, meaning):
    body = put(LAYOUT[kind], meaning)
    if kind == "HELLO":
        body = b"TNP" + body + short(meaning["agent"].encode())
    elif kind == "WELCOME":
        routes = [short(route.encode("ascii")) for route in meaning["routes"]]
        body += put(PUZZLE, meaning["puzzle"]) + U8[0](len(routes)) + b"".join(routes)
    elif kind in TABLES:
        body += pack_fields(TABLES[kind], meaning)
    elif kind == "GOAWAY":
        body += meaning["text"].encode()
    return frame(CODES[kind], body)

class Cursor:
    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, count):
        need(self.at + count <= len(self.raw), "torn")
        self.at += count
        return self.raw[self.at - count:self.at]

    def rest(self):
        return self.take(len(self.raw) - self.at)

    def get(self, parts):
        return {name: read(self.take(width)) for name, (_, read), width in parts}

    def short(self):
        return self.take(self.take(1)[0])

def split_fields(raw):
    cursor, last, found = Cursor(raw), -1, []
    while cursor.at < len(raw):
        tag = cursor.take(1)[0]
        need(tag > last, "order of fields")
        last = tag
        found.append((tag, cursor.take(U16[1](cursor.take(2)))))
    return found

def decode(kind, payload):
    cursor = Cursor(payload)
    need(kind != "HELLO" or cursor.take(3) == b"TNP", "not a HELLO")
    meaning = cursor.get(LAYOUT[kind])
    if kind == "HELLO":
        agent = cursor.short()
        need(len(agent) <= 64 and meaning["lowest"] <= meaning["highest"], "agent or versions")
        meaning["agent"] = read_text(agent)
    elif kind == "WELCOME":
        meaning["puzzle"] = cursor.get(PUZZLE)
        meaning["routes"] = [read_text(cursor.short()) for _ in range(cursor.take(1)[0])]
    elif kind == "SUBMIT":
        # Only the frame is read here: what a field holds is judged apart, because it costs one submission, not all.
        for tag, raw in split_fields(cursor.rest()):
            if tag in SUBMIT:
                meaning[SUBMIT[tag][0]] = raw
            else:
                meaning.setdefault("unknown", []).append({"tag": tag, "value": raw.hex()})
    elif kind in TABLES:
        for tag, raw in split_fields(cursor.rest()):
            if tag in TABLES[kind]:
                name, (_, read) = TABLES[kind][tag]
                meaning[name] = read(raw)
        if kind == "AUTH":
            lengths = [len(meaning.get(name, "")) // 2 for name in ("site_key", "site_signature")]
            need(lengths == [32, 64], "key or signature")
    elif kind == "GOAWAY":
        meaning["text"] = read_text(cursor.rest())
    need(cursor.at == len(payload), "bytes left over")
    return meaning

def next_frame(stream, limit):
    """(type, payload, what follows), or None while bytes are missing; the length alone can already be a refusal."""
    if len(stream) < 4:
        return None
    length = U32[1](stream[:4])
    if length == 0 or length > limit:
        raise Refused(3 if length else 1, f"length {length}")
    if len(stream) < 4 + length:
        return None
    return stream[4], stream[5:4 + length], stream[4 + length:]

def refusal(stream, reader, identified):
    """The GOAWAY code with which `reader` ends this stream, None where it would go on reading."""
    opening, peer = ("HELLO", "sender") if reader == "node" else ("WELCOME", "node")
    try:
        while step := next_frame(stream, MAX_FRAME if identified or reader == "sender" else HELLO_LIMIT):
            number, payload, stream = step
            kind = TYPES.get(number)
            if identified and number >= 0x80:
                continue
            early = kind != opening and not (reader == "sender" and kind == "GOAWAY")
            need(kind in MAY_SEND[peer] and not (kind == opening if identified else early), "out of place")
            meaning = decode(kind, payload)
            if kind == "HELLO" and not meaning["lowest"] <= 1 <= meaning["highest"]:
                raise Refused(2, "no version in common")
            identified = identified or kind == opening
    except Refused as fault:
        return fault.args[0]
    return None


# ---- one submission

WIDTHS = {"handle": 32, "ttl": 4, "priority": 1, "sound": 1, "accept_queued": 1, "proof": 16, "sender_key": 32, "signature": 64,
          "hops": 1, "succession": 96}
ALLOWED = {"ttl": range(TTL_LIMIT + 1), "priority": (5, 10), "sound": (0, 1), "accept_queued": (0, 1)}

def endpoint_ok(raw):
    """A push endpoint: one way to write it is valid, whatever a parser of URLs would make of the others."""
    scheme, secure = (b"https://", True) if raw.startswith(b"https://") else (b"http://", False)
    server, slash, path = raw.removeprefix(scheme).partition(b"/")
    name, colon, port = server.partition(b":")
    labels = name.split(b".")
    onion = labels[-1] == b"onion" and len(labels) > 1
    return (raw.startswith(scheme) and slash and len(raw) <= 1024 and len(name) <= 253 and (secure or onion)
            and all(33 <= c <= 126 and c not in b'"<>\\^`{|}#' for c in raw)
            and all(re.fullmatch(rb"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", label) for label in labels)
            and not any(label.startswith(b"xn--") for label in labels) and not labels[-1][:1].isdigit()
            and (not onion or len(labels[-2]) == 56)
            and (not colon or bool(re.fullmatch(rb"[1-9][0-9]{0,4}", port)) and int(port) < 65536))

def token_ok(raw, magic):
    if magic == b"web":
        return endpoint_ok(raw)
    if magic != b"android":
        return bool(re.fullmatch(rb"([0-9A-Fa-f]{2}){1,100}", raw))
    return is_text(raw, 1, 512) and not any(c == " " or unicodedata.category(c) == "Cc" for c in raw.decode())

def faults(raw, form):
    """The reason of every fault, not the first one only: a vector with two would pin an order that nobody promises."""
    names = [name for name, _ in SUBMIT.values()]
    found = [106 for u in raw.get("unknown", []) if u["tag"] < 0x80]
    # A handle takes the place of magic and device token; Web Push has no iv.
    found += [100 for name in names[:2] if (name in raw) == ("handle" in raw)]
    found += [100] if "iv" not in raw and raw.get("magic") != b"web" else []
    found += [100] if "ciphertext" not in raw else []
    found += [100 for name, width in WIDTHS.items() if name in raw and len(raw[name]) != width]
    found += [100] if ("sender_key" in raw) != ("signature" in raw) else []
    found += [100] if "succession" in raw and not {"sender_key", "signature"} & set(raw) else []
    magic, token, iv, sealed = (raw.get(name) for name in names[:4])
    if magic is not None and magic not in (b"iOS", b"iOSDev", b"android", b"web"):
        found.append(101)
    elif None not in (magic, token) and not token_ok(token, magic):
        found.append(102)
    if magic == b"web":  # its own encryption, whatever the app's format
        found += [103] if iv else []
        found += [104] if sealed is not None and len(sealed) not in range(1, 4097) else []
        iv = sealed = None
    if iv is not None and not (re.fullmatch(rb"[ -{}~]{16}", iv) if form == "pipe" else len(iv) == 12):
        found.append(103)
    if sealed is not None and len(sealed) not in (range(16, 3073, 16) if form == "pipe" else range(17, 3073)):
        found.append(104)
    found += [108 for name, good in ALLOWED.items()
              if len(raw.get(name, b"")) == WIDTHS[name] and int.from_bytes(raw[name], "big") not in good]
    found += [313] if len(raw.get("hops", b"")) == 1 and raw["hops"][0] >= 4 else []
    found += [108] if "collapse_id" in raw and not is_text(raw["collapse_id"], 1, 64) else []
    return found


# ---- digests, puzzles, signatures, sealing

def blake(data):
    return blake2b(data, digest_size=32).digest()

def digest_of(v):
    magic, address = v.get("magic", "").encode(), v.get("device_token", "").encode() or bytes.fromhex(v["handle"])
    parts = [v.get("app", "").encode(), magic, address, bytes.fromhex(v.get("iv", "")), bytes.fromhex(v["ciphertext"])]
    return blake(b"tnp1-envelope" + b"".join(U16[0](len(part)) + part for part in parts))

def names_of(digest):
    octets = bytearray(digest[:16])
    octets[6], octets[8] = octets[6] & 0x0F | 0x80, octets[8] & 0x3F | 0x80
    collapse = base64.urlsafe_b64encode(digest[:24]).decode()  # 24 bytes fill 32 characters: there is no padding
    return {"digest": digest.hex(), "apns_id": str(uuid.UUID(bytes=bytes(octets))), "collapse_id": collapse}

def puzzle_hash(seed, digest, effort, nonce):
    return int.from_bytes(blake(b"tnp1-puzzle" + seed + digest + U32[0](effort) + U64[0](nonce))[:8], "big")

def bound(effort):
    return (2**64 - 1) // effort

def smallest_nonce(seed, digest, effort):
    nonce = 0
    while puzzle_hash(seed, digest, effort, nonce) > bound(effort):
        nonce += 1
    return nonce

def sign(seed, digest, prefix=b"tnp1-sender"):
    """(sender key, signature)"""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    return key.public_key().public_bytes(*raw), key.sign(prefix + digest)

def verifies(key, digest, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, b"tnp1-sender" + digest)
    except InvalidSignature:
        return False
    return True

def seal(v):
    plain = v["plaintext"].encode()
    if v["format"] == "sealed":
        iv = bytes.fromhex(v["iv"])
        out = AESGCM(bytes.fromhex(v["key"])).encrypt(iv, plain, None)
        return {"ciphertext": out.hex(), "delivered": base64.b64encode(iv + out).decode()}
    # Spaces, because the phones parse the text as JSON; counted in bytes, because counting characters breaks the cipher
    # as soon as a text is not ASCII.
    plain += b" " * (-len(plain) % 16)
    crypt = Cipher(algorithms.AES256(v["key"].encode()), modes.CBC(v["iv"].encode())).encryptor()
    out = crypt.update(plain) + crypt.finalize()
    return {"ciphertext": out.hex(), "delivered": f"BisqMessageiOS|{v['iv']}|{base64.b64encode(out).decode()}"}


GSON = {**{chr(c): f"\\u{c:04x}" for c in [*range(32), 0x2028, 0x2029, *b"'<>&="]}, '"': '\\"', "\\": "\\\\",
        "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}

def clear_text(v):
    """What a desktop seals for an app of one's own, and for Bisq 1's: Gson's spelling of the fields in this order."""
    order = "sent_date", "tx_id", "title", "message", "type", "action_required"
    names = "sentDate", "txId", "title", "message", "type", "actionRequired"
    parts = [f'"{name}":' + (str(v[key]) if key == "sent_date" else '"' + "".join(GSON.get(c, c) for c in v[key]) + '"')
             for name, key in zip(names, order)]
    text = "{" + ",".join(parts) + ',"version":1}'
    need(json.loads(text) == dict(zip(names, (v[key] for key in order)), version=1), "not the JSON of its fields")
    return {"text": text}

def seal_web(v):
    """RFC 8291: one record, for the receiver's keys."""
    unpack = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    receiver, salt = unpack(v["p256dh"]), bytes.fromhex(v["salt"])
    sender = ec.derive_private_key(int(v["sender_private_key"], 16), ec.SECP256R1())
    shared = sender.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), receiver))
    own = sender.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    hkdf = lambda secret, salt, info, length: HKDF(hashes.SHA256(), length, salt, info).derive(secret)
    material = hkdf(shared, unpack(v["auth"]), b"WebPush: info\0" + receiver + own, 32)
    key, nonce = (hkdf(material, salt, b"Content-Encoding: %s\0" % what, size) for what, size in ((b"aes128gcm", 16), (b"nonce", 12)))
    record = AESGCM(key).encrypt(nonce, v["plaintext"].encode() + b"\2", None)
    return {"ciphertext": (salt + U32[0](4096) + short(own) + record).hex()}


# ---- checking: each gives what the vector should say

def check_message(v):
    kind, whole = v["type"], bytes.fromhex(v["bytes"])
    number, payload, rest = next_frame(whole, MAX_FRAME)
    meaning = decode(TYPES[number], payload)
    if kind == "SUBMIT":
        need([] in (faults(meaning, "pipe"), faults(meaning, "sealed")), "would be rejected")
        meaning |= {name: read(meaning[name]) for name, (_, read) in SUBMIT.values() if name in meaning}
    need(kind in MAY_SEND[v["from"]] and TYPES[number] == kind and not rest, "wrong side, or not one frame")
    return {"name": v["name"], "from": v["from"], "type": kind, "bytes": encode(kind, v).hex()} | meaning

def check_puzzle(v):
    seed, digest, effort = bytes.fromhex(v["seed"]), bytes.fromhex(v["digest"]), v["effort"]
    value = puzzle_hash(seed, digest, effort, v["nonce"])
    if v["name"].endswith("smallest nonce"):
        need(v["nonce"] == str(smallest_nonce(seed, digest, effort)), "a smaller nonce holds")
    return v | {"hash": f"{value:016x}", "holds": value <= bound(effort)}

def check_signature(v):
    seed, digest = bytes.fromhex(v["private_seed"]), bytes.fromhex(v["digest"])
    again = v | {"holds": verifies(bytes.fromhex(v["sender_key"]), digest, bytes.fromhex(v["signature"]))}
    if v["holds"]:  # Ed25519 signs without randomness, so the very same bytes have to come out
        key, signature = sign(seed, digest)
        again |= {"sender_key": key.hex(), "signature": signature.hex()}
    return again

def check_sender_key(v):
    """The sender's key that a pairing gives: the pairing's key is text for pipe, Base64 for sealed."""
    key = base64.b64decode(v["key"], validate=True) if v["format"] == "sealed" else v["key"].encode()
    address = v["device_token"].encode() if "device_token" in v else bytes.fromhex(v["handle"])
    seed = blake2b(b"tnp1-sender-seed" + address, digest_size=32, key=key).digest()
    return v | {"private_seed": seed.hex(), "sender_key": sign(seed, b"")[0].hex()}

def signed_by_owner(kind, meaning, seed, onion):
    """The owner's key and signature: over the node's onion and the hash of all fields but the proof and the signature."""
    rest = {name: value for name, value in meaning.items() if name not in ("proof", "owner_signature")}
    hashed = blake(pack_fields(HANDLE, rest))
    return hashed, *sign(seed, bytes([CODES[kind]]) + onion + hashed, b"tnp1-handle")

def check_handle_signature(v):
    number, payload, _ = next_frame(bytes.fromhex(v["bytes"]), MAX_FRAME)
    meaning = decode(v["type"], payload)
    seed, onion = bytes.fromhex(v["private_seed"]), bytes.fromhex(v["onion"])
    hashed, owner, signature = signed_by_owner(TYPES[number], meaning, seed, onion)
    holds = meaning["owner_signature"] == signature.hex()  # Ed25519 signs without randomness
    return v | {"hash": hashed.hex(), "owner": owner.hex(), "holds": holds}

def canonical(magic, token):
    """The form under which a node knows a device token: Apple's digits in lower case."""
    return token.lower() if magic in ("iOS", "iOSDev") else token

def succeed(old_seed, key, magic, token):
    """Names a sender key as the successor of an earlier one for a phone."""
    old, signature = sign(old_seed, key + canonical(magic, token).encode(), b"tnp1-successor")
    return old + signature

def check_succession(v):
    seed, key, given = (bytes.fromhex(v[name]) for name in ("earlier_private_seed", "sender_key", "succession"))
    derived = succeed(seed, key, v["magic"], v["device_token"])
    return v | {"succession": (derived if v["holds"] else given).hex(), "holds": derived == given}

def check_device_token(v):
    return v | {"valid": token_ok(v["device_token"].encode(), v["magic"].encode())}

def check_rejected(v):
    number, payload, rest = next_frame(bytes.fromhex(v["bytes"]), MAX_FRAME)
    need(TYPES[number] == "SUBMIT" and not rest, "not one SUBMIT")
    found = faults(decode("SUBMIT", payload), v["format"])
    need(len(found) == 1, f"faults {found}, not exactly one")
    return v | {"reason": found[0]}

CHECKS = {
    "messages": check_message, "digests": lambda v: v | names_of(digest_of(v)), "puzzles": check_puzzle,
    "signatures": check_signature, "sender_keys": check_sender_key,
    "successions": check_succession, "device_tokens": check_device_token,
    "handle_signatures": check_handle_signature, "sealing": lambda v: v | seal(v), "web_push": lambda v: v | seal_web(v),
    "notifications": lambda v: v | clear_text(v), "rejected": check_rejected,
    "refused": lambda v: v | {"goaway": refusal(bytes.fromhex(v["bytes"]), v["reader"], v["identified"])},
}

def exact(value):
    return json.dumps(value, sort_keys=True, default=repr)  # because Python takes 1, 1.0 and True for equal

def check(path):
    with open(path, encoding="utf-8") as file:
        sections = json.load(file)
    wrong = [f"sections: {sorted(sections)}"] if set(sections) != set(CHECKS) else []
    for section, derive in CHECKS.items():
        seen, bad = set(), []
        for vector in sections.get(section, []):
            try:
                need(vector["name"] not in seen, "name used twice")
                seen.add(vector["name"])
                need(vector.get("format", "pipe") in ("pipe", "sealed"), "format")
                need(vector.get("reader", "node") in MAY_SEND, "reader")
                again = derive(vector)
                pairs = {k: (exact(vector.get(k, ...)), exact(again.get(k, ...))) for k in again | vector}
                why = ", ".join(f"{k}: file {a}, derived {b}" for k, (a, b) in pairs.items() if a != b)
            except Exception as fault:  # a vector that cannot even be read is one that differs
                why = f"{type(fault).__name__}: {fault}"
            if why:
                bad.append(f"{section} / {vector.get('name')}: {why[:400]}")
        count = len(sections.get(section, [])) - len(bad)
        print(f"{section}: {count} ok" + (f", {len(bad)} differ" if bad else ""))
        wrong += bad if count + len(bad) else [f"{section}: no vectors"]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("--check", "--write"):
        sys.exit(__doc__)
    if sys.argv[1] == "--write":
        sys.dont_write_bytecode = True  # a __pycache__ has no business in the sources
        from tnp1_inputs import write
        write(sys.argv[2])
    sys.exit(check(sys.argv[2]))
