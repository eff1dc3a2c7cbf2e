#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a Maven repository in a folder for what Maven Central requires (central.sonatype.org, "Requirements"): each
library with its sources and its API pages, and a POM with name, description, URL, licence, developers and scm. Signatures are
made when a maintainer publishes.

    published.py FOLDER
"""

import sys
import xml.etree.ElementTree
import zipfile
from pathlib import Path

NAMESPACE = "{http://maven.apache.org/POM/4.0.0}"
NEEDED = ["name", "description", "url", "licenses/license/name", "developers/developer/email", "scm/url", "scm/connection"]

problems = []
poms = sorted(Path(sys.argv[1]).rglob("*.pom"))
for pom in poms:
    root = xml.etree.ElementTree.parse(pom).getroot()
    for path in NEEDED:
        if not (root.findtext("/".join(NAMESPACE + part for part in path.split("/"))) or "").strip():
            problems.append(f"{pom.name} has no {path}")
    for suffix, inside in [(".jar", ".class"), ("-sources.jar", ".java"), ("-javadoc.jar", "index.html")]:
        jar = pom.with_name(pom.stem + suffix)
        if not jar.exists():
            problems.append(f"{jar.name} is missing")
        elif not any(name.endswith(inside) for name in zipfile.ZipFile(jar).namelist()):
            problems.append(f"{jar.name} has no {inside}")
if {pom.parts[-3] for pom in poms} != {"tocsin-client", "tocsin-phone"}:
    problems.append(f"published: {[pom.name for pom in poms]}")
print("\n".join(problems) or f"{len(poms)} libraries are complete")
sys.exit(bool(problems))
