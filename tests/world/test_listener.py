"""The rate of a listener, on the real relay: what is charged is what left, and who has how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..proxy.conversation import MIB
from .clients import Client
from .drawn import Rates
from .ledger import worst_window
from .scene import Act, Fetch, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from .scene import Outcome, World

KERNEL_BYTES = 65_536
"""What a connection's kernel buffers take of an answer that is never read."""
FETCHES_PER_SECOND = 27
pytestmark = pytest.mark.timeout(300)


def spec(rate: float, more: str = "") -> SidecarSpec:
    return SidecarSpec(f"{Rates().toml}[listener]\nrate = {int(rate)}\n{more}", egress=False)


def written(topics: dict[str, int], batches: int) -> Act:
    def write(world: World) -> None:
        for topic, count in topics.items():
            for partition in range(count):
                world.broker(1).append((topic, partition), batches)

    return Act(0.0, "written", write)


def narrow(host: int) -> Act:
    """Let connections to a host have small kernel buffers."""

    def act(world: World) -> None:
        world.line(1, host).window = KERNEL_BYTES

    return Act(0.0, "narrow", act)


def paced(outcome: Outcome, name: str, begin: float) -> float:
    """Return the bytes per second that a reader was brought, whether it counted as behind or not."""
    size = sum(each.size for each in outcome.ledger.arrivals if each.reader == name and each.at >= begin)
    return size / (outcome.seconds - begin)


@pytest.mark.parametrize("policy", ["strict", "kip73"])
def test_answers_that_are_never_read_cost_others_their_kernel_buffers_alone(policy: str) -> None:
    """Each was charged whole when it began: catch-up had 0.0 of 10 MiB/s, and another consumer 0.07 of 0.48."""
    rate, seconds = 10.0 * MIB, 20
    deaf = tuple(
        Client("deaf", 1, f"deaf-{each}", {"d": 1}, rate=0.001, begins=2 + each / FETCHES_PER_SECOND)
        for each in range(FETCHES_PER_SECOND * (seconds - 2))
    )
    reader = Client("consumer", 1, "app", {"c": 1}, host=901)

    def write(world: World) -> None:
        world.broker(1).append(("c", 0), 3)  # 0.48 MB/s
        world.network.at(world.network.now + 0.1, write, world)

    acts = (narrow(900), written({"d": 1}, 1000), Act(0.1, "writes", write))
    outcome = Scene({1: spec(rate)._replace(policy=policy)}, (Fetch(2, 1),), (*deaf, reader), acts=acts).run(seconds)
    assert outcome.wrong == []
    left = FETCHES_PER_SECOND * KERNEL_BYTES
    assert outcome.rates(6)["2<1"] >= 0.9 * (rate - 480_000 - left)
    assert paced(outcome, "app", 6) >= 0.95 * 480_000
    statistics, clients = outcome.world.sidecars[1].statistics.leader, outcome.world.sidecars[1].clients
    assert clients.uplink.client_bytes <= statistics.relayed_response_bytes
    assert clients.uplink.client_bytes <= seconds * (left + 1.1 * 480_000)
    assert sum(clients.passed_bytes.values()) == clients.uplink.client_bytes


@pytest.mark.parametrize("policy", ["strict", "kip73"])
@pytest.mark.parametrize("one_way_ms", [0.5, 20])
def test_consumers_with_a_backlog_leave_a_move_its_tenth(one_way_ms: float, policy: str) -> None:
    """It had 0 of 60 MB in 30 s."""
    rate, seconds = 8e6, 20
    readers = tuple(Client("consumer", 1, f"app-{each}", {"c": 4}, host=901 + each) for each in range(3))
    outcome = Scene(
        {1: spec(rate)._replace(policy=policy)},
        (Fetch(2, 1, one_way_ms=one_way_ms),),
        readers,
        acts=(written({"c": 4}, 10_000),),
    ).run(seconds)
    assert outcome.wrong == []
    found = outcome.rates(5)
    assert found["2<1"] >= 0.9 * rate / 10
    assert [found[each.client_id] for each in readers] == pytest.approx([0.3 * rate] * 3, rel=0.15)
    settled = [each for each in outcome.ledger.departures if each.at >= 5]  # the first answers come whole
    assert worst_window(settled, 1.0) <= 1.25 * rate
