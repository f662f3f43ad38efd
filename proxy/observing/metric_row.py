"""Declares a row of the table of metrics: its facts, its sources, and how its value is read.

Knows no metric by name and no exposition format (`exposition`). Invariant: reading a value answers at once,
from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..http.request_checks import HttpStatistics
from ..quota_files.effective_quotas import Source
from ..roles import Role
from ..statistics.counters import Histogram

if TYPE_CHECKING:
    from enum import Enum

    from admission.shares import BudgetNode

    from ..clients.throttle import ClientThrottle
    from ..diagnostics.conditions import Condition
    from ..diagnostics.replica_stats import ReplicaStats
    from ..diagnostics.role_rates import PartitionRate
    from ..journal.writer import JournalStatistics
    from ..network.accept_limiter import AcceptLimiter
    from ..process.supervision import Task
    from ..quota_files.reload import ReloadStatistics
    from ..quotas import Change, Quotas
    from ..quotas.override import Override
    from ..rates.choice import Choice
    from ..statistics.counters import RoleStatistics, Statistics
    from ..tls.legs import Legs

PREFIX = "replication_throttle_"


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of metric values. The callables return at once, from memory."""

    statistics: Statistics
    reloads: ReloadStatistics
    quotas: Callable[[], Quotas]
    overrides: Callable[[], Sequence[Override]]
    """The overrides in force."""
    rate_bytes_per_second: Callable[[Role], float]
    """The measured rate over the KIP-73 window."""
    replica_stats: Callable[[Role], ReplicaStats]
    """The last look at every replica."""
    version: Callable[[], str]
    task_restarts: Mapping[Task, int]
    served: Collection[Role] = tuple(Role)
    """The roles that proxy.toml has. Another role has no quota metrics: alerts would miss its traffic."""
    limit_bytes_per_second: Callable[[Role], float] = lambda _: math.inf
    """The quota in force; for a rate that sets itself the last choice."""
    bounds: Callable[[Role], Iterable[BudgetNode]] = lambda _: ()
    """The budgets of peers and topics inside a role's."""
    chosen: Callable[[Role], Choice | None] = lambda _: None
    """The rate chosen last; None for a role whose rate is fixed."""
    quota_source: Callable[[], Source] = lambda: Source.FILE
    """The source of the quotas in force."""
    quota_keeping: Mapping[str, int] = field(default_factory=dict)
    """The number of writes of the last good quotas, by outcome."""
    http: HttpStatistics = field(default_factory=HttpStatistics)
    conditions: Callable[[], Iterable[Condition]] = lambda: ()
    """The conditions found in the last second."""
    loop_lag_seconds: Callable[[], float] = lambda: 0.0
    """The worst lag of the loop in the last 15 to 30 seconds."""
    accept_limiter: AcceptLimiter | None = None
    """The counts of connections that were refused or put off; None in tests without a server."""
    upcoming: Callable[[], Change | None] = lambda: None
    """The next change that the clock alone will make."""
    journal: JournalStatistics | None = None
    """The counters of the journal; None: no journal is kept, and its metrics have no sample."""
    clients: ClientThrottle | None = None
    """The client quotas; None in tests without a server."""
    now: Callable[[], float] = lambda: 0.0
    """Trio's clock."""
    tls: Legs | None = None
    """The encrypted legs; None: no leg is encrypted."""
    partition_rates: Callable[[Role], Iterable[PartitionRate]] | None = None
    """The rates of partitions; None: PartitionBytesInRate is not exposed."""


Sample = tuple[tuple[str, ...], float | Histogram]
"""The label values, in the order of the row's labels, and the value."""
Read = Callable[[Sources], Iterable[Sample]]


class Metric(NamedTuple):
    name: str
    """The name as a scrape shows it: counters with ``_total``, infos with ``_info``."""
    kind: str
    labels: tuple[str, ...]
    help: str
    read: Read


def _row(kind: str, name: str, description: str, read: Read) -> Metric:
    own, _, labels = name.removesuffix("}").partition("{")
    prefix = "" if own[0].isupper() else PREFIX
    return Metric(prefix + own, kind, tuple(labels.split(",")) if labels else (), description, read)


counter, gauge, histogram, info = (partial(_row, kind) for kind in ("counter", "gauge", "histogram", "info"))
"""Rows by name, description and reader. The name has its labels in braces and no prefix:
``undecoded_total{role,reason}``. KIP-73's own names, which begin with a capital letter, have none in a scrape
either."""


def one(read: Callable[[Sources], float]) -> Read:
    return lambda sources: [((), read(sources))]


def per_role(read: Callable[[Sources, Role], float]) -> Read:
    return lambda sources: [((role.value,), read(sources, role)) for role in Role]


def counted(read: Callable[[RoleStatistics], float | Histogram]) -> Read:
    return lambda sources: [((role.value,), read(sources.statistics.of(role))) for role in Role]


def per_role_and(**reads: Callable[[Sources, Role], float]) -> Read:
    """Return samples by role and one more label, whose values are the names of `reads`."""
    return lambda sources: [
        ((role.value, label), read(sources, role)) for role in Role for label, read in reads.items()
    ]


def counted_by(**reads: Callable[[RoleStatistics], float]) -> Read:
    """Return counters by role and one more label, whose values are the names of `reads`."""
    return lambda sources: [
        ((role.value, label), read(sources.statistics.of(role))) for role in Role for label, read in reads.items()
    ]


def counted_of_each(members: type[Enum], read: Callable[[RoleStatistics], Mapping[str, int]]) -> Read:
    """Return counters by role and member of an enumeration, all of them there from the start."""
    return lambda sources: [
        ((role.value, each.value), read(sources.statistics.of(role)).get(each.value, 0))
        for role in Role
        for each in members
    ]
