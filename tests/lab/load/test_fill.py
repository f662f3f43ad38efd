from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.load.fill import fill
from lab.wire.records import Shape

from ..fake_broker import FakeBroker


@pytest.mark.parametrize("shape", [Shape(), Shape(message_format="v2"), Shape(batch_records=9, compressed=True)])
def test_every_partition_gets_its_bytes(shape: Shape) -> None:
    with FakeBroker("127.88.1.1") as first, FakeBroker("127.88.1.2") as second:
        leaders = {0: first.address, 1: second.address, 2: first.address}
        done = fill("orders", leaders, bytes_per_partition=100_000, shape=shape)
        sent = sum(len(frame) for frame in first.received + second.received)
        requests = len(first.received) + len(second.received)
    assert done.records == done.batches * shape.batch_records
    assert 300_000 <= done.wire_bytes <= sent <= done.wire_bytes + 80 * requests
    assert done.wire_bytes < 300_000 + 3 * done.wire_bytes / done.batches
    assert first.received
    assert second.received


def test_a_refused_batch_is_an_error() -> None:
    with (
        FakeBroker("127.88.2.1", errors=(0, 6)) as broker,
        pytest.raises(LabError, match=r"refused a batch.*error_code=6"),
    ):
        fill("orders", {0: broker.address}, bytes_per_partition=10_000_000)


def test_a_leader_that_does_not_know_the_topic_yet_is_sent_the_same_batches_again() -> None:
    """Metadata reaches it after it has been made the leader: it lists offsets by then, and takes no records."""
    with FakeBroker("127.88.10.1", errors=(3, 3, 0)) as broker:
        done = fill("orders", {0: broker.address}, bytes_per_partition=10_000)
    first, second, third = broker.received[:3]
    assert done.batches == 1
    assert len(broker.received) == 3
    assert first[8:] == second[8:] == third[8:]  # but for the correlation id


def test_a_leader_that_never_knows_the_topic_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.load.fill.KNOWN_SECONDS", 0.2)
    with (
        FakeBroker("127.88.11.1", errors=(3,) * 100) as broker,
        pytest.raises(LabError, match=r"refused a batch.*error_code=3"),
    ):
        fill("orders", {0: broker.address}, bytes_per_partition=10_000)


def test_a_leader_that_hangs_up_is_an_error() -> None:
    with FakeBroker("127.88.3.1", hang_up_after=2) as broker, pytest.raises(LabError, match="leader at"):
        fill("orders", {0: broker.address}, bytes_per_partition=10_000_000)


def test_a_leader_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LabError, match="cannot reach"):
        fill("orders", {0: "127.88.4.1"}, bytes_per_partition=1)
