"""One question to one broker after the other: which version is tried when, and what is told where nobody answers."""

from __future__ import annotations

import pytest
import trio

from protocol.errors import ProtocolError
from proxy.config.settings import Address
from proxy.network.broker_asking import Broker
from proxy.network.metadata_asking import MetadataAsking, NobodyAnswersError, pause_seconds

OLD, NEW = Broker(Address("old", 9092)), Broker(Address("new", 9092))


class Question:
    """Old brokers close the connection on version 12, those of `silent` on everything."""

    def __init__(self, *silent: Broker) -> None:
        self.silent = silent
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, broker: Broker, version: int) -> str:
        await trio.lowlevel.checkpoint()
        self.asked.append((broker.address.host, version))
        if broker in self.silent or (broker is OLD and version == 12):
            raise ProtocolError("the broker closed the connection")
        return f"{broker.address.host} {version}"


async def test_the_version_that_was_answered_last_goes_first() -> None:
    asking, question = MetadataAsking(), Question()
    assert await asking.one_of([OLD, NEW], question) == "old 4"
    assert await asking.one_of([OLD, NEW], question) == "old 4"
    assert question.asked == [("old", 12), ("old", 4), ("old", 4)]
    question.silent = (OLD,)
    assert await asking.one_of([OLD, NEW], question) == "new 4"


async def test_topics_by_id_are_asked_for_by_a_version_that_has_ids() -> None:
    asking, question = MetadataAsking(), Question()
    assert await asking.one_of([OLD, NEW], question, by_id=True) == "new 12"
    assert question.asked == [("old", 12), ("new", 12)]


@pytest.mark.parametrize(
    ("brokers", "told"),
    [([], "there is no broker to ask"), ([OLD, NEW], "new:9092: the broker closed the connection")],
)
async def test_where_nobody_answers_the_last_failure_is_told(brokers: list[Broker], told: str) -> None:
    with pytest.raises(NobodyAnswersError, match=f"^{told}$"):
        await MetadataAsking().one_of(brokers, Question(OLD, NEW))


@pytest.mark.parametrize(("took", "pause"), [(0.001, 1.0), (0.2, 10.0)])
def test_a_question_that_took_long_is_followed_by_a_long_pause(took: float, pause: float) -> None:
    assert pause_seconds(took, 1.0, 0.02) == pytest.approx(pause)
