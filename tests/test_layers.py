"""The layers of the house, drawn from its imports: nothing points back up, nothing goes round, and what is said to be
pure stays so through everything it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .source_imports import circles, graph, imported, layers, modules, reachable

OURS = ("admission", "journal_schema", "lab", "operating", "protocol", "proxy", "reassignment")
MAX_LAYERS = 9
PURE = (
    "admission",
    "protocol",
    "reassignment",
    "journal_schema",
    "proxy.throttle",
    "proxy.topology",
    "proxy.diagnostics",
    "proxy.ledger",
    "proxy.quotas",
)
IMPURE = {"trio", "socket", "select", "threading", "logging", "structlog", "prometheus_client", "asyncio", "random"}


def floors() -> dict[str, frozenset[str]]:
    """What stands directly in `proxy`, files and folders, by what each imports of the others."""

    def floor(module: str) -> str:
        return ".".join(module.split(".")[:2])

    edges: dict[str, set[str]] = {}
    for module, others in graph(("proxy",)).items():
        edges.setdefault(floor(module), set()).update(floor(other) for other in others)
    return {name: frozenset(others - {name, "proxy"}) for name, others in edges.items() if name != "proxy"}


def test_files_and_folders_of_the_sidecar_stand_in_few_layers() -> None:
    found = layers(floors())
    assert max(found.values()) + 1 <= MAX_LAYERS, sorted((depth, name) for name, depth in found.items())


def test_nothing_imports_in_a_circle_not_even_for_its_types() -> None:
    assert circles(graph(OURS)) == []


PIPELINE = ("tables", "jobs", "model", "journals", "questions", "report", "commands")
"""Folders in the order in which each may import those before it."""


def test_the_folders_of_the_pipeline_import_those_before_them_alone() -> None:
    edges = graph(("pipeline",))
    ranks = {f"pipeline.{folder}": rank for rank, folder in enumerate(PIPELINE)}

    def folder(module: str) -> str:
        return ".".join(module.split(".")[:2])

    upwards = [
        f"{name} -> {other}"
        for name, others in edges.items()
        for other in others
        if folder(name) in ranks and ranks.get(folder(other), -1) > ranks[folder(name)]
    ]
    assert upwards == []
    assert {folder(name) for name in edges} >= ranks.keys()


def test_a_circle_is_found() -> None:
    edges = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}
    assert circles(edges) == [["a", "b", "c"]]
    with pytest.raises(ValueError, match="circles"):
        layers(edges)


def test_layers_are_the_longest_way_down() -> None:
    edges = {"top": frozenset({"low", "middle"}), "middle": frozenset({"low"}), "low": frozenset()}
    assert layers(edges) == {"top": 2, "middle": 1, "low": 0}


@pytest.mark.parametrize("package", PURE)
def test_purity_holds_through_all_that_is_imported(package: str) -> None:
    edges = graph(OURS, for_types=False)
    paths = {name: path for each in OURS for name, path in modules(each).items()}
    inside = [name for name in edges if name == package or name.startswith(package + ".")]
    assert inside
    found = {
        (name, outside)
        for start in inside
        for name in reachable(start, edges)
        for outside in {each.partition(".")[0] for each in imported(name, paths[name], for_types=False)} & IMPURE
    }
    assert found == set()


def test_what_decides_loads_without_what_acts() -> None:
    """The same in a process, where packages' own ``__init__`` count."""
    names = [
        name for package in PURE for each in OURS for name in modules(each) if f"{name}.".startswith(package + ".")
    ]
    code = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += "print(sorted({'trio', 'structlog', 'prometheus_client', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
