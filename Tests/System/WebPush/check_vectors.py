#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the vectors of Web Push with http-ece: it encrypts to the same bytes, and decrypts them.

check_vectors.py tnp1.json
"""
import base64
import json
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec

# RFC 8291, Appendix A: the receiver's private key.
RECEIVER = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private_key(number):
    return ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1())


with open(sys.argv[1], encoding="utf-8") as file:
    vectors = json.load(file)["web_push"]
for vector in vectors:
    message, text, secret = bytes.fromhex(vector["ciphertext"]), vector["plaintext"].encode(), decoded(vector["auth"])
    encrypted = http_ece.encrypt(
        text, salt=bytes.fromhex(vector["salt"]), private_key=private_key(bytes.fromhex(vector["sender_private_key"])),
        dh=decoded(vector["p256dh"]), auth_secret=secret, version="aes128gcm", rs=4096)
    assert encrypted == message, vector["name"]
    opened = http_ece.decrypt(
        message, private_key=private_key(decoded(RECEIVER)), auth_secret=secret, version="aes128gcm")
    assert opened == text, vector["name"]
print(f"{len(vectors)} ok")
