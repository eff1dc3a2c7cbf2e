# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests: the vectors of Tests/Conformance/vectors and the package itself."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

VECTORS = Path(__file__).parents[3] / "Tests" / "Conformance" / "vectors" / "tnp1.json"


@pytest.fixture(scope="session")
def vectors():
    return json.loads(VECTORS.read_text())
