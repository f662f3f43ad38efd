"""A move between brokers in pods: a replica of every partition goes from one of two brokers to the third.

What was moved is what the network cards of the pods counted; sidecars are asked for nothing but which quotas they hold.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from lab.moves.move import MIB

from .deployed import BROKERS
from .recorder import NetworkCard

if TYPE_CHECKING:
    from .deployed import Deployed
    from .recorder import Passed

TOPIC = "orders"
LEADERS, FOLLOWER = (0, 1), 2
PARTITIONS = {partition: [partition % 2, 1 - partition % 2] for partition in range(8)}
TARGET = {partition: [partition % 2, FOLLOWER] for partition in PARTITIONS}
SLOW, FAST = 2 * MIB, 8 * MIB
IN_SYNC_SECONDS = 60.0
MOVE_SECONDS = 400.0
_BEGIN_SECONDS = 20.0
_SETTLE_SECONDS = 1.0
_EFFECT_SPAN_SECONDS = 0.25


class Changed(NamedTuple):
    """What a move showed whose quota was raised while it ran. Rates are of the follower's card, over the quota."""

    taken_seconds: dict[int, float]
    """From the change of the ConfigMap until each sidecar held it."""
    effect_seconds: float
    """From then until the follower received twice the quota before, over a quarter of a second."""
    slow: Passed
    fast: Passed
    leaders: dict[int, Passed]
    """What each leader sent under the first quota."""


def quotas(rate: int) -> str:
    """For both roles of every broker."""
    roles = ("leader", "follower")
    rates = "".join(f"{role}.replication.throttled.rate = {rate}\n" for role in roles)
    return f"[brokers.default]\n{rates}" + "".join(f'{role}.replication.throttled.replicas = "*"\n' for role in roles)


def make_topic(deployed: Deployed, bytes_per_partition: int) -> None:
    """On brokers 0 and 1, in sync."""
    deployed.admin.create_topic(TOPIC, PARTITIONS)
    deployed.fill(TOPIC, {partition: replicas[0] for partition, replicas in PARTITIONS.items()}, bytes_per_partition)
    deployed.admin.wait_in_sync(TOPIC, timeout_seconds=IN_SYNC_SECONDS)


def take_quota(deployed: Deployed, rate: int) -> dict[int, float]:
    """Change the ConfigMap; return how many seconds later each sidecar held it."""
    changed = deployed.change_quotas(quotas(rate))
    return {broker: round(when - changed, 1) for broker, when in deployed.wait_taken(quotas(rate)).items()}


def move(deployed: Deployed, quota: int) -> Passed:
    """From its first byte to its end, under one quota."""
    with NetworkCard(deployed.first_process(FOLLOWER)) as card:
        deployed.admin.reassign(TOPIC, TARGET)
        began = _wait_begun(card)
        ended = _wait_end(deployed)
    return card.passed("received", began, ended, quota)


def move_with_change(deployed: Deployed) -> Changed:
    """Slow is in force; fast comes by the ConfigMap while it runs."""
    with ExitStack() as stack:
        cards = {b: stack.enter_context(NetworkCard(deployed.first_process(b))) for b in BROKERS}
        card = cards[FOLLOWER]
        deployed.admin.reassign(TOPIC, TARGET)
        began = _wait_begun(card)
        changed = deployed.change_quotas(quotas(FAST))
        taken = deployed.wait_taken(quotas(FAST))
        ended = _wait_end(deployed)
    # A change is seen, by asking for it, later than it came.
    before, after = min(taken.values()) - _SETTLE_SECONDS, max(taken.values())
    return Changed(
        taken_seconds={broker: round(when - changed, 1) for broker, when in sorted(taken.items())},
        effect_seconds=_faster_after(card, taken[FOLLOWER]),
        slow=card.passed("received", began, before, SLOW),
        fast=card.passed("received", after, ended, FAST),
        leaders={leader: cards[leader].passed("sent", began, before, SLOW) for leader in LEADERS},
    )


def _wait_end(deployed: Deployed) -> float:
    """The time from which on less passes than the quota; the last fetches are small."""
    deployed.admin.wait_moved(TOPIC, list(TARGET), timeout_seconds=MOVE_SECONDS)
    ended = time.monotonic() - _SETTLE_SECONDS
    deployed.admin.wait_in_sync(TOPIC, timeout_seconds=IN_SYNC_SECONDS)
    return ended


def _wait_begun(card: NetworkCard) -> float:
    """The time of the first of the move's bytes: more than brokers have to say to each other otherwise."""
    deadline = time.monotonic() + _BEGIN_SECONDS
    while time.monotonic() < deadline:
        now = time.monotonic()
        found = card.bytes_within("received", now - 1.0, now)
        if sum(event.size_bytes for event in found) > SLOW / 4:
            return found[0].t
        time.sleep(0.05)
    raise AssertionError("the move did not begin")


def _faster_after(card: NetworkCard, taken: float) -> float:
    """Seconds from the change to the end of the first span that carries twice the rate before."""
    for start, _ in card.bytes_within("received", taken - _SETTLE_SECONDS, taken + 5.0):
        end = start + _EFFECT_SPAN_SECONDS
        carried = sum(event.size_bytes for event in card.bytes_within("received", start, end))
        if carried >= 2 * SLOW * _EFFECT_SPAN_SECONDS:
            return round(end - taken, 2)
    raise AssertionError("the new quota was not seen on the wire")
