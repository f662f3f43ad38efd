from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from lab.errors import LabError
from lab.load.live_producer import Acknowledged, LiveProducer

from ..fake_broker import FakeBroker


async def test_every_answer_is_kept_in_order() -> None:
    with FakeBroker("127.88.5.1", errors=(0, 0, 19)) as broker:
        live = LiveProducer(broker.address, "orders", 0, interval_seconds=0.002)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                await nursery.start(live.run)
                while len(live.acknowledged) < 5:  # noqa: ASYNC110  # the producer has no use for an event
                    await trio.sleep(0.001)
                nursery.cancel_scope.cancel()
    assert live.errors == [19]
    assert [record.offset for record in live.acknowledged[:5]] == [1, 2, 4, 5, 6]
    assert [record.number for record in live.acknowledged[:5]] == [0, 1, 3, 4, 5]
    gaps = [b.due_at - a.due_at for a, b in zip(live.acknowledged, live.acknowledged[1:], strict=False)]
    assert gaps[0] == pytest.approx(0.002)
    assert all(record.latency_seconds > 0 for record in live.acknowledged)


async def test_a_lost_leader_is_an_error() -> None:
    with FakeBroker("127.88.6.1", hang_up_after=3) as broker, trio.fail_after(30):
        live = LiveProducer(broker.address, "orders", 0, interval_seconds=0.001)
        with pytest.raises(LabError, match="is gone"):
            await live.run()


async def test_a_stall_that_lasts_to_the_end_counts_as_long_as_it_was_seen_to_last() -> None:
    """What was due and never acknowledged took at least until the producer was stopped, and no longer is known."""
    with FakeBroker("127.88.8.1", silent_after=10) as broker, trio.fail_after(30):
        live = LiveProducer(broker.address, "orders", 0, interval_seconds=0.01)
        async with trio.open_nursery() as nursery:
            await nursery.start(live.run)
            while len(live.acknowledged) < 10:  # noqa: ASYNC110  # the producer has no use for an event
                await trio.sleep(0.001)
            while len(live.pending) < 40:  # noqa: ASYNC110
                await trio.sleep(0.001)
            first_due_at = live.pending[0][1]
            waited = trio.current_time() - first_due_at
            assert live.percentile(1.0) >= waited > 0.38
            nursery.cancel_scope.cancel()
        stopped_at_worst = live.percentile(1.0)
        # The machine may have held up one that was answered for longer than that.
        most = max(trio.current_time() - first_due_at, *(record.latency_seconds for record in live.acknowledged))
        await trio.sleep(0.2)
    assert len(live.acknowledged) == 10
    assert live.pending[0] == (10, first_due_at)
    assert waited <= stopped_at_worst <= most
    assert live.percentile(1.0) == stopped_at_worst
    assert live.percentile(0.5) > 0.1


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.95, 4.0), (1.0, 4.0)])
def test_percentiles(share: float, expected: float) -> None:
    live = LiveProducer("x", "orders", 0)
    live.acknowledged += [Acknowledged(0.0, latency, 0) for latency in (4.0, 1.0, 3.0, 2.0)]
    assert live.percentile(share) == expected


def test_without_records_there_is_no_percentile() -> None:
    with pytest.raises(LabError, match="no record was acknowledged"):
        LiveProducer("x", "orders", 0).percentile(0.5)


async def test_the_load_says_how_many_batches_there_are() -> None:
    """Twice as many from the fifth interval on."""
    with FakeBroker("127.88.7.1") as broker, trio.fail_after(30):
        live = LiveProducer(broker.address, "orders", 0, 0.01, load=lambda since: 2.0 if since >= 0.05 else 1.0)
        async with trio.open_nursery() as nursery:
            await nursery.start(live.run)
            while len(live.acknowledged) < 10:  # noqa: ASYNC110  # the producer has no use for an event
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    due = [record.due_at for record in live.acknowledged]
    assert [round((after - before) * 1000) for before, after in pairwise(due)][:9] in (
        [10, 10, 10, 10, 10, 5, 5, 5, 5],
        [10, 10, 10, 10, 10, 10, 5, 5, 5],
    )
