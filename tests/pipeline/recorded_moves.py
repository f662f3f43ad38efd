"""Moves as both sidecars of a link write them down, by the sidecar's own ledger, and what was really moved."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from proxy.journal.encoding import Origin, encode_traffic
from proxy.ledger.blocks import Position, TrafficKey
from proxy.ledger.ledger import Ledger
from tests.pipeline.journal_files import FIRST

MESSAGES = 16_225
MESSAGE_BYTES = 1034
PARTITIONS = 6
STEP = 25 * 11


class Fetched(NamedTuple):
    """What one answer brought: offsets are the one that was asked for; `known` is whether anything was known of the
    replica on that connection, which counts as in sync without."""

    at: float
    partition: int
    offset: int
    messages: int
    known: bool = True


def catch_up(seed: int = 73) -> list[Fetched]:
    """Six partitions in some fourteen seconds. The first answer for partition 0 brings records before anything is known
    of it; the connection of partition 5 is lost on the way and the first answer on the next one brings records, too."""
    numbers = random.Random(seed)
    found = []
    for partition in range(PARTITIONS):
        at, offset = 0.1 + partition / 100, 0
        reconnects = 7.2 if partition == 5 else None
        first = STEP if partition == 0 else 0
        found.append(Fetched(at, partition, 0, first, known=False))
        offset += first
        while offset < MESSAGES:
            at += numbers.uniform(0.1, 0.36)
            messages = min(numbers.randrange(1, 2 * STEP), MESSAGES - offset)
            known = reconnects is None or at < reconnects
            reconnects = reconnects if known else None
            found.append(Fetched(at, partition, offset, messages, known))
            offset += messages
        found.append(Fetched(at + 0.2, partition, MESSAGES, 0))
    return sorted(found)


def bytes_moved(fetches: list[Fetched]) -> Counter[int]:
    """The independent sum, by partition."""
    moved: Counter[int] = Counter()
    for one in fetches:
        moved[one.partition] += one.messages * MESSAGE_BYTES
    return moved


def lines(fetches: list[Fetched], *, source: int, destination: int, role: str, skew_seconds: int = 0) -> list[str]:
    """The journal of one end, by a clock that is so much ahead."""
    ledger, blocks = Ledger(0.0), []
    broker, peer = (source, destination) if role == "leader" else (destination, source)
    for one in fetches:
        in_sync = not one.known or one.offset >= MESSAGES
        key = TrafficKey(role, str(peer), "orders", one.partition, throttled=True, in_sync=in_sync)
        size = one.messages * MESSAGE_BYTES
        position = Position(one.offset, MESSAGES, 0)
        ledger.fetched(key, position, record_bytes=size, wire_bytes=size + 18 if size else 0, now=one.at)
        blocks += ledger.take_finished(one.at)
    blocks += ledger.cut(fetches[-1].at + 0.01)
    origin, first = Origin(broker, f"{role}-{broker}"), FIRST + skew_seconds
    told = (encode_traffic(origin, traffic, first) for block in blocks for traffic in block.traffic_lines())
    return b"".join(told).decode().splitlines()
