#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no number from outside can end the node: run by `make lint`.

`Int(x)` traps if x does not fit, and these rooms read what an engine, an upstream node, Apple, Google, push servers and
other processes send. There a conversion says what becomes of such a number: `exactly:`, `clamping:`,
`truncatingIfNeeded:`, or `radix:` for text. Constants are exempt.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["Cluster", "HTTP1", "HTTP2", "KeyHolder", "Providers", "Redis", "Sender"]
LABELS = "ascii|bigEndian|bitPattern|bytes|clamping|exactly|littleEndian|truncatingIfNeeded"
CONVERSION = re.compile(rf"(?<![.\w])U?Int(?:8|16|32|64)?\((?!(?:{LABELS}):|\d|[A-Z][A-Z0-9_]+\b)(?![^()]*, radix: )")

problems = []
for room in ROOMS:
    files = sorted((ROOT / "Sources").glob(f"*/{room}/**/*.swift"))
    if not files:
        problems.append(f"the room {room} has no Swift file: correct ROOMS in Tests/Lint/numbers.py")
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if CONVERSION.search(line.split("//")[0]):
                problems.append(f"{file.relative_to(ROOT)}:{number}: a conversion that traps: {line.strip()}")
print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
sys.exit(bool(problems))
