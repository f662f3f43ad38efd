"""Change one expression of the sources at a time and ask whether a test notices: `python -m fuzz.mutants --seed 1`.

A mutant that every test passes is alive: its line is redundant, or no test guards it. Compare the number of mutants
that die before and after a rewrite of the tests or of the sources. The mutants are drawn evenly from the folders given,
and the same seed draws the same mutants from the same sources. Each mutant runs in a copy of the repository, first
against the test file that mirrors its source, then against the tests of its folder, then against the simulated clusters
if it is part of the budget.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDERS: Final = ("admission", "proxy/throttle", "proxy/relay", "protocol/session")
BUDGET: Final = ("admission", "proxy/throttle")
"""Folders whose rules are also held by `tests/simulation`, and by each other's tests."""
DEAD, ALIVE = "dead", "alive"
PYTEST: Final = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"]

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.BitOr: "&",
}  # fmt: skip
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """One source file with `old` at byte offsets `begin` to `end` replaced by `new`."""

    path: str
    line: int
    begin: int
    end: int
    old: str
    new: str

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.begin] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.old.split())}  =>  {' '.join(self.new.split())}"


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of one source file, in the order of the text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _executed(ast.parse(source)):
        for new in _replacements(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            found.append(Mutant(path, node.lineno, begin, end, source[begin:end].decode(), new))
    return sorted(found, key=lambda each: (each.begin, each.new))


def _executed(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the nodes that run: no annotations, imports for types, docstrings or slots."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "slice"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _executed(child)


def _replacements(node: ast.expr | ast.stmt) -> Iterator[str]:  # noqa: C901 - one case for each kind of expression
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield f"{ast.unparse(left)} {_COMPARISONS[type(op)]} {ast.unparse(right)}"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            yield f"({ast.unparse(left)}) {_OPERATORS[type(op)]} ({ast.unparse(right)})"
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS:
            yield f"{ast.unparse(target)} {_OPERATORS[type(op)]}= {ast.unparse(value)}"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield word.join(f"({ast.unparse(each)})" for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({ast.unparse(operand)})"
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield _CALLS[name] + ast.unparse(node)[len(name) :]
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.Constant(value=float(value)):
            yield repr(value * 2 + 0.5)


def draw(folders: Sequence[str], *, root: Path, seed: int, count: int) -> list[Mutant]:
    """Return `count` mutants, as many from each folder."""
    choice = random.Random(seed)  # noqa: S311
    drawn = []
    for place, folder in enumerate(folders):
        paths = sorted((root / folder).rglob("*.py"))
        found = [each for path in paths for each in mutants(str(path.relative_to(root)), path.read_bytes())]
        wanted = count * (place + 1) // len(folders) - count * place // len(folders)
        drawn += choice.sample(found, min(wanted, len(found)))
    return drawn


def guarding_tests(path: str, root: Path) -> list[str]:
    """Return the test files and folders that guard a source file, the closest first."""
    folder = str(Path(path).parent)
    mirrors = sorted(str(each.relative_to(root)) for each in (root / "tests" / folder).glob(f"test_{Path(path).stem}*"))
    others = [*BUDGET, "simulation"] if folder in BUDGET else [folder]
    return [*mirrors, *(f"tests/{each}" for each in dict.fromkeys([folder, *others]))]


def run_mutant(mutant: Mutant, root: Path, *, most_seconds: float) -> str:
    """Return whether a test fails, or takes too long, once the copy at `root` is mutated; restore the copy."""
    path = root / mutant.path
    source = path.read_bytes()
    path.write_bytes(mutant.apply(source))
    command = [*PYTEST, *guarding_tests(mutant.path, root)]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=most_seconds, check=False)
    except subprocess.TimeoutExpired:
        return DEAD
    finally:
        path.write_bytes(source)
    return DEAD if done.returncode else ALIVE


def copy_repository(root: Path, copy: Path) -> None:
    """Copy what git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=FOLDERS, help=f"default: {' '.join(FOLDERS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="per mutant")
    given = parser.parse_args(arguments)
    root, dead = Path(__file__).parents[1], 0
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        copy_repository(root, copy)
        drawn = draw(given.folders, root=copy, seed=given.seed, count=given.count)
        for mutant in drawn:
            found = run_mutant(mutant, copy, most_seconds=given.timeout)
            dead += found == DEAD
            sys.stdout.write(f"{found:5} {mutant}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dead} of {len(drawn)} died\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
