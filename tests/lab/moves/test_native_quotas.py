from __future__ import annotations

import pytest

from lab.moves.native_quotas import APPLIED


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        # ZooKeeper mode, 3.9.1.
        (
            "[x] INFO Processing override for entityPath: brokers/101 with config: HashMap(a -> b) (kafka.server.Z)",
            True,
        ),
        # KRaft, 3.9.1 and 4.1.0: the node that is a controller too says it twice, but once as a broker.
        ("[x] INFO [DynamicConfigPublisher broker id=101] Updating topic t with new configuration : a -> b (k)", True),
        ("[x] INFO [DynamicConfigPublisher broker id=101] Updating node 101 with new configuration : a -> 1 (k)", True),
        ("[x] INFO [BrokerMetadataPublisher id=101] Updating broker 101 with new configuration : a -> 1 (k)", True),
        ("[x] INFO [DynamicConfigPublisher controller id=101] Updating node 101 with new configuration : a (k)", False),
        ("[x] INFO [QuorumController id=101] Replayed ConfigRecord for ConfigResource(type=BROKER, name='101')", False),
    ],
)
def test_a_broker_says_once_that_it_applied_a_change(line: str, counts: bool) -> None:
    assert bool(APPLIED.search(line)) == counts
