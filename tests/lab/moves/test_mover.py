"""What a move leaves of itself on the cluster, whatever happened to it; on a cluster that only takes notes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from lab.errors import LabError
from lab.moves import mover
from lab.moves.move import How, Move
from lab.moves.mover import Mover

from ..fake_broker import FakeBroker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cluster.cluster import Cluster
    from lab.wire.records import Shape

ADDRESS = "127.88.9.1"
COLD_SECONDS = 0.3


@dataclass
class Notes:
    """The parts of a cluster that a move needs before it begins, and what is left on it."""

    topics: set[str] = field(default_factory=set)
    throttled: bool = False
    quota_windows_clear_at: float = 0.0
    brokers: dict[int, None] = field(default_factory=lambda: {101: None, 102: None})

    @property
    def admin(self) -> Notes:
        return self

    @property
    def addresses(self) -> Notes:
        return self

    def direct(self, _: int) -> str:
        return ADDRESS

    def shape(self, shape: Shape) -> Shape:
        return shape

    def create_topic(self, topic: str, *_: object, **__: object) -> None:
        self.topics.add(topic)

    def delete_topic(self, topic: str) -> None:
        if topic not in self.topics:
            raise LabError(f"there is no topic {topic}")
        self.topics.remove(topic)


class Failing:
    """Does nothing, or fails, as it is told; notes when."""

    def __init__(self) -> None:
        self.with_: Exception | None = None
        self.called_at: list[float] = []

    def __call__(self, *_: object, **__: object) -> None:
        self.called_at.append(time.monotonic())
        if self.with_ is not None:
            raise self.with_

    async def later(self, *_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        self()


@dataclass
class Steps:
    fill: Failing = field(default_factory=Failing)
    throttle: Failing = field(default_factory=Failing)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> Steps:
    """Nothing is filled and throttled; brokers are warm at once."""
    made = Steps()

    async def throttle(*_: object, **__: object) -> None:
        notes.throttled = True
        await made.throttle.later()

    async def unthrottle(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        notes.throttled = False

    monkeypatch.setattr(mover, "fill", made.fill)
    monkeypatch.setattr(mover, "throttle_natively", throttle)
    monkeypatch.setattr(mover, "unthrottle_natively", unthrottle)
    monkeypatch.setattr(mover, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(mover, "COLD_SECONDS", COLD_SECONDS)
    return made


def moving(notes: Notes) -> Mover:
    return Mover(cast("Cluster", notes))


@pytest.mark.parametrize(
    ("how", "fails"), [("unthrottled", "fill"), ("native cold", "throttle"), ("native warm", "throttle")]
)
async def test_a_move_that_cannot_be_prepared_leaves_nothing(how: How, fails: str, notes: Notes, steps: Steps) -> None:
    getattr(steps, fails).with_ = LabError("no broker took it")
    with pytest.raises(LabError, match="no broker took it"):
        await moving(notes).run(Move(how))
    assert notes.topics == set()
    assert not notes.throttled


async def test_a_move_that_is_stopped_while_it_is_prepared_leaves_nothing(
    notes: Notes, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "WARM_SECONDS", 60.0)
    with trio.move_on_after(0.2) as stopped:
        await moving(notes).run(Move("native warm"))
    assert stopped.cancelled_caught
    assert notes.topics == set()


async def test_whoever_moves_next_waits_until_the_window_of_the_move_before_is_empty(
    notes: Notes, steps: Steps
) -> None:
    """Tests have a mover of their own for each move of a cluster that they share."""
    steps.throttle.with_ = LabError("far enough")
    for _ in range(2):
        with pytest.raises(LabError, match="far enough"):
            await moving(notes).run(Move("native cold"))
    first, second = steps.throttle.called_at
    assert second - first >= COLD_SECONDS - 0.001  # the mover sleeps by another clock than this one


async def test_what_was_refused_before_the_move_is_not_counted(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> None:
    monkeypatch.setattr(mover, "LIVE_WARM_UP_SECONDS", 2.0)
    live: Callable[..., Any] = moving(notes)._live_producer
    with FakeBroker(ADDRESS, errors=(6, 6)), trio.fail_after(30):
        async with live(Move("unthrottled", live=True), "orders") as producer:
            while not producer.acknowledged:  # noqa: ASYNC110  # the producer has no use for an event
                await trio.sleep(0.001)
    assert producer.errors == []
