"""What is typed wrong, or is not installed, is one line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.byte_path import scaling
from benchmarks.byte_path.contenders.peer import MissingError, Peer, Place


def _missing(place: Place) -> list[str]:
    raise MissingError("envoy is not here: install it")


def _ends(place: Place) -> list[str]:
    return ["sh", "-c", "echo no such option; exit 3"]


@pytest.mark.parametrize(
    ("command", "message"), [(_missing, "Error: envoy is not here: install it"), (_ends, "Error: envoy did not start")]
)
def test_a_peer_that_does_not_run_has_no_memory(command: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scaling.PEERS, "envoy", Peer("envoy", "", command, lambda: ""))
    done = CliRunner().invoke(scaling.main, ["memory", "--peer", "envoy"])
    assert done.exit_code == 1
    assert done.stderr.startswith(message)


@pytest.mark.parametrize(
    "arguments",
    [
        ["memory", "--connections", "0"],
        ["memory", "--minutes", "0"],
        ["peers", "--rounds", "0"],
        ["idle", "--seconds", "0"],
    ],
)
def test_a_number_that_measures_nothing_is_refused(arguments: list[str]) -> None:
    done = CliRunner().invoke(scaling.main, arguments)
    assert done.exit_code == 2
    assert "0 is not in the range" in done.stderr.replace("0.0 is", "0 is")
