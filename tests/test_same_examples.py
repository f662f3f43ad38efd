"""Which examples Hypothesis draws does not depend on what else has run in the same process."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

SAME = settings.get_profile("same")
EXAMPLES = 500
"""One integer in twenty is a constant, and every second of these was one of a local module."""


def drawn() -> list[int]:
    found: list[int] = []

    @settings(SAME, max_examples=EXAMPLES)
    @given(st.integers())
    def keep(number: int) -> None:
        found.append(number)

    keep()
    return found


@pytest.mark.skipif(settings.get_current_profile_name() != "same", reason="new examples are to be new ones")
def test_a_module_that_is_imported_meanwhile_changes_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = ", ".join(str(number) for number in range(700_000, 700_300))
    (tmp_path / "imported_meanwhile.py").write_text(f"NUMBERS = ({numbers})\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = drawn()
    try:
        importlib.import_module("imported_meanwhile")
        assert drawn() == before
    finally:
        sys.modules.pop("imported_meanwhile", None)
    assert len(before) == EXAMPLES
