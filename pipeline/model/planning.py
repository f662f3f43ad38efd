"""The plan of a move's quotas: which are admissible by what was measured, and which end the move in time.

What moves and the arithmetic are `reassignment`'s, which the operator's own `throttle-sidecar plan` uses as well; here
is what the journals add to it. Invariant: a rate that is written is admissible, or the plan is refused and says which
broker and why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from reassignment import (
    STEP,
    Capacity,
    Deadline,
    Load,
    MoveMap,
    ReassignmentError,
    loads,
    move_map,
    moving,
    problems,
    rate_to_set,
    read_assignment,
    standing_in,
    throttle,
)
from reassignment import quotas_toml as written

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from reassignment import Assignment, Rates, Size, TopicPartition


class Goal(NamedTuple):
    """The deadline of a move, and the brokers' capacity."""

    deadline: Deadline
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class Plan:
    """Args: unknown: partitions of which the journals know no size; they count nothing. problems: why it cannot be."""

    moves: MoveMap
    loads: tuple[Load, ...]
    rates: Rates
    unknown: tuple[TopicPartition, ...]
    problems: tuple[str, ...]


def read_reassignment(text: str, name: str) -> Assignment:
    """Read kafka-reassign-partitions JSON: replicas by partition. Raises InputError with the place."""
    try:
        return read_assignment(text, name).assignment
    except ReassignmentError as error:
        raise InputError(str(error)) from error


def plan(
    target: Assignment,
    current: Assignment,
    sizes: Mapping[TopicPartition, Size],
    inflow: Mapping[int, float],
    wanted: Goal,
) -> Plan:
    """Work out every broker's rates. `inflow`: bytes per second that each broker fetches in sync, measured.

    Raises:
        InputError: a partition is not in the current assignment.
    """
    try:
        moves = moving(move_map(target, current, {}))
    except ReassignmentError as error:
        raise InputError(str(error)) from error
    known = _led_by_replicas(sizes, moves)
    found = loads(moves, known, inflow)
    rates = {(load.broker, load.role): rate_to_set(load, wanted.deadline) for load in found}
    complete = standing_in(moves, known, rates)
    # Nothing to move is known of those that stand in; but a rate has to be admissible on their brokers, too.
    spare = [Load(*key, 0.0, 0.0, inflow.get(key[0], 0.0)) for key in sorted(complete.keys() - rates.keys())]
    complete |= {load[:2]: _admissible(complete[load[:2]], load, wanted) for load in spare}
    unknown = tuple(partition for partition in moves if partition not in sizes)
    return Plan(moves, found, complete, unknown, tuple(problems([*found, *spare], *wanted)))


def _led_by_replicas(sizes: Mapping[TopicPartition, Size], moves: MoveMap) -> dict[TopicPartition, Size]:
    """Leave out leaders that are no replica any more: journals may be older than the current assignment."""
    return {
        partition: size if size.leader in moves[partition].sources else replace(size, leader=None)
        for partition, size in sizes.items()
        if partition in moves
    }


def _admissible(rate: int, load: Load, wanted: Goal) -> int:
    """Return the admissible rate that is nearest to `rate`; if there is none, the least above the lower bound."""
    least, high = rate_to_set(load, wanted.deadline), load.high(wanted.capacity)
    most = rate if rate < high else (math.ceil(high / STEP) - 1) * STEP
    return max(most, least)


def quotas_toml(planned: Plan, *, until: datetime | None = None) -> str:
    """Return the quotas file. Raises InputError if the plan has a problem."""
    if planned.problems:
        raise InputError("\n".join(planned.problems))
    comment = "Written by python -m pipeline plan, from what the journals measured."
    return written(throttle(planned.moves, planned.rates), comment=comment, until=until)
