"""deploy/kubernetes on a node: brokers in pods, sidecars beside them, a move under a quota that a ConfigMap sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.moves.move import MIB
from tests.system.expectations import WORST_SECOND

from . import certificates
from .deployed import BROKERS, kustomization
from .expectations import BESIDES, EFFECT_SECONDS, TAKEN_SECONDS, assert_held
from .throttled_move import FOLLOWER, PARTITIONS, SLOW, TOPIC, make_topic, move_with_change, take_quota

if TYPE_CHECKING:
    from pathlib import Path

    from .deployed import Deployed

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

BYTES_PER_PARTITION = 40 * MIB
"""At the first quota it lasts longer than a kubelet takes to bring the second."""


@pytest.mark.parametrize("overlay", ["peers", "transparent", "mtls"])
def test_a_move_between_pods_keeps_to_quotas_of_a_configmap(deployed: Deployed, tmp_path: Path, overlay: str) -> None:
    folder = kustomization(f"overlays/{overlay}", tmp_path)
    if overlay == "mtls":
        certificates.issue(deployed.servers, tmp_path)
    deployed.servers.kubectl("apply", "--server-side", "-k", str(folder))
    deployed.wait_ready()
    make_topic(deployed, BYTES_PER_PARTITION)
    first = take_quota(deployed, SLOW)
    moved = move_with_change(deployed)
    print(f"{overlay}: the first quota was taken after {first} s; {moved}")  # noqa: T201 - shown by -rP
    for passed in (moved.slow, moved.fast):
        assert_held(passed)
    assert all(passed.worst_second <= WORST_SECOND + BESIDES for passed in moved.leaders.values()), moved.leaders
    assert max(*first.values(), *moved.taken_seconds.values()) <= TAKEN_SECONDS
    assert moved.effect_seconds <= EFFECT_SECONDS
    assert deployed.throttled_bytes(FOLLOWER) >= 0.95 * len(PARTITIONS) * BYTES_PER_PARTITION
    comparisons = deployed.compare(TOPIC)
    assert comparisons
    assert all(comparison.equal for comparison in comparisons), comparisons
    assert deployed.complaints() == []
    assert [deployed.sidecar_of(broker)["restartCount"] for broker in BROKERS] == [0, 0, 0]
