"""One question to one broker after the other, in a version that it knows, and what is told where nobody answers."""

from __future__ import annotations

import pytest
import trio

from protocol.errors import ProtocolError
from protocol.metadata import replica_counts
from proxy.cluster.broker_client import Broker, ask_metadata
from proxy.cluster.polling import NoBrokerAnswersError, Question, first_answer, follow
from proxy.config.settings import Address

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

OLD, NEW = Broker(Address("old", 9092)), Broker(Address("new", 9092))


async def question(broker: Broker) -> str:
    await trio.lowlevel.checkpoint()
    if broker is OLD:
        raise ProtocolError("the broker closed the connection")
    return broker.address.host


async def test_the_first_that_answers_is_believed() -> None:
    assert await first_answer([OLD, NEW, OLD], question) == "new"


@pytest.mark.parametrize(
    ("brokers", "told"), [([], "there is no broker to ask"), ([OLD], "old:9092: the broker closed the connection")]
)
async def test_where_nobody_answers_the_last_failure_is_told(brokers: list[Broker], told: str) -> None:
    with pytest.raises(NoBrokerAnswersError, match=f"^{told}$"):
        await first_answer(brokers, question)


@pytest.mark.parametrize(("last", "by_id", "asked"), [(4, False, 4), (12, True, 12), (13, True, 13), (99, False, 13)])
async def test_a_broker_is_asked_in_the_newest_version_that_both_know(last: int, by_id: bool, asked: int) -> None:
    """Brokers of 2.8 were asked in v12, which they do not know: they logged an error with a stack trace."""
    broker = MetadataBroker({"t": 1}, last_version=last)
    async with broker.listening() as address:
        await ask_metadata(address, [bytes(15) + b"\7"] if by_id else ["t"], replica_counts)
    assert broker.versions == [asked]


@pytest.mark.parametrize(("last", "by_id"), [(3, False), (11, True)])
async def test_a_broker_that_knows_none_of_them_is_not_asked(last: int, by_id: bool) -> None:
    broker = MetadataBroker({"t": 1}, last_version=last)
    async with broker.listening() as address:
        with pytest.raises(
            ProtocolError, match=f"knows Metadata v{12 if by_id else 4} to v13, and it knows v0 to v{last}$"
        ):
            await ask_metadata(address, [bytes(15) + b"\7"] if by_id else ["t"], replica_counts)
    assert broker.versions == []


class Slow(Question[str]):
    """Always due; each answer takes `took` seconds, and none comes from the broker OLD."""

    name = "slow"

    def __init__(self, took: float) -> None:
        self.took = took
        self.asked_at: list[float] = []
        self.learnt: list[str | None] = []

    async def wait_until_due(self) -> None:
        await trio.lowlevel.checkpoint()

    async def ask(self, broker: Broker) -> str:
        self.asked_at.append(trio.current_time())
        await trio.sleep(self.took)
        return await question(broker)

    def learn(self, found: str | None, now: float) -> None:
        assert now == trio.current_time()
        self.learnt.append(found)


@pytest.mark.parametrize(("took", "pause"), [(0.001, 1.0), (0.2, 10.0), (4.0, 60.0)])
async def test_a_question_that_took_long_is_followed_by_a_long_pause(
    took: float, pause: float, autojump_clock: None
) -> None:
    slow, log = Slow(took), RecordedLog()
    with trio.move_on_after(took + pause + took / 2):
        await follow(slow, [NEW], log)
    first, second = slow.asked_at
    assert second - first - took == pytest.approx(pause)
    assert slow.learnt == ["new"]
    assert log.events == []


async def test_a_failure_is_logged_once_and_again_only_after_an_answer(autojump_clock: None) -> None:
    slow, log, brokers = Slow(0.0), RecordedLog(), [OLD]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, slow, brokers, log)
        await trio.sleep(2.5 * slow.retry_seconds)
        assert slow.learnt == [None] * 3
        brokers[:] = [OLD, NEW]
        await trio.sleep(slow.retry_seconds)
        brokers[:] = [OLD]
        await trio.sleep(slow.retry_seconds)
        nursery.cancel_scope.cancel()
    assert slow.learnt[3] == "new"
    assert log.lines == [
        {"event": "cluster_request_failed", "level": "warning", "request": "slow", "error": error}
        for error in ["old:9092: the broker closed the connection"] * 2
    ]
