"""The leader's fetch sessions do what Kafka's FetchSessionTest says of them."""

from __future__ import annotations

import itertools

import pytest

from lab.embedded.session_cache import FetchSessionCache, epoch_after
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.session.requests import PartitionKey, SessionRequest

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def cache(*, slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(itertools.count(1).__next__, slots=slots)


def ask(
    leader: FetchSessionCache,
    session: tuple[int, int],
    listed: dict[PartitionKey, int] | None = None,
    reads: dict[PartitionKey, Read] | None = None,
    *,
    forgotten: tuple[PartitionKey, ...] = (),
    version: int = 11,
    now: float = 0.0,
    is_follower: bool = True,
) -> SessionResponse:
    """What is not in `reads` is idle at high watermark 10."""
    entries = {key: Ask(offset) for key, offset in (listed or {}).items()}
    context = leader.context(SessionRequest(version, entries, *session, forgotten), now=now, is_follower=is_follower)
    return context.respond({key: (reads or {}).get(key, Read(10)) for key in context.partitions})


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1), (-1, -1)])
def test_epochs(epoch: int, after: int) -> None:
    assert epoch_after(epoch) == after


def test_a_full_request_is_answered_in_full_and_opens_a_session() -> None:
    leader = cache()
    assert ask(leader, (0, 0), {A: 0, B: 0}) == SessionResponse(1, {A: Read(10), B: Read(10)})
    assert leader.sessions[1].epoch == 1


@pytest.mark.parametrize("session", [(0, -1), (1, -1)])
def test_a_final_request_opens_none_and_closes_the_one_it_names(session: tuple[int, int]) -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    assert ask(leader, session, {A: 0}) == SessionResponse(0, {A: Read(10)})
    assert (1 in leader.sessions) is (session[0] == 0)


def test_a_session_is_closed_and_another_opened() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    assert ask(leader, (1, 0), {A: 0}).session_id == 2
    assert set(leader.sessions) == {2}


@pytest.mark.parametrize(
    ("read", "told"),
    [
        pytest.param(Read(10), False, id="nothing new"),
        pytest.param(Read(10, records_size=5), True, id="records"),
        pytest.param(Read(11), True, id="high watermark"),
        pytest.param(Read(10, log_start_offset=3), True, id="log start offset"),
        pytest.param(Read(10, error_code=6), True, id="error"),
        pytest.param(Read(10, is_diverging=True), True, id="diverging epoch"),
    ],
)
def test_an_incremental_response_tells_what_is_new(read: Read, told: bool) -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0, B: 0})
    assert ask(leader, (1, 1), reads={A: read}) == SessionResponse(1, {A: read} if told else {})


def test_it_is_told_once_but_after_an_error_again() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    told = [ask(leader, (1, epoch), reads={A: read}).entries for epoch, read in enumerate(
        (Read(11), Read(11), Read(11, error_code=6), Read(11), Read(11)), start=1)]  # fmt: skip
    assert [A in entries for entries in told] == [True, False, True, True, False]


def test_what_is_not_listed_is_read_with_what_was_asked_last() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0, B: 7})
    context = leader.context(SessionRequest(11, {A: Ask(5), C: Ask(1)}, 1, 1), now=0.0)
    assert context.partitions == {A: Ask(5), B: Ask(7), C: Ask(1)}


def test_a_partition_with_records_goes_to_the_end_one_without_stays() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0, B: 0, C: 0})
    ask(leader, (1, 1), reads={A: Read(10, records_size=5), B: Read(11)})
    assert list(leader.context(SessionRequest(11, {}, 1, 2), now=0.0).partitions) == [B, C, A]


def test_a_partition_that_comes_back_is_told_of_whatever_it_was_told_before() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0, B: 0})
    assert ask(leader, (1, 1), forgotten=(A,)).entries == {}
    assert ask(leader, (1, 2), {A: 0}).entries == {A: Read(10)}


def test_listed_and_forgotten_is_forgotten() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0, B: 0})
    assert ask(leader, (1, 1), {A: 5, C: 1}, forgotten=(A, C)).entries == {}
    assert set(leader.sessions[1].partitions) == {B}


def test_a_session_that_is_emptied_is_closed_and_answered_at_once() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    assert ask(leader, (1, 1), forgotten=(A,)) == SessionResponse(0)
    assert (leader.sessions, leader.emptied) == ({}, 1)


@pytest.mark.parametrize(
    ("session", "version", "error"),
    [((9, 1), 11, 70), ((0, 1), 11, 70), ((1, 2), 11, 71), ((1, -2), 11, 71), ((1, 1), 13, 106)],
)
def test_errors(session: tuple[int, int], version: int, error: int) -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    assert ask(leader, session, version=version) == SessionResponse(0, error_code=error)


def test_an_answer_that_was_overtaken_by_the_next_request_is_an_error() -> None:
    leader = cache()
    ask(leader, (0, 0), {A: 0})
    first = leader.context(SessionRequest(11, {}, 1, 1), now=0.0)
    ask(leader, (1, 2))
    assert first.respond({A: Read(10)}) == SessionResponse(1, error_code=71)


class TestSlots:
    """FetchSessionCache.tryEvict."""

    def test_without_room_there_is_no_session(self) -> None:
        leader = cache(slots=1)
        ask(leader, (0, 0), {A: 0})
        assert ask(leader, (0, 0), {A: 0, B: 0}, now=120.0) == SessionResponse(0, {A: Read(10), B: Read(10)})

    def test_without_slots_there_never_is(self) -> None:
        assert ask(cache(slots=0), (0, 0), {A: 0}).session_id == 0

    def test_one_that_is_not_used_any_more_makes_room(self) -> None:
        leader = cache(slots=1)
        ask(leader, (0, 0), {A: 0, B: 0})
        assert ask(leader, (0, 0), {A: 0}, now=120.1).session_id == 2
        assert set(leader.sessions) == {2}

    @pytest.mark.parametrize(("partitions", "room"), [([A], False), ([A, B], True)])
    def test_an_old_one_makes_room_for_one_that_is_not_smaller(
        self, partitions: list[PartitionKey], room: bool
    ) -> None:
        leader = cache(slots=1)
        ask(leader, (0, 0), {A: 0, B: 0})
        ask(leader, (1, 1), now=100.0)
        ask(leader, (1, 2), forgotten=(A,) if room else (), now=121.0)
        assert bool(ask(leader, (0, 0), dict.fromkeys(partitions, 0), now=122.0).session_id) is room

    def test_consumers_make_room_for_followers_and_not_the_other_way_round(self) -> None:
        leader = cache(slots=1)
        ask(leader, (0, 0), {A: 0, B: 0}, is_follower=False)
        assert ask(leader, (0, 0), {A: 0}).session_id == 2
        assert ask(leader, (0, 0), {A: 0, B: 0}, is_follower=False).session_id == 0

    def test_an_id_is_given_out_once(self) -> None:
        ids = iter([0, 4, 4, 5])
        leader = FetchSessionCache(ids.__next__)
        assert [ask(leader, (0, 0), {A: 0}).session_id for _ in range(2)] == [4, 5]
