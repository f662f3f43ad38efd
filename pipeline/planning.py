"""From what was measured to a configuration: which quota is admissible, and which one ends a move in time.

What moves and the arithmetic are `reassignment`'s, which the operator's own `throttle-sidecar plan` uses as well; here
is what the journals add to it. Invariant: a rate that is written is admissible, or the plan is refused and says which
broker and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reassignment import (
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

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from reassignment import Assignment, Rates, Size, TopicPartition


class Wanted(NamedTuple):
    """When it has to be done, on which brokers."""

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
    wanted: Wanted,
) -> Plan:
    """Work out every broker's rates. `inflow`: bytes per second that each broker fetches in sync, measured.

    Raises:
        InputError: a partition is not in the current assignment.
    """
    try:
        moves = moving(move_map(target, current, {}))
    except ReassignmentError as error:
        raise InputError(str(error)) from error
    found = loads(moves, sizes, inflow)
    rates = {(load.broker, load.role): rate_to_set(load, wanted.deadline) for load in found}
    unknown = tuple(partition for partition in moves if partition not in sizes)
    return Plan(moves, found, standing_in(moves, sizes, rates), unknown, tuple(problems(found, *wanted)))


def quotas_toml(planned: Plan, *, until: datetime | None = None) -> str:
    """Return the quotas file. Raises InputError if the plan has a problem."""
    if planned.problems:
        raise InputError("\n".join(planned.problems))
    comment = "Written by python -m pipeline plan, from what the journals measured."
    return written(throttle(planned.moves, planned.rates), comment=comment, until=until)
