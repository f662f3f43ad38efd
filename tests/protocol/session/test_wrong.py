"""What went wrong on real brokers when sessions were altered without care, and that it does not here.

Each test shows the harm first, done by a relay that does not know better, then the same with a translator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from protocol.session.requests import Choice, PartitionKey, SessionRequest
from tests.protocol.session.world import World

if TYPE_CHECKING:
    from collections.abc import Set

    from lab.embedded.session_values import Ask, SessionResponse

A, B = ("a", 0), ("b", 0)
BACKLOG = 1000
W = TypeVar("W", bound=World)


class Careless(World):
    """No sidecar: `omitted` is taken out of requests as if every request said everything."""

    def __init__(self, *, forgets: bool) -> None:
        super().__init__(sidecars=0)
        self.forgets = forgets
        self.omitted: Set[PartitionKey] = set()

    def _through(self, place: int, request: SessionRequest[Ask]) -> SessionResponse | None:
        if not request.is_full:
            listed = {key: ask for key, ask in request.listed.items() if key not in self.omitted}
            forgotten = [*request.forgotten, *(self.omitted if self.forgets else ())]
            request = request._replace(listed=listed, forgotten=forgotten)
        return super()._through(place, request)


def begun(world: W) -> W:
    """Both partitions are behind, and a session is open."""
    for key in (A, B):
        world.add(key, records=BACKLOG)
    world.fetch()
    return world


def offsets(world: World) -> list[int]:
    return [log.end for log in world.follower.wanted.values()]


def test_wrong_1_an_entry_dropped_instead_of_forgotten_is_fetched_at_its_old_offset() -> None:
    careless = begun(Careless(forgets=False))
    careless.omitted = {A}
    careless.fetch()
    assert careless.follower.failed == [A]  # UnexpectedAppendOffsetException: never fetched again

    world = begun(World())
    world.sidecars[0].choice = Choice({A})
    arrived = offsets(world)[0]
    for _ in range(3):
        world.fetch()
    assert offsets(world)[0] == arrived
    world.sidecars[0].choice = Choice()
    for _ in range(10):
        world.fetch()
    assert world.follower.failed == []
    assert offsets(world) == [BACKLOG, BACKLOG]


def test_wrong_2_a_session_that_is_emptied_voids_the_throttle() -> None:
    careless = begun(Careless(forgets=True))
    careless.omitted = {A, B}
    for _ in range(20):
        careless.fetch()
    assert careless.leader.cache.emptied == 10  # each time the follower begins again, with data
    assert offsets(careless) == [BACKLOG, BACKLOG]

    world = begun(World())
    world.sidecars[0].choice = Choice({A, B})
    before = offsets(world)
    for _ in range(20):
        world.fetch()
    assert offsets(world) == before
    assert world.leader.cache.emptied == 0
    assert world.follower.handler.errors == []


def test_wrong_3_a_session_that_is_handed_back_leaves_partitions_behind_without_a_word() -> None:
    careless = begun(World())
    careless.sidecars[0].choice = Choice({A})
    careless.fetch()
    careless.sidecars = []  # no throttle any more: byte for byte, and the epochs happen to be equal
    for _ in range(20):
        careless.fetch()
    assert offsets(careless)[0] < BACKLOG
    assert (careless.follower.handler.errors, careless.follower.handler.complaints) == ([], [])

    world = begun(World())
    world.sidecars[0].choice = Choice({A})
    world.fetch()
    world.sidecars[0].is_idle = True
    for _ in range(10):
        world.fetch()
    assert offsets(world) == [BACKLOG, BACKLOG]
    assert world.follower.handler.errors == []


def test_wrong_3_by_a_sidecar_that_restarts_without_a_throttle() -> None:
    """Between two requests: the new one cannot know what the old one had omitted."""
    world = begun(World())
    world.sidecars[0].choice = Choice({A})
    world.fetch()
    world.sidecars[0].restart()
    world.sidecars[0].is_idle = True
    for _ in range(11):
        world.fetch()
    assert world.follower.handler.errors == [70]
    assert offsets(world) == [BACKLOG, BACKLOG]


def test_wrong_3_by_a_sidecar_that_restarts_and_understands_nothing() -> None:
    """The old process could read what the new one cannot."""
    world = begun(World())
    world.sidecars[0].choice = Choice({A})
    world.fetch()
    world.sidecars[0].restart()
    world.sidecars[0].is_blind = True
    for _ in range(11):
        world.fetch()
    assert offsets(world) == [BACKLOG, BACKLOG]
