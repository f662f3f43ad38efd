from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.host.commands import output_of


def test_what_a_command_printed() -> None:
    assert output_of("echo", "yes") == "yes\n"
    assert output_of("sh", "-c", "echo so far; exit 1", check=False) == "so far\n"


@pytest.mark.parametrize("words", ["echo no >&2; exit 1", "echo no; exit 1"])
def test_one_that_fails_is_an_error_with_its_words(words: str) -> None:
    with pytest.raises(LabError, match=r"^sh -c .*: no$"):
        output_of("sh", "-c", words)


@pytest.mark.parametrize("check", [True, False])
def test_one_that_is_not_there_is_named(check: bool) -> None:
    with pytest.raises(LabError, match="`no-such-command` was not found on PATH"):
        output_of("no-such-command", check=check)
