"""Whether a throttle that was removed is gone for good, asked of real overrides of two sidecars."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from operating.commands.verify import status_of
from operating.fleet.members import Member, at_all, author, post
from operating.moves import inspection
from operating.moves.cluster import Cluster
from operating.moves.inspection import Places, look, remove
from operating.moves.verification import verify_json, verify_table
from proxy.control import override_keeper
from proxy.control.override_routes import PATH
from reassignment import Document, TopicPartition
from tests.operating.fleet.sidecars import RATE, TOKEN, running
from tests.operating.moves.fake_client import FakeClient
from tests.operating.moves.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from operating.moves.verification import Verification
    from tests.operating.fleet.sidecars import OneSidecar
    from tests.proxy.fake_sidecar import FakeSidecar

MOVE = Document({TopicPartition("orders", 0): (101, 104)})
LABEL = "move-a"


class Bench:
    """A move that is in place, throttled at both sidecars, and a disk that they share."""

    def __init__(self, sidecars: dict[int, OneSidecar]) -> None:
        self.sidecars, self.is_full, self.now = sidecars, False, 0.0
        self.cluster = Cluster(FakeClient({("orders", 0): (101, [101, 104], [101, 104])}))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self.members = tuple(Member(each.url, broker, headers) for broker, each in sidecars.items())
        self.set(LABEL)

    def set(self, label: str) -> None:
        body = {"label": label, "by": author(), "changes": [{"place": "broker", "key": RATE, "value": "5MiB/s"}]}
        assert not [each for each in at_all(self.members, lambda member: post(member, PATH, body)) if each.error]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def places(self, *brokers: int) -> Places:
        return Places(tuple(each for each in self.members if each.broker in (brokers or self.sidecars)), LABEL)

    def remove(self, places: Places) -> tuple[list[str], Verification]:
        return remove(self.cluster, MOVE, places, look(self.cluster, MOVE, places), force=False)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running(tmp_path, [101, 104]) as sidecars:
        made, quick = Bench(sidecars), os.fsync

        def fsync(descriptor: int) -> None:
            if made.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            quick(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(inspection, "time", SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now))
        yield made


def test_what_a_restart_would_bring_back_is_not_clean(bench: Bench) -> None:
    bench.is_full = True
    removed, found = bench.remove(bench.places())
    assert (len(removed), found.overrides, found.clean) == (2, (), False)
    assert [line.partition(",")[0] for line in found.unsettled] == [
        "broker 101: a restart may bring back what was undone", "broker 104: a restart may bring back what was undone"
    ]  # fmt: skip
    assert all("No space left on device" in line for line in found.unsettled)
    assert verify_json(found, removed=removed)["unsettled"] == found.unsettled


def test_it_stays_so_until_it_is_stored(bench: Bench) -> None:
    """The next command found no override any more, and said that nothing was left."""
    bench.is_full = True
    bench.remove(bench.places())
    assert (bench.remove(bench.places())[0], look(bench.cluster, MOVE, bench.places()).clean) == ([], False)
    bench.is_full = False
    bench.set("another")
    assert look(bench.cluster, MOVE, bench.places()).clean


def test_of_brokers_whose_sidecars_were_not_asked_nothing_is_said_to_be_gone(bench: Bench) -> None:
    removed, found = bench.remove(bench.places(101))
    assert (len(removed), found.done, found.clean, found.unasked) == (1, True, False, (104,))
    assert [each.label for each in bench.sidecars[104].keeper.current] == [LABEL]
    assert shown(verify_table(found, removed=removed))[-2:] == [
        "not known: broker 104: no sidecar that was asked answers for it; overrides of the move may be left there",
        "done, as far as sidecars were asked",
    ]
    assert status_of(found) == 3
    assert verify_json(found, removed=removed)["unasked_brokers"] == (104,)


def test_present_replicas_are_of_the_move_as_well(bench: Bench) -> None:
    found = look(bench.cluster, Document({TopicPartition("orders", 0): (101, 103)}), bench.places(101))
    assert (found.unasked, found.clean) == ((103, 104), False)
    assert found.unknown == ("brokers 103-104: no sidecar that was asked answers for them",)


def test_a_member_that_does_not_answer_was_asked(bench: Bench) -> None:
    silent = Member("http://127.0.0.1:1", 104)
    found = look(bench.cluster, MOVE, Places((bench.members[0], silent), LABEL))
    assert (found.unasked, len(found.silent_sidecars)) == ((), 1)


def test_where_no_sidecar_is_to_be_asked_that_is_noted(bench: Bench) -> None:
    found = look(bench.cluster, MOVE, Places((), LABEL))
    assert (found.unasked, found.clean, [note[:20] for note in found.notes]) == ((), True, ["no sidecar was asked"])


def test_what_is_not_in_force_yet_is_not_clean(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_keeper, "IN_FORCE_SECONDS", 0.01)
    monkeypatch.setattr(bench.sidecars[104].keeper, "_in_force", lambda: False)
    removed, found = bench.remove(bench.places())
    assert (len(removed), found.clean) == (2, False)
    assert found.unsettled == ("broker 104: its last change is not in force yet",)


def test_the_answer_to_the_undo_counts_where_the_page_does_not_say_it(bench: Bench, fake: FakeSidecar) -> None:
    """As of a sidecar of an older release."""
    fake.content = b'{"broker": 104, "overrides": []}'
    said = {"broker 104": {"not_stored": "No space left on device", "in_force": False}}
    found = look(bench.cluster, MOVE, Places((Member(fake.url, 104),), LABEL), said)
    assert found.unsettled == (
        "broker 104: a restart may bring back what was undone, until this is stored: No space left on device",
        "broker 104: its last change is not in force yet",
    )
