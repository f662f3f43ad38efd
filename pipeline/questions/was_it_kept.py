"""Judges whether the bound was kept in every second and every eleven, by broker and role, and if not, by whom and
why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from ..jobs import audit
from ..jobs.inner_rates import with_bounds
from ..jobs.quotas import ROLE
from .answer import STATUS, Answer, Verdict, counted, moment, who

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

    from ..tables import Tables
    from ..units import Units

QUESTION = "was-it-kept"
MAX_INCIDENTS = 5


class Kept(NamedTuple):
    """All but `observed` is of quotas that were enforced."""

    roles: int
    windows: int
    """The number of windows of each promise's length, together."""
    over: int
    """Windows over their bound."""
    undecided: int
    observed: int
    """Roles' quotas that were only observed."""
    overlap_seconds: int
    worst: tuple[Row, ...]
    """The worst window of each length: `seconds`, `ratio` (bytes over quota), `broker`, `role`, `at`, `limit`."""
    broken_roles: int
    incidents: tuple[Row, ...]
    """The incidents as `audit.incidents` tells them, the worst first."""


def facts(tables: Tables) -> Kept:
    """Work it out: some rows, however many brokers."""
    before = tables.reaching_back(audit.ELEVEN.seconds - 1)
    seconds = audit.seconds_with_quota(*with_bounds(before.seconds, before.events))
    return of_seconds(tables, seconds, audit.judged(seconds))


def of_seconds(tables: Tables, seconds: DataFrame, verdicts: DataFrame) -> Kept:
    """Return the facts from what `audit.seconds_with_quota` says of the tables and of the longest window before them,
    and `audit.judged` or `audit.verdicts` of these."""
    roles = audit.summed_up(verdicts, since=tables.scope.since).cache()
    enforced = F.col("enforce")

    def where_enforced(name: str) -> Column:
        return F.when(enforced, F.col(name))

    whole = roles.agg(
        F.countDistinct(*map(where_enforced, ROLE)).alias("roles"),
        F.sum(where_enforced("seconds")).alias("seconds"),
        F.sum(F.when(enforced, F.col("over_1s") + F.col("over_11s"))).alias("over"),
        F.sum(F.when(enforced, F.col("undecided_1s") + F.col("undecided_11s"))).alias("undecided"),
        F.count_if(~enforced).alias("observed"),
        F.sum(where_enforced("overlap_seconds")).alias("overlap_seconds"),
        F.countDistinct(*(F.when(~F.col("kept"), F.col(name)) for name in ROLE)).alias("broken"),
        *(_worst(promise).alias(promise.name) for promise in audit.PROMISES),
    ).na.fill(0).collect()[0]  # fmt: skip
    found: Sequence[Row] = ()
    if whole.over:
        broken = tables.scope.cut(audit.violations(seconds).where("enforce"))
        order = (F.desc_nulls_first("ratio"), "first", *ROLE, "window_seconds")
        found = audit.incidents(broken).orderBy(*order).limit(MAX_INCIDENTS).collect()
    roles.unpersist()
    worst = tuple(whole[promise.name] for promise in audit.PROMISES if whole[promise.name] is not None)
    return Kept(
        whole.roles, whole.seconds, whole.over, whole.undecided, whole.observed, whole.overlap_seconds, worst,
        whole.broken, tuple(found),
    )  # fmt: skip


def _worst(promise: audit.Promise) -> Column:
    """Return the worst window of this length where a quota was enforced: by ratio; of equal ones the earliest; of these
    that of the broker with the lowest id."""
    ratio, at = F.col(f"worst_{promise.name}"), F.col(f"worst_{promise.name}_at")
    window = F.struct(
        F.lit(promise.seconds).alias("seconds"), ratio.alias("ratio"), *ROLE, at.alias("at"), "limit"
    )  # fmt: skip
    order = F.struct(ratio, -at, -F.col("broker"), "role", "since")
    return F.max_by(window, F.when(ratio.isNotNull() & F.col("enforce"), order))


def answer(kept: Kept, units: Units) -> Answer:
    """Tell it; `number` is the worst second over its quota."""
    worst = kept.worst[0] if kept.worst else None
    if not kept.roles or (worst is None and not kept.over):
        nothing = "There was no quota: nothing moved under one in the seconds asked for."
        if not kept.roles and kept.observed:
            nothing = f"Nothing was enforced: {counted(kept.observed, 'quota')} only observed."
        return Answer(QUESTION, Verdict.UNKNOWN, nothing, uncertainty=_doubts(kept))
    evidence = tuple(_extreme(one, units) for one in kept.worst)
    number = None if worst is None else worst.ratio
    promised = " and ".join(
        f"no {'second' if one.seconds == 1 else f'{one.seconds} seconds'} more than {one.factor:g} x"
        for one in audit.PROMISES
    )
    if not kept.over:
        kind = "was kept" if kept.observed == 0 else "was kept where it was enforced"
        sentence = (
            f"Yes, the bound {kind}: {promised} the quota, of {kept.windows:,} seconds with traffic"
            f" ({counted(kept.roles, 'role')} of brokers)."
        )
        return Answer(QUESTION, Verdict.GOOD, sentence, number, "x quota", evidence, _doubts(kept))
    first = kept.incidents[0]
    sentence = (
        f"No, the bound was broken in {counted(kept.over, 'window')} by"
        f" {counted(kept.broken_roles, 'role of a broker', 'roles of brokers')}; the worst:"
        f" {incident_in_words(first, units)}."
    )
    told = tuple(incident_in_words(one, units) for one in kept.incidents)
    return Answer(QUESTION, Verdict.BAD, sentence, number, "x quota", (*told, *evidence), _doubts(kept), STATUS)


def _extreme(one: Row, units: Units) -> str:
    length = "second" if one.seconds == 1 else f"{one.seconds} seconds"
    return (
        f"the worst {length}: {one.ratio:.2f} x {units.rate(one.limit)}, {who(one.broker, one.role)},"
        f" ending {moment(one.at)}"
    )


def incident_in_words(one: Row, units: Units) -> str:
    """Return who moved how much instead of how much, when and why."""
    length = "a second" if one.window_seconds == 1 else f"{one.window_seconds} seconds"
    times = "the quota was 0" if one.ratio is None else f"{one.ratio:.2f} x the quota"
    return (
        f"{who(one.broker, one.role)} moved {units.size(one.bytes)} in {length} that allowed"
        f" {units.size(one.allowed)} ({times}), {moment(one.first)}: {one.cause}"
    )


def _doubts(kept: Kept) -> tuple[str, ...]:
    doubts = []
    if kept.undecided:
        doubts.append(
            f"{counted(kept.undecided, 'window')} neither kept nor broken: in one of their seconds the quota changed,"
            " or began to be enforced"
        )
    if kept.observed:
        doubts.append(f"{counted(kept.observed, 'quota')} only observed, not enforced")
    if kept.overlap_seconds:
        doubts.append(f"two runs of one broker's sidecar at once in {counted(kept.overlap_seconds, 'second')}")
    return tuple(doubts)
