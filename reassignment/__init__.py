"""A reassignment of partitions, before anything is moved: what moves, how fast it may, and the quotas that say so.

The nouns: an *assignment* is which replicas partitions have (`assignment`); a *move map* is which of them send and
which fetch (`moves`, Kafka's own algorithm); a *load* is what that asks of a broker in a role, from which rates follow
(`rates`); a *throttle* is the rates and lists together, as quotas.toml has them (`throttle`).
Shared by the operator's commands and the pipeline's plan, and therefore knows neither. Standard library alone; no I/O,
no clock.
"""

from .assignment import (
    Assignment,
    Document,
    Heading,
    ReassignmentError,
    TopicPartition,
    has_heading,
    read_assignment,
    text_of,
)
from .moves import ROLES, MoveMap, Ongoing, PartitionMove, RoleName, brokers, move_map, moving, throttled_replicas
from .rates import STEP, Capacity, Deadline, Load, Size, loads, problems, rate_to_set, source, standing_in
from .throttle import Rates, Throttle, quotas_toml, throttle

__all__ = [
    "TopicPartition",
    "Assignment",
    "Document",
    "Heading",
    "ReassignmentError",
    "has_heading",
    "read_assignment",
    "text_of",
    "RoleName",
    "ROLES",
    "Ongoing",
    "PartitionMove",
    "MoveMap",
    "move_map",
    "moving",
    "brokers",
    "throttled_replicas",
    "STEP",
    "Size",
    "Load",
    "Capacity",
    "Deadline",
    "source",
    "loads",
    "rate_to_set",
    "problems",
    "standing_in",
    "Rates",
    "Throttle",
    "throttle",
    "quotas_toml",
]
