"""The shape of the house: who may import whom, how large a room may be, and that each says what it is for."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "admission",
    "journal_schema",
    "operating",
    "pipeline",
    "protocol",
    "proxy",
    "reassignment",
    "lab",
    "benchmarks",
    "deploy",
    "fuzz",
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PURE = (
    "admission",
    "reassignment",
    "journal_schema",
    "proxy/throttle",
    "proxy/quotas",
    *(f"proxy/rates/{name}.py" for name in ("auto_rate", "deadline_rate", "choice", "role_rate", "signals")),
    "protocol",
    "proxy/roles.py",
    "proxy/topology",
    "proxy/statistics",
    "proxy/observing/status_page.py",
)
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py", "base.py"}


class Rule(NamedTuple):
    """Files below `where` import nothing of `never`."""

    where: str
    never: set[str]


RULES = (
    # What the sidecar and the pipeline share, and therefore knows neither.
    Rule("admission", {"proxy", "operating", "protocol", "pipeline", "lab", "benchmarks", "trio", "time", "socket",
                       "logging", "random", "pyspark", "journal_schema"}),
    Rule("reassignment", {"proxy", "operating", "protocol", "pipeline", "lab", "benchmarks", "admission",
                          "journal_schema", "time"}),
    Rule("pipeline", {"proxy", "operating", "protocol", "lab", "benchmarks", "trio"}),
    Rule("protocol", {"proxy", "operating", "lab", "benchmarks", "trio", "structlog", "prometheus_client", "socket",
                      "threading", "time", "logging", "random", "asyncio", "msgspec"}),
    Rule("proxy", {"operating", "lab", "benchmarks", "pipeline"}),
    Rule("operating", {"lab", "benchmarks", "pipeline"}),
    Rule("proxy/throttle", {"trio", "time", "socket", "logging", "structlog", "prometheus_client", "random"}),
    Rule("proxy/clients", {"trio", "time", "socket", "logging", "structlog", "prometheus_client", "random"}),
    Rule("proxy/quotas", {"trio", "time", "socket", "logging", "structlog", "prometheus_client"}),
    Rule("proxy/relay", {"prometheus_client", "structlog", "msgspec", "click"}),
    Rule("lab", {"benchmarks", "fuzz"}),
    # What attacks the sidecar meets it as users do, so that it shares no mistake with it.
    Rule("fuzz", {"proxy", "operating", "benchmarks", "pipeline", "admission"}),
)  # fmt: skip


def imports(path: Path) -> set[str]:
    """Top-level modules that a file imports at run time or for types; relative imports are its own package's."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def below(where: str) -> list[Path]:
    place = ROOT / where
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@pytest.mark.parametrize("rule", RULES, ids=[rule.where for rule in RULES])
def test_import_directions(rule: Rule) -> None:
    found = {str(path.relative_to(ROOT)): sorted(imports(path) & rule.never) for path in below(rule.where)}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_exception_is_raised_where_groups_are_caught() -> None:
    """Up to Python 3.11.3 what is raised within `except*` comes out as a group (CPython gh-103590)."""
    raising = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for top in sorted({rule.where.partition("/")[0] for rule in RULES})
        for path in below(top)
        for caught in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(caught, ast.TryStar)
        for handler in caught.handlers
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and node.exc is not None
    ]
    assert raising == []


def test_only_the_operators_commands_know_kafka_python() -> None:
    """The sidecar runs without it: it comes with the extra `operator`."""
    assert [path.name for path in below("operating") if "kafka" in imports(path)] == ["kafka_python.py"]
    importers = [path.name for path in below("operating") if ".kafka_python import" in path.read_text("utf-8")]
    assert importers == ["cluster.py"]


def test_protocol_needs_the_standard_library_and_construct_alone() -> None:
    allowed = {*sys.stdlib_module_names, "construct", "protocol"}
    assert {name for path in below("protocol") for name in imports(path)} <= allowed


def test_the_folders_of_protocol_import_those_before_them_alone() -> None:
    """Sessions know Fetch, Fetch knows walkers, walkers know types; never the other way, not even for a type."""
    folders = ["wire", "walkers", "fetch", "session"]
    upwards = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.module}"
        for rank, folder in enumerate(folders)
        for path in below(f"protocol/{folder}")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.level == 2
        and (node.module or "").partition(".")[0] not in (*folders[:rank], "errors", "work_in_steps")
    ]
    assert upwards == []


