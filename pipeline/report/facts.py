"""The values of the page, at most some thousands, however many brokers and however long.

DataFrame in, values out. Everything that grows with brokers or seconds stays with Spark: by buckets of time, and of the
brokers those that something was the matter with. Invariant: what is left out for size is said, never silently cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from ..errors import InputError
from ..jobs import audit, lag
from ..jobs.inner_rates import has_bounds
from ..jobs.link_ends import REPLICA
from ..jobs.moves import paced, times_behind, unpaced
from ..model import backtest
from ..model.duration_curve import FACTORS, recorded
from ..questions import was_it_kept, what_rate, which_move_hurt, who_was_starved, will_it_finish
from ..questions.asking import missing, units_of
from ..questions.replica_times import lacking_bytes
from ..tables import CachedFrames
from .buckets import Grid, LinkGrid, buckets, busiest, grid, link_grid, outliers, whole_step
from .outlier import Outlier, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from ..model.backtest import BackTest
    from ..model.duration_curve import Recorded
    from ..model.remaining_bytes import Waiting
    from ..questions.answer import Answer
    from ..questions.will_it_finish import Finish, Left
    from ..tables import Tables
    from ..units import Units

MAX_POINTS = 288
"""The most points of a plot; a day in steps of five minutes."""
MAX_BROKERS = 4
"""The most brokers that have plots of their own."""
MAX_PAIRS = 20
MAX_REPLICAS = 10


class Curve(NamedTuple):
    """What-if: (the largest quota, seconds; infinity: never), and the recorded result beside it."""

    points: tuple[tuple[float, float], ...]
    recorded: tuple[float, float] | None
    wanted: float | None
    """The quota that the answer recommends; None: it recommends none."""


@dataclass(frozen=True, slots=True)
class Facts:
    began: int
    ended: int
    brokers: int
    units: Units
    seconds_per_point: int
    answers: tuple[Answer, ...]
    """The answers: was it kept, what rate, will it finish, who was starved, which move hurt."""
    grid: Grid
    links: LinkGrid
    left: dict[tuple[str, str], Left]
    """The bytes that links that are behind at the end have still to bring, by source and destination."""
    worst_replicas: tuple[Row, ...]
    """The replicas that were behind for longest, the ones that still are first: REPLICA, `began`, `seconds`,
    `finished`, `bytes`, `lacks` (bytes at the end; None: not known)."""
    starved: tuple[Row, ...]
    """The replicas that stood still for longest (`who_was_starved.Starved.rows`)."""
    broken_inside: tuple[Row, ...]
    """The worst incidents of rates inside quotas, of which buckets know nothing (`was_it_kept.Kept.incidents`)."""
    lost: tuple[Waiting, ...]
    """The replicas that fell silent while behind (`will_it_finish.Finish.lost`)."""
    outliers: tuple[Outlier, ...]
    """The worst of them; if there are none, the busiest broker."""
    all_outliers: int
    recorded: Recorded
    curve: Curve | None
    model: BackTest
    plan: BackTest
    """The difference of each from what was recorded."""
    files: dict[str, int]
    quarantined: int

    @property
    def moved(self) -> str:
        """The movement in a sentence."""
        return f"{what_rate.recording(self.recorded, self.units)}." if self.recorded.pairs else "Nothing moved."

    @property
    def kept(self) -> Answer:
        return self.answers[0]

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for scripts."""
        return {
            "began": self.began, "ended": self.ended, "brokers": self.brokers, "moved": self.moved,
            "answers": {answer.question: answer.as_json() for answer in self.answers},
            "outliers": [one.broker for one in self.outliers[: self.all_outliers]], "all_outliers": self.all_outliers,
            "links": [pair._asdict() for pair in self.recorded.pairs],
            "left": [one.as_json() for one in self.left.values()],
            "worst_replicas": [row.asDict() for row in self.worst_replicas],
            "what_if": [
                {"bytes_per_second": quota, "seconds": seconds if math.isfinite(seconds) else None}
                for quota, seconds in (self.curve.points if self.curve else ())
            ],
            "backtest": {"model": self.model.as_json(), "plan": self.plan.as_json()},
            "files": self.files, "quarantined": self.quarantined,
        }  # fmt: skip


def collect(tables: Tables) -> Facts:
    """Work out all of it. Raises InputError if there is no traffic to tell of."""
    whole = tables.seconds.agg(
        F.min("time").alias("began"), F.max("time").alias("ended"), F.count_distinct("broker").alias("brokers")
    ).collect()[0]
    if whole.began is None:
        raise InputError(f"{tables.storage.named}: no traffic in the tables: nothing to report")
    with CachedFrames() as held:
        return _facts(tables, whole, held)


