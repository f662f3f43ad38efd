"""Whether the cluster has what lists name: asked of whom and when, and what is made of the answers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from proxy.cluster import broker_client
from proxy.cluster.polling import follow
from proxy.cluster.questions import (
    CONFIRM_SECONDS,
    LISTED_TOPICS_SECONDS,
    TOPICS_PER_REQUEST,
    ListedTopicsQuestion,
)
from proxy.config.settings import Address

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


def partitions(count: int) -> frozenset[int]:
    return frozenset(range(count))


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """Time jumps only when loopback, and the thread that parses, have had time."""
    return trio.testing.MockClock(autojump_threshold=0.05)


@dataclass
class Asking:
    """`run` under way for the names of `named`."""

    named: frozenset[str]
    log: RecordedLog = field(default_factory=RecordedLog)
    changed: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self.question = ListedTopicsQuestion(lambda most: sorted(self.named)[:most], self._wait_changed)

    async def _wait_changed(self) -> None:
        await self.changed.wait()
        self.changed = trio.Event()

    @asynccontextmanager
    async def of(self, *brokers: broker_client.Broker) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, self.question, brokers, self.log)
            yield
            nursery.cancel_scope.cancel()


async def asked(broker: broker_client.Broker, names: list[str]) -> Mapping[str, frozenset[int]]:
    question = Asking(frozenset(names)).question
    question._asked = names
    return await question.ask(broker)


def test_a_topic_is_missing_only_if_two_answers_say_so() -> None:
    """A broker that has just started knows none."""
    topics = Asking(frozenset()).question
    topics.learn({"a": frozenset(), "b": partitions(3)}, 0.0)
    assert topics.partitions == {}
    assert not topics.is_confirmed
    topics.learn({"a": partitions(2), "b": partitions(2)}, 0.0)
    assert topics.partitions == {"a": partitions(2), "b": partitions(3)}
    topics.learn({"a": frozenset(), "c": frozenset()}, 0.0)
    assert topics.partitions == {"a": partitions(2)}
    topics.learn({"a": frozenset(), "c": frozenset()}, 0.0)
    assert topics.partitions == {"a": frozenset(), "c": frozenset()}
    assert topics.is_confirmed


@pytest.mark.parametrize("version", [4, 9, 13])
async def test_what_a_broker_says_of_each(version: int, clock: trio.testing.MockClock) -> None:
    broker = MetadataBroker({"orders": 3, "secret": 1}, last_version=version, unauthorized=frozenset({"secret"}))
    async with broker.listening() as address:
        found = await asked(address, ["gone", "orders", "secret"])
    assert broker.versions == [version]
    assert found == {"gone": frozenset(), "orders": partitions(3)}


async def test_many_are_asked_for_some_at_a_time(clock: trio.testing.MockClock) -> None:
    names = [f"t{n:03}" for n in range(2 * TOPICS_PER_REQUEST + 1)]
    broker = MetadataBroker(dict.fromkeys(names, 1))
    async with broker.listening() as address:
        assert len(await asked(address, names)) == len(names)
    assert [len(asked) for asked in broker.asked] == [TOPICS_PER_REQUEST, TOPICS_PER_REQUEST, 1]


async def test_an_old_broker_is_asked_in_its_own_version(clock: trio.testing.MockClock) -> None:
    broker, asking = MetadataBroker({"a": 2}, last_version=8), Asking(frozenset({"a", "b"}))
    async with broker.listening() as address, asking.of(address):
        await trio.sleep(CONFIRM_SECONDS + 1)
    assert asking.question.partitions == {"a": partitions(2), "b": frozenset()}
    assert broker.versions == [8, 8]
    assert asking.log.lines == []


async def test_once_confirmed_it_is_asked_once_a_minute_and_when_lists_change(clock: trio.testing.MockClock) -> None:
    broker, asking = MetadataBroker({"a": 2}), Asking(frozenset({"a"}))
    async with broker.listening() as address, asking.of(address):
        await trio.sleep(CONFIRM_SECONDS + 2 * LISTED_TOPICS_SECONDS + 1)
        assert broker.asked == [["a"]] * 4
        asking.named = frozenset({"b"})
        asking.changed.set()
        await trio.sleep(CONFIRM_SECONDS + 1)
        assert broker.asked[4:] == [["b"], ["b"]]
        assert asking.question.partitions == {"b": frozenset()}
        asking.named = frozenset()
        asking.changed.set()
        await trio.sleep(10 * LISTED_TOPICS_SECONDS)
    assert len(broker.asked) == 6
    assert asking.question.partitions == {}


async def test_nobody_who_answers_means_nothing_is_claimed_and_said_once(clock: trio.testing.MockClock) -> None:
    asking = Asking(frozenset({"a"}))
    with trio.socket.socket() as nobody:
        await nobody.bind(("127.0.0.1", 0))
        async with asking.of(broker_client.Broker(Address(*nobody.getsockname()[:2]))):
            await trio.sleep(5 * LISTED_TOPICS_SECONDS)
    assert asking.question.partitions == {}
    assert asking.log.events == ["cluster_request_failed"]


async def test_if_one_broker_does_not_answer_the_next_does(clock: trio.testing.MockClock) -> None:
    old, good = MetadataBroker({}, last_version=3), MetadataBroker({"a": 1})
    asking = Asking(frozenset({"a"}))
    async with old.listening() as first, good.listening() as second, asking.of(first, second):
        await trio.sleep(CONFIRM_SECONDS + 1)
    assert asking.question.partitions == {"a": partitions(1)}
    assert old.asked == []
    assert asking.log.lines == []
