from __future__ import annotations

from proxy.errors import ConfigurationError


def test_every_problem_is_a_line() -> None:
    assert str(ConfigurationError("one")) == "one"
    assert ConfigurationError("one").problems == ("one",)
    assert str(ConfigurationError(["one", "two"])) == "one\ntwo"
