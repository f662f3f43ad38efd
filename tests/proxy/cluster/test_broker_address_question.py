"""The addresses of brokers are asked for once a minute while they matter; names are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
import trio.testing

from protocol.metadata import broker_hosts
from proxy.cluster import questions
from proxy.cluster.polling import LOOK_SECONDS, follow
from proxy.cluster.questions import BROKER_ADDRESSES_SECONDS, BrokerAddressQuestion

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    import pytest


async def test_names_are_looked_up_and_one_that_cannot_be_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MetadataBroker({}, racks={101: None, 102: None})
    learnt: list[frozenset[str]] = []
    came = trio.Event()

    def learn(found: frozenset[str]) -> None:
        learnt.append(found)
        came.set()

    async def hosts(*_: object) -> frozenset[str]:
        await trio.lowlevel.checkpoint()
        return frozenset({"127.0.0.5", "localhost", "kafka-102.invalid"})

    monkeypatch.setattr(questions, "ask_metadata", hosts)
    async with broker.listening() as address, trio.open_nursery() as nursery:
        nursery.start_soon(follow, BrokerAddressQuestion(lambda: True, learn), [address], RecordedLog())
        with trio.fail_after(20):
            await came.wait()
        nursery.cancel_scope.cancel()
    assert {"127.0.0.5", "127.0.0.1"} <= learnt[0]
    assert not any("invalid" in each for each in learnt[0])


async def test_without_need_or_answer_nothing_is_learnt(autojump_clock: trio.testing.MockClock) -> None:
    learnt: list[frozenset[str]] = []
    needs: list[float] = []

    def is_needed() -> bool:
        needs.append(trio.current_time())
        return len(needs) > 3

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, BrokerAddressQuestion(is_needed, learnt.append), [], RecordedLog())
        await trio.sleep(3 * BROKER_ADDRESSES_SECONDS + LOOK_SECONDS)
        nursery.cancel_scope.cancel()
    assert not learnt
    assert len(needs) > 3


def test_hosts_of_an_answer() -> None:
    broker = MetadataBroker({}, racks={101: None, 102: None})
    assert broker_hosts(broker.answer([], 12), version=12) == frozenset({"kafka"})
