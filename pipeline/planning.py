"""From what was measured to a configuration: which quota is admissible, and which one ends a move in time.

Pure arithmetic over values the size of a cluster, not of its traffic; what was measured comes as values too. Written as
a quotas.toml that `throttle-sidecar check` accepts. KIP-73: a throttle T must be more than a broker's inflow IN, or
catching up never ends, and less than N - IN/R, or clients have nothing left (N: the broker's network, R: replication
factor).

Invariant: a rate that is written is admissible, or the plan is refused and says which broker and why.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Partition = tuple[str, int]


class Size(NamedTuple):
    """What is known of a partition."""

    leader: str
    bytes: float
    written_bytes_per_second: float


class PartitionMove(NamedTuple):
    partition: Partition
    source: str
    destinations: tuple[str, ...]
    existing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """X % of the data in Y seconds: `fraction` in `seconds`, on brokers with `capacity_bytes_per_second`."""

    seconds: float
    capacity_bytes_per_second: float
    replication_factor: int
    fraction: float = 1.0


class BrokerRate(NamedTuple):
    broker: str
    role: str
    move_bytes: float
    inflow_bytes_per_second: float
    """IN, what the broker takes in from leaders anyway."""
    low: float
    high: float
    needed: float
    """The smallest rate that ends in time."""


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[PartitionMove, ...]
    rates: tuple[BrokerRate, ...]
    unknown: tuple[Partition, ...] = ()
    problems: tuple[str, ...] = field(default_factory=tuple)


def read_reassignment(text: str, name: str) -> dict[Partition, tuple[str, ...]]:
    """Read kafka-reassign-partitions JSON: replicas by partition. Raises InputError with the place."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}: line {error.lineno}: not JSON: {error.msg}") from error
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise InputError(f'{name}: expected {{"version":1,"partitions":[...]}} with at least one partition')
    return {_key(row, name, position): tuple(map(str, row["replicas"])) for position, row in enumerate(rows)}


def _key(row: Any, name: str, position: int) -> Partition:
    expected = {"topic": str, "partition": int, "replicas": list}
    for key, kind in expected.items():
        value = row.get(key) if isinstance(row, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{name}: partitions[{position}].{key}: expected {kind.__name__}, found {value!r}")
    if not all(isinstance(broker, int) for broker in row["replicas"]):
        raise InputError(f"{name}: partitions[{position}].replicas: expected broker ids, found {row['replicas']!r}")
    return row["topic"], row["partition"]


def plan(
    target: Mapping[Partition, tuple[str, ...]],
    current: Mapping[Partition, tuple[str, ...]],
    sizes: Mapping[Partition, Size],
    inflow: Mapping[str, float],
    wanted: Wanted,
) -> Plan:
    """Work out every broker's rates. `inflow`: bytes per second that each broker fetches in sync, measured.

    Partitions whose size is not known are in `unknown`, and count nothing.
    """
    moves = tuple(_moves(target, current, sizes))
    unknown = tuple(move.partition for move in moves if move.partition not in sizes)
    known = [move for move in moves if move.partition in sizes]
    to_move: defaultdict[tuple[str, str], float] = defaultdict(float)
    written: defaultdict[tuple[str, str], float] = defaultdict(float)
    for move in known:
        size = sizes[move.partition]
        for role, brokers in (("leader", (move.source,) * len(move.destinations)), ("follower", move.destinations)):
            for broker in brokers:
                to_move[broker, role] += size.bytes
                written[broker, role] += size.written_bytes_per_second
    rates = tuple(_rate(key, to_move[key], written[key], inflow.get(key[0], 0.0), wanted) for key in sorted(to_move))
    return Plan(moves, rates, unknown, tuple(_problems(rates)))


def _moves(
    target: Mapping[Partition, tuple[str, ...]],
    current: Mapping[Partition, tuple[str, ...]],
    sizes: Mapping[Partition, Size],
) -> list[PartitionMove]:
    found = []
    for partition, replicas in sorted(target.items()):
        existing = current.get(partition)
        if existing is None:
            raise InputError(f"{partition[0]}-{partition[1]}: not in the current assignment")
        added = tuple(broker for broker in replicas if broker not in existing)
        if added:
            # The preferred leader leads, unless the journals have seen another one.
            source = sizes[partition].leader if partition in sizes else existing[0]
            found.append(PartitionMove(partition, source, added, existing))
    return found


def _rate(key: tuple[str, str], move_bytes: float, written: float, inflow: float, wanted: Wanted) -> BrokerRate:
    """What is written meanwhile has to be moved as well, so it comes on top."""
    low = max(inflow, written)
    high = wanted.capacity_bytes_per_second - inflow / wanted.replication_factor
    needed = move_bytes * wanted.fraction / wanted.seconds + written
    return BrokerRate(*key, move_bytes, inflow, low, high, needed)


def rate_to_set(rate: BrokerRate) -> int:
    """The smallest admissible rate that ends in time, in whole KiB per second, up."""
    return math.ceil(max(rate.needed, math.nextafter(rate.low, math.inf)) / 1024) * 1024


def _problems(rates: Sequence[BrokerRate]) -> list[str]:
    found = []
    for rate in rates:
        who = f"broker {rate.broker} as {rate.role}"
        if rate.low >= rate.high:
            found.append(
                f"{who}: no rate is admissible: inflow {rate.low:.0f} B/s, capacity leaves {rate.high:.0f} B/s"
            )
        elif rate_to_set(rate) >= rate.high:
            least = rate.move_bytes / max(rate.high - (rate.needed - rate.low if rate.low else 0), 1)
            found.append(
                f"{who}: needs {rate_to_set(rate)} B/s to end in time, and must stay below {rate.high:.0f} B/s;"
                f" allow at least {least:.0f} s"
            )
    return found


def quotas_toml(planned: Plan, *, until: str | None = None) -> str:
    """Return the quotas file. Raises InputError if the plan has a problem."""
    if planned.problems:
        raise InputError("\n".join(planned.problems))
    lines = ["# Written by python -m pipeline plan, from what the journals measured."]
    rates: dict[str, dict[str, int]] = {}
    for rate in planned.rates:
        rates.setdefault(rate.broker, {})[rate.role] = rate_to_set(rate)
    for broker, roles in rates.items():
        lines += ["", f"[brokers.{broker}]"]
        lines += [f"{role}.replication.throttled.rate = {value}" for role, value in sorted(roles.items())]
        lines += [f"until = {until}"] if until else []
    lists: dict[str, tuple[list[str], list[str]]] = {}
    for move in planned.moves:
        topic, partition = move.partition
        leaders, followers = lists.setdefault(topic, ([], []))
        # As kafka-reassign-partitions does: any existing replica may lead, the added ones follow.
        leaders += [f"{partition}:{broker}" for broker in move.existing]
        followers += [f"{partition}:{broker}" for broker in move.destinations]
    for topic, (leaders, followers) in lists.items():
        lines += ["", f"[topics.{json.dumps(topic)}]"]
        lines += [f'leader.replication.throttled.replicas = "{",".join(leaders)}"']
        lines += [f'follower.replication.throttled.replicas = "{",".join(followers)}"']
        lines += [f"until = {until}"] if until else []
    return "\n".join(lines) + "\n"
