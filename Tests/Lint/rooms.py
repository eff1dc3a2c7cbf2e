#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of the package: run by `make lint`.

- A file imports only what its target declares in Package.swift, and a target declares only what its files import.
- A target imports only the modules that its row of the table in Docs/architecture.md lists, and every module has a row.
- No target imports one of a higher floor: the floors are the folders of Sources.
- No target of the product imports Foundation: it would add 31 MB of ICU data to the binary.
- Only TocsinPhone depends on swift-crypto, and no target of the product on TocsinPhone: OpenSSL and libsodium are the
  only cryptography in the node's process.
- `public` occurs only in libraries that are products, in modules for types that these expose, and in generic tables.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Modules of the toolchain and the system, which no target declares.
SYSTEM = {"Glibc", "Dispatch", "Synchronization", "Foundation", "FoundationEssentials", "Testing"}
# The folders of Sources, from the lowest to the highest.
FLOORS = ["C", "Base", "Wire", "Sending", "Node", "Commands", "Lab"]
# The library for phones, and what it has in the place of the system's libraries.
PHONE, PHONE_ONLY = "TocsinPhone", {"Crypto", "CryptoExtras"}
# Libraries that users link, and the modules whose types appear in their public declarations.
PRODUCTS = {"TNP", "TocsinClient", PHONE}
EXPOSED = {"Cryptography", "EventLoop"}
# Swift 6.3 specialises the generic types of another module only if they are public and inlinable.
GENERIC = {"Tables"}
IMPORT = re.compile(r"^(?:@testable |@preconcurrency |internal |package |public )*import (?:struct |func |enum |class )?(\w+)")

problems = []


def problem(where, text):
    problems.append(f"{where}: {text}")


def imports(directory):
    """The modules that the Swift files under a directory import, each with one place."""
    found = {}
    for file in sorted(directory.rglob("*.swift")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = IMPORT.match(line)
            if match:
                found.setdefault(match[1], f"{file.relative_to(ROOT)}:{number}")
    return found


def targets():
    """The package's targets: name, directory, and the modules that each declares."""
    dump = subprocess.run(["swift", "package", "dump-package"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in json.loads(dump.stdout)["targets"]:
        if target["type"] == "system":
            continue
        declared = set()
        for dependency in target["dependencies"]:
            declared.add((dependency.get("byName") or dependency.get("product") or dependency["target"])[0])
        yield target["name"], ROOT / target["path"], declared, target["type"]


def room_table():
    """The modules that each module may import, as Docs/architecture.md says."""
    rows = {}
    for line in (ROOT / "Docs/architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            rows[cells[0].strip("`")] = set(re.findall(r"`([\w-]+)`", cells[2]))
    return rows


all_targets = list(targets())
rooms = {path.name: path.parent.name for path in (ROOT / "Sources").glob("*/*") if path.is_dir()}
for floor in sorted(set(rooms.values()) - set(FLOORS)):
    problem(f"Sources/{floor}", "is no floor of Tests/Lint/rooms.py")
table = room_table()
for name, directory, declared, kind in all_targets:
    module = name.replace("-", "_")
    used = {found: place for found, place in imports(directory).items() if found != module}
    declared_modules = {entry.replace("-", "_") for entry in declared}
    for found, place in used.items():
        if found not in SYSTEM and found not in declared_modules:
            problem(place, f"imports {found}, which the target {name} does not declare in Package.swift")
    if kind != "test":
        for entry in sorted(declared):
            if entry.replace("-", "_") not in used:
                problem("Package.swift", f"the target {name} declares {entry}, which none of its files imports")
    # What is not installed may play a phone.
    is_installed = kind != "test" and rooms.get(name) != "Lab"
    if is_installed and declared & (PHONE_ONLY if name != PHONE else set()) | declared & {PHONE}:
        problem("Package.swift", f"the target {name} depends on the phone's library or on swift-crypto")
    if directory.parent.parent == ROOT / "Sources":
        if "Foundation" in used:
            problem(used["Foundation"], "imports Foundation: use FoundationEssentials, which needs no ICU")
        if name not in table:
            problem("Docs/architecture.md", f"the table of modules has no row for {name}")
        else:
            for found, place in used.items():
                if found in rooms and FLOORS.index(rooms[found]) > FLOORS.index(directory.parent.name):
                    problem(place, f"{name} imports {found}, which stands on a higher floor")
                if found in rooms and found not in table[name]:
                    problem(place, f"{name} imports {found}, which the table in Docs/architecture.md does not allow")

exposed_names = set()
for room in PRODUCTS | EXPOSED:
    for file in (ROOT / "Sources").glob(f"*/{room}/**/*.swift"):
        text = file.read_text()
        declaration = ""
        for line in text.splitlines():
            # A declaration may go on until its parentheses are closed.
            line = declaration + line
            declaration = line + " " if "public " in line and line.count("(") > line.count(")") else ""
            # The cases of a public enum have its access.
            if "public " in line or (room in EXPOSED and line.strip().startswith("case ") and "\npublic enum" in text):
                names = re.sub(r"public (?:final )?(?:struct|class|enum|protocol|actor) \w+", "", line)
                exposed_names.update(re.findall(r"\b[A-Z]\w+", names if room in EXPOSED else line))
for file in sorted((ROOT / "Sources").rglob("*.swift")):
    room = file.relative_to(ROOT / "Sources").parts[1]
    if room in PRODUCTS or room in GENERIC:
        continue
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = re.match(r"\s*public (?:final |indirect |static |mutating |nonisolated )*(\w+) (\w+)?", line)
        if not match:
            continue
        place = f"{file.relative_to(ROOT)}:{number}"
        if room not in EXPOSED:
            problem(place, f"is public, but no product exposes {room}: use package")
        elif not line.startswith(" ") and match[1] != "extension" and match[2] not in exposed_names:
            problem(place, f"{match[2]} is public, but no product's declaration mentions it: use package")

for text in problems:
    print(text)
sys.exit(1 if problems else 0)
