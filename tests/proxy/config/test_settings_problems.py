from __future__ import annotations

import pytest

from proxy.config.settings_problems import Problems
from proxy.errors import ConfigurationError

ORIGINS = {"a.0.b": "--set", "made.up.key": "THROTTLE_MADE__UP__KEY"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a[1].b", "proxy.toml: a[1].b: missing"),
        ("a[0].b", "--set: a[0].b: missing"),
        ("made", "proxy.toml: made: missing"),
    ],
)
def test_a_problem_is_of_the_file_or_of_the_override_that_gave_the_value(path: str, message: str) -> None:
    problems = Problems("proxy.toml", ORIGINS)
    problems.add(path, "missing")
    assert path in problems
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == (message,)


def test_an_override_that_made_up_a_table_is_blamed() -> None:
    problems = Problems("proxy.toml", ORIGINS)
    problems.add_unknown("made", "unknown key")
    with pytest.raises(ConfigurationError, match=r"^THROTTLE_MADE__UP__KEY: made\.up\.key: unknown key$"):
        problems.raise_if_any()


def test_what_follows_from_a_problem_is_left_out() -> None:
    problems = Problems("proxy.toml")
    for path in ("a", "a", "a.b", "ab"):
        problems.add(path, "wrong")
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == ("proxy.toml: a: wrong", "proxy.toml: ab: wrong")


def test_without_problems_nothing_is_raised() -> None:
    Problems("proxy.toml").raise_if_any()
