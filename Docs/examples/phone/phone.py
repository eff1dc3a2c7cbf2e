# SPDX-License-Identifier: Apache-2.0
"""The phone's side, written from Docs/phone.md alone. STATE is a JSON file with secrets, one for each pairing.

    phone.py new STATE PLATFORM DEVICE_TOKEN DESCRIPTOR [--owner-of OTHER_STATE]   makes a key, prints the pairing token; a phone
                                                             has one owner: give another pairing of it, if there is one
    phone.py register STATE HOST[:PORT] [--app NAME] [--tor HOST:PORT]   gets a handle, prints the pairing token with it
    phone.py restrict STATE [--tor HOST:PORT]                only this pairing's desktop may ring the handle
    phone.py rotate STATE NEW_DEVICE_TOKEN [--tor HOST:PORT] puts another device token behind the handle
    phone.py forget STATE [--tor HOST:PORT]                  ends the handle
    phone.py open STATE < ENCRYPTED                          prints the notification as one line of JSON
"""
import base64, hashlib, http.client, json, os, sys, time
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from python_socks.sync import Proxy

PLATFORM, TOKEN, APP, HANDLE, PROOF, OWNER, SENDERS, SEQUENCE, SIGNATURE = 1, 2, 10, 11, 0x10, 0x20, 0x21, 0x22, 0x23
OPERATIONS = {"POST": 0x10, "PUT": 0x12, "DELETE": 0x13}  # the byte in what the owner signs
NO_HANDLE = {"handle": None, "node": None, "restricted": False}

def save(path, state):
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)

def blake2b(data, key=b""):
    return hashlib.blake2b(data, digest_size=32, key=key).digest()

def public_key(seed):
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

def sender_key(state):  # the desktop makes the same key from the pairing's key and the handle
    return public_key(blake2b(b"tnp1-sender-seed" + bytes.fromhex(state["handle"]), bytes.fromhex(state["key"])))

def pairing_token(state):
    key = base64.b64encode(bytes.fromhex(state["key"])).decode()
    target = "handle:" + state["handle"] if state["handle"] else state["token"]
    return "|".join([state["platform"], state["descriptor"], key, target])

def decrypt(key, encrypted):
    sealed = base64.b64decode(encrypted.strip(), validate=True)
    return AESGCM(key).decrypt(sealed[:12], sealed[12:], None).rstrip(b" ").decode()

def encode(fields):  # tag, length, value; the page's order is that of the tags
    return b"".join(bytes([tag]) + len(value).to_bytes(2, "big") + value for tag, value in sorted(fields.items()))

def onion_key(node):
    host = node.partition(":")[0].upper()
    return base64.b32decode(host.removesuffix(".ONION"))[:32] if host.endswith(".ONION") else bytes(32)

def ask(node, tor, method, path, body=None):
    host, _, port = node.partition(":")
    connection = http.client.HTTPConnection(host, int(port or 80), timeout=120)
    if tor:
        proxy = Proxy.from_url("socks5://" + tor, rdns=True)
        connection.sock = proxy.connect(dest_host=host, dest_port=int(port or 80), timeout=120)
    elif any(onion_key(node)):
        sys.exit("an onion address needs --tor")
    connection.request(method, path, body, {"Content-Type": "application/octet-stream"} if body else {})
    response = connection.getresponse()
    text = response.read().decode()
    return response.status, json.loads(text) if text.startswith("{") else {"text": text}

def find_proof(node, tor, digest):
    status, challenge = ask(node, tor, "GET", "/v1/handles/challenge")
    if challenge.get("onion") != onion_key(node).hex() or challenge["effort"] > 2**24:
        sys.exit(challenge.get("text") or f"HTTP {status}: the challenge is for another onion, or too much work")
    seed, effort, nonce = bytes.fromhex(challenge["seed"]), challenge["effort"], 0
    effort = max(effort, 1)
    puzzle = b"tnp1-puzzle" + seed + digest + effort.to_bytes(4, "big")
    while int.from_bytes(blake2b(puzzle + nonce.to_bytes(8, "big"))[:8], "big") > (2**64 - 1) // effort:
        nonce += 1
    return seed[:4] + effort.to_bytes(4, "big") + nonce.to_bytes(8, "big")