def _facts(tables: Tables, whole: Row, held: CachedFrames) -> Facts:
    """Collect the recorded moves; whole: `began`, `ended` and `brokers` of all.

    What several parts of the page ask is worked out once.
    """
    step = whole_step(math.ceil((whole.ended - whole.began + 1) / MAX_POINTS))
    units = units_of(tables)
    before = tables.reaching_back(lag.LOOKS_BACK_SECONDS)
    progress = held.once(lag.of_tables(before))
    seconds = audit.seconds_with_quota(before.seconds, before.events)
    verdicts = held.once(audit.verdicts(seconds))
    by_bucket = held.once(buckets(tables.scope.cut(verdicts), tables.scope.cut(progress), step))
    starved = who_was_starved.facts(tables)
    behind = held.once(times_behind(tables))
    scaled = recorded(tables, paced(behind, tables.seconds, tables.events))
    # Rates inside quotas are judged with them, as roles of their own, of which the page has no rows.
    has_more = has_bounds(before.events)
    kept_facts = was_it_kept.facts(tables) if has_more else was_it_kept.of_seconds(tables, seconds, verdicts)
    rates = what_rate.answer(scaled, units)
    finish = will_it_finish.of_times_behind(tables, behind)
    inside = tuple(row for row in kept_facts.incidents if row.role not in ("leader", "follower"))
    matters = outliers(by_bucket, {*(row.broker for row in (*starved.rows, *inside)), *_losers(finish)})
    shown = matters[:MAX_BROKERS] or busiest(by_bucket)
    hurt = which_move_hurt.judged(scaled.pairs, tables.scope.cut(tables.events), tables.seconds)
    roles = grid(by_bucket, whole.began, whole.ended, step)
    answers = (
        was_it_kept.answer(kept_facts, units),
        rates,
        will_it_finish.answer(finish, units),
        who_was_starved.answer(starved, units),
        which_move_hurt.answer(hurt, units),
    )
    to_come = {
        (one.source, one.destination): math.inf if one.seconds is None else one.replicas * one.seconds
        for one in finish.links
    }
    files = tables.files.groupBy("state").agg(F.count("*").alias("n"), F.sum("quarantined").alias("bad")).collect()
    return Facts(
        began=whole.began,
        ended=whole.ended,
        brokers=whole.brokers,
        units=units,
        seconds_per_point=step,
        answers=tuple(map(missing(tables).doubt, answers)),
        grid=roles,
        links=link_grid(behind, roles.columns, to_come),
        left={(one.source, one.destination): one for one in finish.links},
        worst_replicas=_worst(behind),
        starved=starved.rows,
        broken_inside=inside,
        lost=finish.lost,
        outliers=told(tables, by_bucket, progress, shown, will_it_finish.by_role(finish)),
        all_outliers=len(matters),
        recorded=scaled,
        curve=_curve(scaled, rates.number),
        model=backtest.of_links(scaled),
        plan=backtest.of_plan(scaled),
        files={row.state: row.n for row in files},
        quarantined=sum(row.bad for row in files),
    )


def _losers(finish: Finish) -> set[int]:
    """Return the brokers that tell of replicas that were lost."""
    return {one.broker[0] for one in finish.lost if one.broker is not None}


def _worst(behind: DataFrame) -> tuple[Row, ...]:
    """Return the worst replicas; behind: the result of `moves.times_behind`."""
    columns = (*REPLICA, "began", "seconds", "finished", "bytes", lacking_bytes().alias("lacks"))
    order = ("finished", F.desc("seconds"), F.desc_nulls_first("lacks"), "began", *REPLICA)
    return tuple(unpaced(behind).select(*columns).orderBy(*order).limit(MAX_REPLICAS).collect())


def _curve(found: Recorded, wanted: float | None) -> Curve | None:
    """Return the curve of all quotas scaled alike; the largest of them stands for all."""
    if not found.streams or not found.scaled:
        return None
    highest = max(found.scaled.values())
    points = tuple((highest * factor, found.seconds_at(factor)) for factor in FACTORS)
    # A backlog whose size nobody knows takes no time in the model: an axis by powers of two has no place for that.
    if not highest or not any(math.isfinite(seconds) and seconds > 0 for _, seconds in points):
        return None
    return Curve(points, (highest, found.seconds) if found.finished else None, wanted)
