"""The mutation script: which mutants a text has, that a seed draws the same ones, and that a test can kill one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fuzz.mutants import ALIVE, DEAD, Mutant, draw, guarding_tests, mutants, run_mutant

ROOT = Path(__file__).parents[2]
SOURCE = b'''"""Half a gate, not 1 < 2."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    MORE = 1 + 1
LEAST = 4

def share(size: int, *, most: int = 7) -> int:
    if size < LEAST and not most:
        count(size)
    return min(size, most) + LEAST
'''


def test_each_expression_that_runs_is_changed_and_nothing_else() -> None:
    found = [(each.old, each.new) for each in mutants("a.py", SOURCE)]
    assert sorted(found) == sorted([
        ("4", "5"), ("7", "8"), ("size < LEAST", "size <= LEAST"),
        ("size < LEAST and not most", "(size < LEAST) or (not most)"), ("not most", "bool(most)"),
        ("count(size)", "pass"), ("min(size, most)", "max(size, most)"),
        ("min(size, most) + LEAST", "(min(size, most)) - (LEAST)"),
    ])  # fmt: skip
    for each in mutants("a.py", SOURCE):
        ast.parse(each.apply(SOURCE))


def test_a_seed_draws_the_same_mutants_evenly() -> None:
    folders = ("admission", "protocol/session")
    drawn = draw(folders, root=ROOT, seed=3, count=9)
    assert drawn == draw(folders, root=ROOT, seed=3, count=9) != draw(folders, root=ROOT, seed=4, count=9)
    assert [sum(each.path.startswith(folder) for each in drawn) for folder in folders] == [4, 5]


def test_the_tests_that_mirror_a_file_come_first() -> None:
    assert guarding_tests("admission/token_bucket.py", ROOT) == [
        "tests/admission/test_token_bucket.py", "tests/admission", "tests/proxy/throttle", "tests/simulation",
    ]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "outcome"), [("+", "-", DEAD), ("1", "1.0", ALIVE)])
def test_a_mutant_dies_by_a_test_and_the_copy_is_restored(tmp_path: Path, old: str, new: str, outcome: str) -> None:
    source = b"def after(n):\n    return n + 1\n"
    for name, text in (
        ("m/a.py", source),
        ("tests/m/test_a.py", b"from m.a import after\n\ndef test_it():\n    assert after(1) == 2\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(text)
    (tmp_path / "m/__init__.py").touch()
    begin = source.index(old.encode())
    mutant = Mutant("m/a.py", 2, begin, begin + len(old), old, new)
    assert run_mutant(mutant, tmp_path, most_seconds=60) == outcome
    assert (tmp_path / "m/a.py").read_bytes() == source