def send(file, state, node, tor, method, fields):  # returns the node's answer, or ends with its refusal
    state["sequence"] = max(int(time.time() * 1000), state["sequence"] + 1)  # grows even if the clock is set back
    path = "/v1/handles" + ("/" + fields[HANDLE].hex() if HANDLE in fields else "")
    fields[SEQUENCE] = state["sequence"].to_bytes(8, "big")
    digest = blake2b(encode(fields))
    owner = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(state["owner"]))
    fields[SIGNATURE] = owner.sign(b"tnp1-handle" + bytes([OPERATIONS[method]]) + onion_key(node) + digest)
    for _ in range(6):
        status, answer = ask(node, tor, method, path, encode(fields))
        retries = answer.get("outcome") == "RETRY" or ("outcome" not in answer and status in (408, 429, 503))
        if not retries or answer.get("retryAfterMillis", 0) > 10_000:
            break
        if answer.get("reason") in (203, 204):
            fields[PROOF] = find_proof(node, tor, digest)  # neither digest nor signature cover it
        else:
            time.sleep(max(0.25, answer.get("retryAfterMillis", 1000) / 1000))
    if status == 200 and "outcome" not in answer:
        return answer
    if answer.get("outcome") == "GONE":
        save(file, state | NO_HANDLE)
    sys.exit(answer.get("text") or f"HTTP {status}: {answer}")

def main(command, file, *values, tor=None, app="", owner_of=None):
    if command == "new":
        platform, token, descriptor = values
        if os.path.exists(file) or "|" in descriptor or not descriptor.isprintable():
            sys.exit("STATE exists already, or DESCRIPTOR has | or control characters")
        owner = json.load(open(owner_of))["owner"] if owner_of else os.urandom(32).hex()
        state = {"key": os.urandom(32).hex(), "owner": owner, "platform": platform,
                 "descriptor": descriptor, "token": token, "sequence": 0, **NO_HANDLE}
        save(file, state)
        return pairing_token(state)
    state = json.load(open(file))
    if command == "open":
        return json.dumps(json.loads(decrypt(bytes.fromhex(state["key"]), sys.stdin.read())))
    if command != "register" and not state["handle"]:
        sys.exit("no handle: register first")
    if command == "forget":
        send(file, state, state["node"], tor, "DELETE", {HANDLE: bytes.fromhex(state["handle"])})
        save(file, state | NO_HANDLE)
        return "forgotten"
    if command == "register" and values[0] != state["node"]:
        state.update(NO_HANDLE, node=values[0])
    if command == "rotate":
        state["token"] = values[0]
        save(file, state)  # even if the node cannot be reached: the old token is dead
    fields = {PLATFORM: state["platform"].encode(), TOKEN: state["token"].encode()}
    if command == "restrict" or state["restricted"]:
        state["restricted"] = True
        fields[SENDERS] = sender_key(state)
    if command == "register":
        fields[OWNER] = public_key(bytes.fromhex(state["owner"]))
        if app:
            fields[APP] = app.encode()
        state["handle"] = send(file, state, state["node"], tor, "POST", fields)["handle"]
    else:
        fields[HANDLE] = bytes.fromhex(state["handle"])
        send(file, state, state["node"], tor, "PUT", fields)
    save(file, state)
    return {"register": pairing_token(state), "restrict": "restricted", "rotate": "rotated"}[command]

if __name__ == "__main__":
    arguments, options = sys.argv[1:], {}
    while arguments[-2:-1] and arguments[-2] in ("--tor", "--app", "--owner-of"):
        *arguments, name, value = arguments
        options[name.removeprefix("--").replace("-", "_")] = value
    counts = {"new": 5, "register": 3, "restrict": 2, "rotate": 3, "forget": 2, "open": 2}
    if not arguments or counts.get(arguments[0]) != len(arguments):
        sys.exit(__doc__)
    try:
        print(main(*arguments, **options))
    except Exception as error:  # network, proxy, or a text that this key does not open
        sys.exit(f"{type(error).__name__}: {error}")
