#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seed corpus of the fuzzer that feeds streams to the TNP decoder.

    seeds.py VECTORS_JSON DIRECTORY    write each vector's stream, whole and in pieces, as a file into DIRECTORY

A seed's first byte says how the stream is fed: 0 all at once, else in pieces of so many bytes. The rest is the stream.
"""
import json
import sys
from hashlib import blake2b
from pathlib import Path

SECTIONS = ("messages", "rejected", "refused")
PIECES = (0, 7)


def main(vectors, directory):
    with open(vectors, encoding="utf-8") as file:
        sections = json.load(file)
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    written = set()
    for section in SECTIONS:
        for vector in sections[section]:
            for piece in PIECES:
                seed = bytes([piece]) + bytes.fromhex(vector["bytes"])
                name = blake2b(seed, digest_size=8).hexdigest()
                (target / name).write_bytes(seed)
                written.add(name)
    print(f"{len(written)} seeds in {target}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
