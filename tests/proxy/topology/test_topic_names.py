"""Names of topic ids: what is known, awaited and given up."""

from __future__ import annotations

import pytest

from proxy.topology.topic_names import (
    AGAIN_SECONDS,
    MAX_AT_ONCE,
    MAX_UNKNOWN,
    TopicNames,
    written,
)

ALL = (b"\1" * 16, b"\2" * 16, b"\3" * 16)
ORDERS, CLICKS, GONE = b"\1" * 16, b"\2" * 16, b"\3" * 16
BOTH = {ORDERS: "orders", CLICKS: "clicks"}


def test_an_id_that_nobody_knows_is_awaited_until_somebody_says() -> None:
    names = TopicNames()
    assert names.of(ORDERS) is None
    assert names.is_awaited(ORDERS)
    names.learn(BOTH, ALL[:2])
    assert not names.is_awaited(ORDERS)
    assert (names.of(ORDERS), names.known(CLICKS)) == ("orders", "clicks")
    assert (names.generation, names.unnamed) == (1, 0)


def test_people_are_told_without_asking() -> None:
    names = TopicNames()
    assert names.known(ORDERS) is None
    assert not names.is_awaited(ORDERS)


def test_what_no_broker_has_a_name_for_is_awaited_no_longer_and_counted() -> None:
    names = TopicNames()
    names.of(GONE)
    names.of(ORDERS)
    names.learn(BOTH, ALL)
    assert not names.is_awaited(GONE)
    assert (names.generation, names.unnamed) == (1, 1)


def test_if_no_broker_answers_what_was_known_stays() -> None:
    names = TopicNames()
    names.of(ORDERS)
    names.learn(BOTH, ALL[:2])
    names.of(GONE)
    names.learn(None, [GONE])
    assert names.known(ORDERS) == "orders"
    assert not names.is_awaited(GONE)
    assert (names.generation, names.unnamed) == (2, 1)


@pytest.mark.parametrize(
    ("then", "grows"),
    [(BOTH, 0), (None, 0), ({ORDERS: "orders"}, 0), ({**BOTH, GONE: "new"}, 1), ({ORDERS: "o", CLICKS: "clicks"}, 1)],
    ids=["the same", "no answer", "one deleted", "one created", "one renamed"],
)
def test_a_generation_is_new_names(then: dict[bytes, str] | None, grows: int) -> None:
    names = TopicNames()
    names.learn(BOTH, ALL[:2])
    before = names.generation
    names.learn(then, ALL)
    assert names.generation - before == grows


@pytest.mark.parametrize("answers", [BOTH, None], ids=["no name", "no answer"])
def test_what_was_asked_in_vain_is_asked_again_but_counts_as_listed_only_once(answers: dict[bytes, str] | None) -> None:
    """If it counted as listed whenever it is asked for, its partitions would be throttled now and then, and the
    sessions that hold them start again each time."""
    names = TopicNames()
    names.learn(BOTH, ALL[:2])
    names.of(GONE)
    names.learn(answers, [GONE])
    generation = names.generation
    for _ in range(3):
        assert names.of(GONE) is None
        assert not names.is_awaited(GONE)
        names.learn(answers, [GONE])
    assert (names.generation, names.unnamed) == (generation, 1)


def test_a_name_that_comes_late_is_learnt() -> None:
    names = TopicNames()
    names.of(GONE)
    names.learn({}, [GONE])
    names.of(GONE)
    names.learn({GONE: "late"}, [GONE])
    assert names.of(GONE) == "late"
    assert names.generation == 2


def test_what_is_met_while_a_broker_is_asked_is_still_awaited() -> None:
    names = TopicNames()
    names.of(ORDERS)
    asked = names.wanted(0.0)
    names.of(GONE)
    names.learn(BOTH, asked)
    assert names.is_awaited(GONE)


def test_an_id_in_vain_is_wanted_again_after_some_seconds() -> None:
    names = TopicNames()
    names.of(GONE)
    assert names.wanted(1.0) == [GONE]
    names.learn({}, [GONE], 1.0)
    for now, wanted in ((1.1, []), (1.0 + AGAIN_SECONDS, [GONE]), (1.0 + AGAIN_SECONDS, [])):
        if wanted or now < 2:
            names.of(GONE)
        assert names.wanted(now) == wanted


def test_no_id_is_nobodys() -> None:
    """A broker would refuse the whole question for it."""
    names = TopicNames()
    assert names.of(bytes(16)) is None
    assert not names.is_awaited(bytes(16))
    assert names.wanted(0.0) == []


def test_so_many_are_asked_for_at_once() -> None:
    names = TopicNames()
    for number in range(MAX_AT_ONCE + 5):
        names.of(made_up(number))
    asked = names.wanted(0.0)
    assert len(asked) == MAX_AT_ONCE
    names.learn({}, asked)
    assert len(names.wanted(0.0)) == 5


def made_up(number: int) -> bytes:
    return (number + 1).to_bytes(16)


@pytest.mark.parametrize("answers", [{}, None], ids=["no name", "no answer"])
def test_made_up_ids_cost_bounded_memory(answers: dict[bytes, str] | None) -> None:
    names = TopicNames()
    for first in range(0, 3 * (MAX_UNKNOWN + 10), MAX_UNKNOWN + 10):
        ids = [made_up(first + n) for n in range(MAX_UNKNOWN + 10)]
        for each in ids:
            names.of(each)
        assert sum(map(names.is_awaited, ids)) <= MAX_UNKNOWN
        names.learn(answers, [each for each in ids if names.is_awaited(each)])
        assert len(names._awaited) + len(names._without) <= 2 * MAX_UNKNOWN


def test_topics_for_people() -> None:
    """As kafka-topics writes an id."""
    assert written("orders") == "orders"
    assert written(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
