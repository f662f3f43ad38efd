from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operating.fleet import members
from tests.proxy.fake_sidecar import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]


def test_into_a_pipe_it_prints_one_table(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--url", f"{fake.url}/")
    assert result.exit_code == 0
    assert fake.paths == ["/throttle"]
    assert "\x1b" not in result.output
    for cell in ("101", "leader", "4.00 MiB/s", "3.81 MiB/s", "95%", "17", "12345", "12s", "orders", "345"):
        assert cell in result.output


def test_several_sidecars_share_the_table(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--once", "--url", fake.url, "--url", fake.url)
    assert result.output.count("4.00 MiB/s") == 2


def test_json_is_the_sidecars_own(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--json", "--url", fake.url)
    assert json.loads(result.output) == PAGE


def test_a_token_that_cannot_be_read_is_an_error_of_each_row(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be missing for as long as it takes to renew it: the table goes on, and JSON stays JSON."""
    monkeypatch.setenv("THROTTLE_TOKEN_FILE", "/no/token")
    result = sidecar("status", "--json", "--url", "http://127.0.0.1:1")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["url"]) == (1, "http://127.0.0.1:1")
    assert said["error"].startswith("/no/token: cannot be read")


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]"])
def test_another_server_is_not_taken_for_a_sidecar(fake: FakeSidecar, sidecar: Sidecar, content: bytes) -> None:
    fake.content = content
    result = sidecar("status", "--url", fake.url)
    assert result.exit_code == 1
    assert f"{fake.url}: the answer is not a sidecar's" in result.output


def test_nobody_there_is_a_row_beside_those_who_are(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--once", "--url", "http://127.0.0.1:1", "--url", fake.url)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "2 sidecars: 1 answer, 1 does not, none with warnings"
    assert lines[4].split() == ["?", "-", "http://127.0.0.1:1", "no", "answer"]
    assert lines[5].startswith("101 ")
    assert lines[7].startswith("http://127.0.0.1:1: no answer from a sidecar: ")
    assert "Traceback" not in result.output


def test_nobody_there_is_a_line_of_json(fake: FakeSidecar, sidecar: Sidecar) -> None:
    result = sidecar("status", "--json", "--url", fake.url, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    first, second = map(json.loads, result.output.splitlines())
    assert first == PAGE
    assert second.keys() == {"url", "error"}
    assert second["url"] == "http://127.0.0.1:1"


def test_a_url_without_a_scheme_is_an_error(sidecar: Sidecar) -> None:
    result = sidecar("status", "--url", "localhost:9404")
    assert result.exit_code == 1
    assert "expected a URL like http://127.0.0.1:9404" in result.output


def test_watching_goes_on_while_nobody_answers(
    fake: FakeSidecar, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def interrupted(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 3

    monkeypatch.setattr("operating.commands.status.held_interrupts", lambda: nullcontext(interrupted))
    result = sidecar("status", "--watch", "--url", fake.url, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 0
    assert waited == [1.0, 1.0, 1.0]
    assert len(fake.paths) == 3
    assert "no answer from a sidecar" in result.output


def test_watching_ends_with_ctrl_c(fake: FakeSidecar, sidecar: Sidecar) -> None:
    def press() -> None:
        while not fake.paths:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    operator = threading.Thread(target=press, daemon=True)
    operator.start()
    result = sidecar("status", "--watch", "--url", fake.url)
    operator.join()
    assert result.exit_code == 0
    assert fake.paths == ["/throttle"]


def test_json_is_printed_once_and_not_watched(sidecar: Callable[..., Result]) -> None:
    result = sidecar("status", "--json", "--watch", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--json prints each answer once: leave out --watch" in result.output


def test_json_of_a_file_that_is_wrong_says_so(tmp_path: Path, sidecar: Sidecar) -> None:
    result = sidecar("status", "--json", "--fleet", tmp_path / "fleet.toml")
    (said,) = json.loads(result.stdout)["problems"]
    assert (result.exit_code, result.stderr) == (1, f"Error: {said}\n")
    assert said.endswith("fleet.toml: cannot be read: No such file or directory")


def test_where_the_configuration_cannot_be_looked_for_it_is_said(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a directory that another user keeps to themselves: it may name a sidecar that nobody then asks."""
    monkeypatch.setattr("operating.commands.status.DEFAULT_CONFIG", Path("p" * 300))
    result = sidecar("status", "--once")
    assert (result.exit_code, result.output) == (1, f"Error: {'p' * 300}: cannot be read: File name too long\n")


def test_without_a_configuration_the_only_sidecar_of_this_host_is_asked(
    sidecar: Sidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod proxy.toml has the pod's name, and port 9404 may be another program's, as Strimzi's is."""
    nobody = "http://127.0.0.1:1"
    monkeypatch.setattr("operating.commands.status.DEFAULT_URL", nobody)
    monkeypatch.setattr(members, "DEFAULT_BASE", tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = [json.loads(sidecar("status", "--json").output)["url"]]
    for broker in ("101", "102"):
        (tmp_path / broker).mkdir()
        (tmp_path / broker / "control.sock").touch()
        asked.append(json.loads(sidecar("status", "--json").output)["url"])
    assert asked == [nobody, f"unix:{tmp_path}/101", nobody]


def test_whether_a_move_is_done_is_not_asked_of_one_sidecar(sidecar: Sidecar) -> None:
    """One that has just started knows of no lag, and a replica that nobody has asked for in 30 seconds has none."""
    examples = sidecar("status", "--help").output.partition("Examples:")[2]
    assert "lag_messages == 0" not in examples
    assert "throttle-sidecar verify move.json --bootstrap kafka-101:9092" in examples
