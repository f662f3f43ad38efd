"""``set --all-or-none``: where it is undone again, and where it may be in force still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operating.commands import set as set_command
from operating.fleet.members import Reply
from proxy.control.override_routes import PATH
from proxy.errors import ConfigurationError

from ..fleet.sidecars import RATE, fleet_file
from .test_overrides import MIB, call, sidecars

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from proxy.control.override_keeper import Applied
    from proxy.quotas.override import Selector

    from ..fleet.sidecars import OneSidecar

__all__ = ["sidecars"]


def test_all_or_none_takes_it_back(tmp_path: Path, sidecars: dict[int, OneSidecar]) -> None:
    urls = {broker: each.url for broker, each in sidecars.items()} | {104: "http://127.0.0.1:1"}
    done = call("set", RATE, 1, "--fleet", fleet_file(tmp_path, urls), "--all-or-none")
    said = "undone again at brokers 101-103; broker 104: no answer, it may be in force there"
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, said)
    assert [each.rate for each in sidecars.values()] == [50 * MIB] * 3


def test_what_is_not_undone_for_good_is_not_said_to_be(
    tmp_path: Path, sidecars: dict[int, OneSidecar], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals, and what a full disk does not take, were "undone again where it was made"."""
    full, late, refusing = (sidecars[broker].keeper for broker in (101, 102, 103))
    undo_at_full, undo_late = full.undo, late.undo

    async def no_room(*_: object) -> None:
        raise ConfigurationError("No space left on device")

    async def on_a_full_disk(selector: Selector) -> Applied:
        monkeypatch.setattr(full, "_on_disk", no_room)
        return await undo_at_full(selector)

    async def not_in_force(selector: Selector) -> Applied:
        return (await undo_late(selector))._replace(in_force=False)

    async def refuse(_: Selector) -> Applied:
        raise ConfigurationError("not now")

    for keeper, undo in ((full, on_a_full_disk), (late, not_in_force), (refusing, refuse)):
        monkeypatch.setattr(keeper, "undo", undo)
    urls = {broker: each.url for broker, each in sidecars.items()} | {104: "http://127.0.0.1:1"}
    done = call("set", RATE, 1, "--fleet", fleet_file(tmp_path, urls), "--all-or-none")
    assert (done.exit_code, done.output.splitlines()[-1].split("; ")) == (
        1,
        [
            "not undone everywhere",
            "broker 101: a restart would bring it back until its undo is stored: No space left on device",
            "broker 102: its undo is not in force yet",
            "broker 103: refused, it may be in force there: not now",
            "broker 104: no answer, it may be in force there",
        ],
    )


def test_a_member_that_never_had_it_is_no_member_where_it_is_left(
    tmp_path: Path, sidecars: dict[int, OneSidecar], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer to the change was lost, and so was the change."""
    fleet = fleet_file(tmp_path, {broker: each.url for broker, each in sidecars.items()})
    sent = set_command.post
    monkeypatch.setattr(
        set_command,
        "post",
        lambda member, page, body: (
            Reply(member, error="no answer") if (member.broker, page) == (102, PATH) else sent(member, page, body)
        ),
    )
    done = call("set", RATE, 1, "--fleet", fleet, "--all-or-none")
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, "undone again where it was made")
    assert [each.rate for each in sidecars.values()] == [50 * MIB] * 3


def test_what_a_sidecar_of_another_broker_took_back_is_not_said_to_be_there(
    tmp_path: Path, sidecars: dict[int, OneSidecar]
) -> None:
    fleet = fleet_file(tmp_path, {101: sidecars[101].url, 104: sidecars[102].url})
    done = call("set", RATE, 1, "--fleet", fleet, "--all-or-none")
    assert (done.exit_code, [each.rate for each in sidecars.values()]) == (1, [50 * MIB] * 3)
    assert done.output.splitlines()[-1] == "undone again where it was made"
