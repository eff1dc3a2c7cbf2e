#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a platform is asked, and not compared: run by `make lint`.

What holds for a platform's device tokens stands in TNP, on the phone in TocsinPhone, and all of its push service in
Providers. Elsewhere code asks them: a new platform then changes nothing there. The stand-ins, which are phones and push services, and the benchmarks
may compare.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ["Base", "Wire", "Sending", "Node"]
EXEMPT = {"TNP", "TocsinPhone", "Providers"}
COMPARISON = re.compile(r"\b(?:[mM]agic|platform)\??\s*[!=]=\s*\.|(?<![\w)\]?!])\.web\b")

problems = []
for floor in FLOORS:
    for file in sorted((ROOT / "Sources" / floor).rglob("*.swift")):
        if file.relative_to(ROOT / "Sources").parts[1] in EXEMPT:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if COMPARISON.search(line.split("//")[0]):
                problems.append(f"{file.relative_to(ROOT)}:{number}: compares a platform: {line.strip()}")
print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
sys.exit(bool(problems))
