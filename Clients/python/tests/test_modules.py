# SPDX-License-Identifier: Apache-2.0
"""Which modules of the client import which others."""

import ast
import inspect
from graphlib import TopologicalSorter
from pathlib import Path

import tocsin_client
from tocsin_client import BlockingClient, TocsinClient


def imports(file: Path) -> set[str]:
    """The client's modules that a module imports, also for types only."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


def test_no_module_imports_itself_through_others() -> None:
    directory = Path(inspect.getfile(tocsin_client)).parent
    graph = {file.stem: imports(file) for file in directory.glob("*.py")}
    assert len(graph) > 20
    # Raises CycleError.
    list(TopologicalSorter(graph).static_order())


def test_the_blocking_client_has_the_options_and_methods_of_the_other() -> None:
    assert inspect.signature(BlockingClient) == inspect.signature(TocsinClient)
    for name in ("submit", "notify", "register", "rotate", "forget", "pair", "erase"):
        assert inspect.signature(getattr(BlockingClient, name)) == inspect.signature(getattr(TocsinClient, name))
