from __future__ import annotations

import msgspec
import pytest

from proxy.config.settings_problems import Problems
from proxy.errors import ConfigurationError


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    n: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: list[Inner] = []


def problem_of(table: object) -> str:
    problems = Problems("proxy.toml", {"outer": table}, {"outer.inner.0.n": "--set"})
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert(table, Outer)
    problems.add_from_msgspec("outer", wrong.value, Outer)
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (5, "proxy.toml: outer: expected a table, found 5"),
        ({"inner": {}}, "proxy.toml: outer.inner: expected a list, found a table"),
        ({"outer": 1}, "proxy.toml: outer.outer: unknown key; expected one of inner"),
        ({"inner": [{}]}, "--set: outer.inner[0].n: missing"),
        ({"inner": [{"n": 1}, {"n": "x"}]}, 'proxy.toml: outer.inner[1].n: expected an integer, found "x"'),
        ({"inner": [{"n": True}]}, "--set: outer.inner[0].n: expected an integer, found true"),
    ],
)
def test_msgspecs_words_become_ours(table: object, problem: str) -> None:
    assert problem_of(table) == problem


def test_without_problems_nothing_is_raised() -> None:
    Problems("proxy.toml", {}, {}).raise_if_any()
