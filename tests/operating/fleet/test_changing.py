"""Everywhere or nowhere: what is worked out, written, and put back."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from operating.editing.editing import Assign
from operating.editing.quota_change import Whose, asks
from operating.fleet.changing import (
    PartlyWrittenError,
    Place,
    PlacesRefusedError,
    Planned,
    asks_at,
    places_of,
    plan,
    worker,
    write,
)
from operating.fleet.file import ConfigMapKey, Fleet, Member
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RATE = "leader.replication.throttled.rate"
BEFORE = f'[brokers.default]\n{RATE} = "1MiB/s"\n'.encode()


@dataclass
class Shelf:
    """A store in memory. `refuses`: how many of the next replacements."""

    name: str
    content: bytes = BEFORE
    refuses: int = 0
    writable: bool = True
    written: list[bytes] = field(default_factory=list)
    then_changed_by_others: bool = False

    def read(self) -> bytes:
        return self.content

    def check_writable(self) -> None:
        if not self.writable:
            raise ConfigurationError(f"{self.name}: read-only")

    def replace(self, before: bytes, after: bytes) -> None:
        if self.refuses or self.content != before:
            self.refuses -= 1
            raise ConfigurationError(f"{self.name}: refused")
        self.content = after
        self.written.append(after)
        if self.then_changed_by_others:
            self.content = b"# another's\n"


def place(name: str, *brokers: int, **options: object) -> Place:
    return Place(Shelf(name, **options), tuple(Member(broker, f"http://{broker}") for broker in brokers))


def planned(*places: Place, value: str = "5MiB/s", brokers: tuple[str, ...] = ()) -> list[Planned[Any]]:
    return plan(places, worker(asks(RATE, Assign(value), Whose(tuple(brokers))), NOW, later=False))


def contents(*places: Place) -> list[bytes]:
    return [each.store.read() for each in places]


def test_all_are_written() -> None:
    places = place("a", 1), place("b", 2, 3)
    found = planned(*places)
    assert contents(*places) == [BEFORE, BEFORE]
    write(found)
    assert contents(*places) == [BEFORE.replace(b"1MiB", b"5MiB")] * 2
    assert [effect.broker for effect in found[1].change.effects] == [2, 3]


class MetShelf(Shelf):
    """Is replaced when all that share `meeting` are about to be."""

    meeting = threading.Barrier(4)

    def replace(self, before: bytes, after: bytes) -> None:
        self.meeting.wait(10)
        super().replace(before, after)


def test_all_are_written_at_once_so_that_the_first_waits_for_no_other() -> None:
    places = [Place(MetShelf(str(broker)), (Member(broker, f"http://{broker}"),)) for broker in range(4)]
    write(planned(*places))
    assert contents(*places) == [BEFORE.replace(b"1MiB", b"5MiB")] * 4


def test_a_value_of_a_broker_is_for_the_place_that_it_reads() -> None:
    asked = [*asks(RATE, Assign("1MiB/s"), Whose(("1", "2"))), *asks("mode.enforce", Assign(value=False), Whose())]
    names = [
        [ask.place.section for ask in asks_at(each, asked)] for each in (place("a", 1), place("b", 2), place("c", 3))
    ]
    assert names == [[("brokers", "1"), ("mode",)], [("brokers", "2"), ("mode",)], [("mode",)]]


def test_if_one_place_will_not_do_none_is_written() -> None:
    places = place("a", 1), place("b", 2, content=b"[nonsense]\n"), place("c", 3)
    with pytest.raises(PlacesRefusedError) as refused:
        planned(*places)
    assert [where.store.name for where, _ in refused.value.refused] == ["b"]
    assert refused.value.problems[-1] == "nothing is written, at none of 3 places"


def test_one_that_cannot_be_written_is_known_before_any_is() -> None:
    places = place("a", 1), place("b", 2, writable=False)
    with pytest.raises(ConfigurationError, match="b: read-only"):
        write(planned(*places))
    assert contents(*places) == [BEFORE, BEFORE]


def test_if_one_cannot_be_written_after_all_the_others_are_put_back() -> None:
    places = place("a", 1), place("b", 2), place("c", 3, refuses=1)
    with pytest.raises(ConfigurationError) as refused:
        write(planned(*places))
    assert contents(*places) == [BEFORE] * 3
    assert refused.value.problems == ("c: refused", "2 that had been written are put back")


def test_what_others_changed_meanwhile_is_not_put_back_and_named() -> None:
    places = place("a", 1, then_changed_by_others=True), place("b", 2), place("c", 3, refuses=1)
    with pytest.raises(PartlyWrittenError) as refused:
        write(planned(*places))
    assert contents(*places) == [b"# another's\n", BEFORE, BEFORE]
    assert [each.place.store.name for each in refused.value.written] == ["a"]
    assert refused.value.problems == ("c: refused", "could not be put back, the change stays there: a: refused")


def test_a_place_that_says_so_already_is_not_written() -> None:
    places = place("a", 1, content=BEFORE.replace(b"1MiB", b"5MiB"), writable=False), place("b", 2)
    write(planned(*places))
    assert isinstance(places[0].store, Shelf)
    assert places[0].store.written == []


def test_an_interrupt_puts_back_what_was_written() -> None:
    class Interrupted(Shelf):
        def replace(self, before: bytes, after: bytes) -> None:
            raise KeyboardInterrupt

    first = place("a", 1)
    second = replace(place("b", 2), store=Interrupted("b"))
    with pytest.raises(KeyboardInterrupt):
        write(planned(first, second))
    assert contents(first) == [BEFORE]


def test_a_store_that_several_share_is_one_place(tmp_path: Path) -> None:
    (tmp_path / "q.toml").touch()
    (tmp_path / "link.toml").symlink_to("q.toml")
    shared = ConfigMapKey("n", "m", "k")
    fleet = Fleet(
        tmp_path / "fleet.toml",
        (
            Member(1, "http://1", tmp_path / "q.toml"),
            Member(2, "http://2", tmp_path / "link.toml"),
            Member(3, "http://3", configmap=shared),
            Member(4, "http://4", configmap=shared),
            Member(5, "http://5"),
        ),
    )
    assert [each.brokers for each in places_of(fleet, {1, 3})] == [(1, 2), (3, 4)]
    assert [each.brokers for each in places_of(fleet, {4})] == [(3, 4)]
    with pytest.raises(ConfigurationError, match=r"sidecars\[4\]: broker 5 has neither quotas nor configmap"):
        places_of(fleet)
    with pytest.raises(ConfigurationError, match="has no broker 9: expected one of 1, 2, 3, 4, 5"):
        places_of(fleet, {9})
