#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every suite has one group, so that every test belongs to a run: run by `make lint`.

The groups are the tags in Tests/TestSupport/Groups.swift. Tests/run checks the same of the built program, and its levels.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUPS = set(re.findall(r"@Tag package static var (\w+)", (ROOT / "Tests/TestSupport/Groups.swift").read_text()))
# A type or an extension at the top level, with the attributes before it.
DECLARATION = re.compile(
    r"^(?P<attributes>(?:@\w+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s+)*)"
    r"(?:package |private |fileprivate |final )*(?P<kind>struct|class|actor|enum|extension) (?P<name>\w+)", re.MULTILINE)

problems, suites, extensions = [], set(), []
for file in sorted((ROOT / "Tests").rglob("*.swift")):
    text = file.read_text()
    folders = file.relative_to(ROOT / "Tests").parts
    module = folders[1] if folders[1].endswith("Tests") else folders[0]
    declarations = list(DECLARATION.finditer(text))
    for declaration, following in zip(declarations, [*declarations[1:], None]):
        body = text[declaration.end():following.start() if following else len(text)]
        if not re.search(r"^\s+@Test\b", body, re.MULTILINE):
            continue
        place = f"{file.relative_to(ROOT)}: {declaration['name']}"
        if declaration["kind"] == "extension":
            extensions.append((module, declaration["name"], place))
            continue
        suites.add((module, declaration["name"]))
        tags = [tag for tag in re.findall(r"\.(\w+)", declaration["attributes"]) if tag in GROUPS]
        if len(tags) != 1:
            problems.append(f"{place} has {len(tags)} groups: write @Suite(.tags(.GROUP)), GROUP one of "
                            + ", ".join(sorted(GROUPS)))
for module, name, place in extensions:
    if (module, name) not in suites:
        problems.append(f"{place} has tests, but the suite that it extends has none of its own and no group")
if not suites:
    problems.append("Tests: no suite was found")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
