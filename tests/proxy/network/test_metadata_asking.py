"""One question to one broker after the other, in a version that it knows, and what is told where nobody answers."""

from __future__ import annotations

import pytest
import trio

from protocol.errors import ProtocolError
from protocol.metadata import replica_counts
from proxy.config.settings import Address
from proxy.network.broker_asking import Broker
from proxy.network.metadata_asking import NobodyAnswersError, first_answer, metadata_of, pause_seconds

from ..metadata_broker import MetadataBroker

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
    with pytest.raises(NobodyAnswersError, match=f"^{told}$"):
        await first_answer(brokers, question)


@pytest.mark.parametrize(("last", "by_id", "asked"), [(4, False, 4), (12, True, 12), (13, True, 13), (99, False, 13)])
async def test_a_broker_is_asked_in_the_newest_version_that_both_know(last: int, by_id: bool, asked: int) -> None:
    """Brokers of 2.8 were asked in v12, which they do not know: they logged an error with a stack trace."""
    broker = MetadataBroker({"t": 1}, last_version=last)
    async with broker.listening() as address:
        await metadata_of(address, [bytes(15) + b"\7"] if by_id else ["t"], replica_counts)
    assert broker.versions == [asked]


@pytest.mark.parametrize(("last", "by_id"), [(3, False), (11, True)])
async def test_a_broker_that_knows_none_of_them_is_not_asked(last: int, by_id: bool) -> None:
    broker = MetadataBroker({"t": 1}, last_version=last)
    async with broker.listening() as address:
        with pytest.raises(
            ProtocolError, match=f"knows Metadata v{12 if by_id else 4} to v13, and it knows v0 to v{last}$"
        ):
            await metadata_of(address, [bytes(15) + b"\7"] if by_id else ["t"], replica_counts)
    assert broker.versions == []


@pytest.mark.parametrize(("took", "pause"), [(0.001, 1.0), (0.2, 10.0)])
def test_a_question_that_took_long_is_followed_by_a_long_pause(took: float, pause: float) -> None:
    assert pause_seconds(took, 1.0, 0.02) == pytest.approx(pause)
