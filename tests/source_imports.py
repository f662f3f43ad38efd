"""Who imports whom, worked out from the sources: the graph that tests/test_layers.py judges."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules(package: str) -> dict[str, Path]:
    """Files of a package by their dotted names; a package itself is its ``__init__.py``."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imported(module: str, path: Path, *, for_types: bool = True) -> frozenset[str]:
    """Dotted names that a file imports, relative ones resolved; ``from a import b`` yields ``a`` and ``a.b``.

    Without `for_types`, what only a type checker sees is left out.
    """
    tree = ast.parse(path.read_text("utf-8"))
    if not for_types:
        tree = _WithoutTypeChecking().visit(tree)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = _absolute(package, node)
            found |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _absolute(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    above = package.split(".")[: package.count(".") + 2 - node.level]
    return ".".join([*above, *([node.module] if node.module else [])])


class _WithoutTypeChecking(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


@cache
def graph(packages: tuple[str, ...], *, for_types: bool = True) -> dict[str, frozenset[str]]:
    """Modules by the modules they import, of these packages only.

    What is imported from a package that only gathers its modules' names is the package's, as at run time.
    """
    known = {name: path for package in packages for name, path in modules(package).items()}
    found = {}
    for name, path in known.items():
        every = imported(name, path, for_types=for_types) & known.keys()
        # `from a import b` where b is a module needs b; a itself is a package that holds nothing of its own then.
        parents = {each.rpartition(".")[0] for each in every}
        found[name] = frozenset(
            each for each in every if each != name and not (each in parents and _is_bare(known[each]))
        )
    return found


@cache
def _is_bare(path: Path) -> bool:
    """A package's ``__init__.py`` that has a docstring and nothing else."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text("utf-8")).body) <= 1


def circles(edges: dict[str, frozenset[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan, 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            component, stack[at:] = stack[at:], []
            if len(component) > 1:
                found.append(sorted(component))

    for node in edges:
        if node not in order:
            visit(node)
    return sorted(found)


def reachable(start: str, edges: dict[str, frozenset[str]]) -> set[str]:
    seen, ahead = {start}, [start]
    while ahead:
        for other in edges.get(ahead.pop(), ()):
            if other not in seen:
                seen.add(other)
                ahead.append(other)
    return seen


def layers(edges: dict[str, frozenset[str]]) -> dict[str, int]:
    """The longest way down from each node, which has none if it imports nothing. Raises ValueError for a circle."""
    if found := circles(edges):
        raise ValueError(f"circles: {found}")

    @cache
    def depth(node: str) -> int:
        return 1 + max((depth(other) for other in edges.get(node, ())), default=-1)

    return {node: depth(node) for node in edges}