@pytest.mark.parametrize("package", ["journal_schema", "reassignment"])
def test_what_all_share_needs_the_standard_library_alone(package: str) -> None:
    allowed = {*sys.stdlib_module_names, package}
    assert {name for path in below(package) for name in imports(path)} <= allowed


@pytest.mark.parametrize("where", PURE)
def test_the_inner_ring_is_synchronous(where: str) -> None:
    coloured = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in below(where)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    assert coloured == []


def test_rooms_are_small() -> None:
    lines = {path: path.read_text("utf-8").count("\n") for path in [*SOURCES, *TESTS]}
    assert [f"{p.relative_to(ROOT)}: {n}" for p, n in lines.items() if n > (500 if p in TESTS else 400)] == []


def test_classes_are_small() -> None:
    """What takes more than 300 lines has more than one concept in it."""
    large = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines}"
        for path in [*SOURCES, *TESTS]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > 300
    ]
    assert large == []


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert long == []


def test_folders_are_small() -> None:
    """A folder of more than sixteen files has a seam along which it divides."""
    files = Counter(str(path.parent.relative_to(ROOT)) for path in SOURCES if path.name != "__init__.py")
    assert [f"{folder}: {count}" for folder, count in files.items() if count > 16] == []


def test_there_is_no_drawer() -> None:
    assert [str(path) for path in SOURCES if path.name in FORBIDDEN_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}
    assert [str(path.relative_to(ROOT)) for path, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_every_file_that_a_comment_names_is_there() -> None:
    """A file that is renamed takes along the units, manifests and docstrings that name it by its path."""
    path_of_ours = re.compile(
        rf"(?<![\w/.{{}}$-])((?:{'|'.join(PACKAGES)}|docs|tests)/[\w./-]+\.(?:py|md|sh|toml|ya?ml))\b"
    )
    readable = {path for path in (ROOT / "deploy").rglob("*") if path.is_file()} | {*SOURCES, *TESTS}
    named = {
        name: path.relative_to(ROOT)
        for path in readable
        for name in path_of_ours.findall(path.read_text("utf-8", errors="ignore"))
    }
    assert {name: where for name, where in named.items() if not (ROOT / name).exists()} == {}


def test_broad_excepts_are_only_at_the_boundaries() -> None:
    """Errors are named where they are expected; what nobody expected costs one connection or one try of one background
    task, loudly. The poller survives its own, the journal's thread hands its own to the journal's task.
    The log puts into plainer words what raises while it is put into words."""
    broad = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not isinstance(node.body[-1], ast.Raise)
    ]
    assert sorted(set(broad)) == [
        "proxy/http/connection.py",
        "proxy/journal/writer.py",
        "proxy/logs/log.py",
        "proxy/network/accept_limiter.py",
        "proxy/process/supervision.py",
        "proxy/relay/connection.py",
        "proxy/relay/poller.py",
        "proxy/threads.py",
    ]


def test_threads_have_a_limit_of_their_own() -> None:
    """Trio's forty for everybody are all held by sixty dials where a name server hangs; and what is raised through
    Trio stays in memory with all that its thread's work had in its hands. `in_thread` cannot be called without a
    limiter, and raises by itself."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "proxy") and path != ROOT / "proxy" / "threads.py"
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Attribute) and ast.unparse(call) == "trio.to_thread.run_sync"
    ]
    assert elsewhere == []


def test_decoders_are_made_once() -> None:
    """`msgspec.json.decode(…, type=X)` works X out anew where nobody has, and two threads that do so at the same time
    end the process by SIGSEGV (msgspec 0.22.0: about every other run of eight threads). A decoder that a module makes
    is made before there are threads."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in SOURCES
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("msgspec.")
        and (ast.unparse(call.func).endswith("convert") or any(given.arg == "type" for given in call.keywords))
    ]
    assert elsewhere == []


def test_no_other_distribution_claims_our_packages() -> None:
    """`proxy` is a generic name: proxy.py has it as well."""
    claims = packages_distributions()
    for package in ("admission", "journal_schema", "operating", "pipeline", "protocol", "proxy", "reassignment", "lab"):
        assert all(name.startswith("kafka-throttle-") for name in claims.get(package, []))
