"""``history``: who changed this? At one sidecar, at a fleet, and where none runs."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from operating.commands.history import listing
from operating.fleet.members import Member, Reply
from proxy.history.files import files_in
from proxy.history.records import Record, encode

from ..another_user import closed, open_folder
from ..fleet.sidecars import QUOTAS, RATE, fleet_file, running
from .test_overrides import PROXY, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..fleet.sidecars import OneSidecar

NOW = datetime(2026, 12, 1, 3, 12, 9, tzinfo=UTC)
EFFECT = {
    "place": "clients.etl",
    "key": "producer_byte_rate",
    "before": "20.00 MiB/s (20971520 B/s)",
    "before_layer": "clients.default",
    "after": "5.00 MiB/s (5242880 B/s)",
    "after_layer": "override 7f3a12: clients.etl",
}


@pytest.fixture
def sidecars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, OneSidecar]]:
    monkeypatch.setenv("THROTTLE_TOKEN_FILE", str(tmp_path / "token"))
    with running(tmp_path, [101, 102, 103]) as found:
        yield found


def record(event: str, *, seconds: float = 0, **more: Any) -> dict[str, Any]:
    return {"time": (NOW + timedelta(seconds=seconds)).isoformat(), "event": event, **more}


def lines(*records: dict[str, Any], broker: int = 101) -> list[str]:
    return listing([reply(broker, *records)], NOW)


def reply(broker: int, *records: dict[str, Any], **more: Any) -> Reply:
    return Reply(Member("unix:/x", broker), {"broker": broker, "records": list(records), **more})


HIDDEN = EFFECT | {"before": EFFECT["after"], "file": "9 MiB/s"}
RAISED = record("condition_raised", name="bypassed", severity="critical", role="leader", text="x")
PLACE = "    clients.etl: producer_byte_rate"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            record("override_set", id="7f3a12", label="move", by="ops@jump", reason="too slow", effects=[EFFECT]),
            [
                "override 7f3a12 move set by ops@jump: too slow",
                f"{PLACE}  20.00 MiB/s -> 5.00 MiB/s  (override 7f3a12)",
            ],
        ),
        (record("override_ended", id="7f3a12", until="2026-12-01T03:12:09Z"), ["override 7f3a12 ended"]),
        (
            record("override_undone", id="7f3a12", by="eve", effects=[EFFECT | {"before": EFFECT["after"]}], more=7),
            ["override 7f3a12 undone by eve", f"{PLACE}  stays 5.00 MiB/s  (override 7f3a12)", "    and 7 more"],
        ),
        (
            record("quotas_changed", text="quotas.toml ab12", effects=[HIDDEN]),
            [
                "quotas.toml ab12 edited",
                f"{PLACE}  stays 5.00 MiB/s  (override 7f3a12; 9 MiB/s in quotas.toml is hidden)",
            ],
        ),
        (record("quotas_changed", text="q", reason="start"), ["q edited while no sidecar ran"]),
        (record("quotas_ended", text="q"), ["q: sections with `until` ended"]),
        (RAISED, ["raised bypassed (critical, leader): x"]),
        (record("started", text="version 1"), ["started: version 1"]),
        (record("stopped"), ["stopped"]),
        (record("of_another_version", text="y"), ["of_another_version: y"]),
    ],
)
def test_each_record_tells_time_broker_who_and_what(told: dict[str, Any], expected: list[str]) -> None:
    first, *rest = expected
    assert lines(told) == [f"2026-12-01 03:12:09 UTC  broker 101  {first}", *rest]


def test_names_are_data_and_no_commands_for_a_terminal() -> None:
    evil = "x\n2026-12-01 03:00:00 UTC  broker 101  undone\x1b[2J\u202e"
    found = lines(record("override_set", id="7f3a12", by=evil, label=evil, effects=[EFFECT | {"after": evil}]))
    assert len(found) == 2
    assert all(line.isprintable() for line in found)


def test_the_same_change_at_a_fleet_is_told_once_and_an_own_one_apart() -> None:
    same = {"id": "7f3a12", "effects": [EFFECT]}
    replies = [
        reply(broker, record("override_set", seconds=broker - 101, by=f"ops (10.0.0.1:{broker})", **same))
        for broker in (101, 102, 103)
    ]
    replies.append(reply(104, record("override_set", seconds=900, by="ops", **same)))
    replies.append(reply(105, record("stopped"), record("stopped", seconds=1)))
    assert [line.split("  ")[1] for line in listing(replies, NOW) if not line.startswith(" ")] == [
        *("brokers 101-103", "broker 105", "broker 105", "broker 104"),
    ]


def test_what_is_missing_is_said() -> None:
    told = listing([reply(101, left_out=3, unreadable=1, not_written="disk full", problems=["x: cannot be read"])], NOW)
    assert told == [
        "broker 101: no change is known since 2026-12-01 03:12:09 UTC",
        "broker 101: 3 older records are left out: ask from a later --since",
        "broker 101: 1 lines were cut by a crash or a full disk",
        "broker 101: newer records are not on disk: disk full",
        "broker 101: x: cannot be read",
    ]


def test_who_set_and_undid_it_is_told_by_each_member(tmp_path: Path, sidecars: dict[int, OneSidecar]) -> None:
    fleet = fleet_file(tmp_path, {broker: each.url for broker, each in sidecars.items()})
    call("set", RATE, "20MiB/s", "--fleet", fleet, "--label", "move-a", "--reason", "disk 3")
    call("undo", "--label", "move-a", "--url", sidecars[101].url)
    sidecars[102].quotas.write_text(QUOTAS.replace("50MiB/s", "30MiB/s"))
    done = call("history", "--since", "5m", "--fleet", fleet)
    assert done.exit_code == 0, done.output
    shown = done.output
    assert "brokers 101-103  override " in shown
    assert "move-a set by " in shown
    assert ": disk 3" in shown
    assert f"    {RATE}  50.00 MiB/s -> 20.00 MiB/s  (override " in shown
    assert f"    {RATE}  20.00 MiB/s -> 50.00 MiB/s  (brokers.default)" in shown
    found = json.loads(call("history", "--fleet", fleet, "--json").output)
    assert [each["broker"] for each in found["sidecars"]] == [101, 102, 103]
    assert [each["event"] for each in found["sidecars"][0]["records"]] == ["override_set", "override_undone"]
    assert found["sidecars"][0]["records"][0]["effects"][0]["before_layer"] == "brokers.default"


def test_a_member_that_does_not_answer_is_told_and_the_others_are_shown(
    tmp_path: Path, sidecars: dict[int, OneSidecar]
) -> None:
    call("set", RATE, "20MiB/s", "--url", sidecars[101].url)
    fleet = fleet_file(tmp_path, {101: sidecars[101].url, 104: "http://127.0.0.1:1"})
    done = call("history", "--fleet", fleet)
    assert (done.exit_code, "broker 101  override " in done.output, "broker 104: " in done.output) == (1, True, True)


def test_without_a_token_nobody_reads_names(sidecars: dict[int, OneSidecar], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THROTTLE_TOKEN_FILE")
    done = call("history", "--url", sidecars[101].url)
    assert (done.exit_code, "refused" in done.output) == (1, True)


@pytest.mark.parametrize("since", ["yesterday", "-2h", "", "2026-12-01", "0h", "9" * 400 + "d"])
def test_a_wrong_since_names_the_option(since: str, sidecars: dict[int, OneSidecar]) -> None:
    done = call("history", f"--since={since}", "--url", sidecars[101].url)
    assert (done.exit_code, "--since: expected" in done.output) == (1, True), done.output


def test_where_no_sidecar_runs_its_files_are_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proxy.toml").write_text(PROXY + f'[control]\ndirectory = "{tmp_path}/c"\n')
    monkeypatch.chdir(tmp_path)
    nothing = call("history")
    assert (nothing.exit_code, "nothing has changed" in nothing.output) == (0, True), nothing.output
    files_in(tmp_path, 101)[0].append(encode([Record(time=datetime.now(UTC), event="stopped")]), NOW)
    done = call("history")
    first, second = done.output.splitlines()
    assert (done.exit_code, first) == (0, f"the sidecar does not run: read from {tmp_path}")
    assert second.endswith("broker 101  stopped")
    assert json.loads(call("history", "--json").output)["sidecars"][0]["read_from"] == str(tmp_path)
    files_in(tmp_path, 101)[1].path.mkdir()
    broken = call("history")
    assert (broken.exit_code, "conditions-101.jsonl: cannot be read: expected a file" in broken.output) == (1, True)


def test_files_are_no_proof_that_a_sidecar_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had lost its control.sock, or hung, and was said not to run; what it has not written yet was left out."""
    with socket.create_server(("127.0.0.1", 0)) as pages:
        address = f"127.0.0.1:{pages.getsockname()[1]}"
        (tmp_path / "proxy.toml").write_text(
            PROXY.replace('[http]\nlisten = "127.0.0.1:0"', f'[http]\nlisten = "{address}"')
        )
        monkeypatch.chdir(tmp_path)
        done, as_json = call("history"), call("history", "--json")
    head, nothing, missing = done.output.splitlines()
    assert (done.exit_code, as_json.exit_code) == (1, 1)
    assert head.startswith("the sidecar does not answer: unix:")
    assert head.endswith(f"no answer from a sidecar: No such file or directory; read from {tmp_path}")
    assert "broker 101: no change is known since " in nothing
    assert (
        missing == f"broker 101: newer records may be missing: a sidecar may run: http://{address} accepts connections"
    )
    assert json.loads(as_json.output)["sidecars"][0]["error"].endswith("No such file or directory")


def test_a_user_who_may_neither_ask_nor_read_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a directory that they may not enter it was said that nothing has changed."""
    with open_folder() as folder:
        (folder / "proxy.toml").write_text(
            f'{PROXY}[control]\ndirectory = "private/control"\n[quotas]\nstate = "private/state"\n'
        )
        (folder / "private").mkdir()
        monkeypatch.chdir(folder)
        with closed(folder / "private"):
            done = call("history")
        assert (done.exit_code, "nothing has changed" in done.output) == (1, False), done.output
        assert done.output.startswith("the sidecar does not answer: unix:private/control: ")
        assert f"{folder}/private/history-101.jsonl: cannot be read: Permission denied" in done.output
