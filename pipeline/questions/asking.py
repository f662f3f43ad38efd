"""The questions by name, each answered from tables, with what the tables lack among the answer's doubts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyspark.sql import functions as F

from ..jobs.moves import times_behind, unpaced
from ..model.duration_curve import recorded
from ..model.pace import WINDOW_SECONDS
from ..tables import CachedFrames
from ..tables.incomplete_data import of_dropped, of_tables
from ..units import Units
from . import (
    replica_times,
    was_it_kept,
    what_did_it_cost,
    what_happened,
    what_rate,
    which_move_hurt,
    who_was_starved,
    will_it_finish,
)
from .answer import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from ..tables import Tables
    from .answer import Answer

Found = TypeVar("Found", replica_times.Behind, replica_times.UnderReplicated)

QUESTIONS = (
    will_it_finish.QUESTION,
    was_it_kept.QUESTION,
    what_rate.QUESTION,
    what_happened.QUESTION,
    who_was_starved.QUESTION,
    which_move_hurt.QUESTION,
    replica_times.KEEPS_FALLING,
    replica_times.NEVER_CATCHES_UP,
    replica_times.UNDER_REPLICATED,
    what_did_it_cost.QUESTION,
)


class Missing(NamedTuple):
    """The lacks of tables, in words: files and lines set aside, and lines that sidecars dropped. lately: some of these
    in the last minutes."""

    files: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    lately: bool = False

    def doubt(self, answer: Answer) -> Answer:
        """Return the answer with this among its doubts; a good one that says that something is in no line is none where
        lines were dropped. The end of a move goes by the last minutes."""
        doubted = answer.doubted(*self.files, *self.dropped)
        lacks = {was_it_kept.QUESTION: bool(self.dropped), will_it_finish.QUESTION: self.lately}
        if answer.verdict is not Verdict.GOOD or not lacks.get(answer.question):
            return doubted
        sentence = f"Not known, since sidecars dropped lines of their journals; by those there are: {answer.sentence}"
        return replace(doubted, verdict=Verdict.UNKNOWN, sentence=sentence, number=None)


def missing(tables: Tables) -> Missing:
    """Return what these tables lack within their scope."""
    dropped = tuple(of_dropped(tables))
    lately = bool(dropped) and bool(of_dropped(_last_minutes(tables)))
    return Missing(tuple(of_tables(tables.files)), dropped, lately)


def _last_minutes(tables: Tables) -> Tables:
    scope = tables.scope
    last = scope.cut_table(tables.table("lines")).agg(F.max("time").alias("time")).collect()[0].time or 0
    return tables.within(scope._replace(since=max(last - WINDOW_SECONDS, scope.since or 0)))


def ask(
    tables: Tables, question: str, *, at: int | None = None, finish_in: float | None = None,
    around: int = what_happened.AROUND_SECONDS, price: float | None = None,
) -> Answer:  # fmt: skip
    """Answer one of `QUESTIONS`.

    at: what-happened's moment, seconds since 1970. finish_in: what-rate's seconds. price: what-did-it-cost's, a GiB.
    """
    units = units_of(tables)

    def moves() -> DataFrame:
        return unpaced(times_behind(tables))

    def with_lost(found: Callable[[DataFrame], Found]) -> Found:
        with CachedFrames() as held:
            behind = held.once(times_behind(tables))
            lost = will_it_finish.of_times_behind(tables, behind).lost
            return found(unpaced(behind))._replace(lost=lost)

    answers: dict[str, Callable[[], Answer]] = {
        will_it_finish.QUESTION: lambda: will_it_finish.answer(will_it_finish.facts(tables), units),
        was_it_kept.QUESTION: lambda: was_it_kept.answer(was_it_kept.facts(tables), units),
        what_rate.QUESTION: lambda: what_rate.answer(recorded(tables), units, wanted_seconds=finish_in),
        what_happened.QUESTION: lambda: what_happened.answer(
            what_happened.facts(tables, at or 0, around=around), units
        ),
        who_was_starved.QUESTION: lambda: who_was_starved.answer(who_was_starved.facts(tables), units),
        which_move_hurt.QUESTION: lambda: which_move_hurt.answer(which_move_hurt.facts(tables), units),
        replica_times.KEEPS_FALLING: lambda: replica_times.answer_falling_behind(replica_times.falling_behind(moves())),
        replica_times.NEVER_CATCHES_UP: lambda: replica_times.answer_never_caught_up(
            with_lost(replica_times.never_caught_up), units
        ),
        replica_times.UNDER_REPLICATED: lambda: replica_times.answer_under_replicated(
            with_lost(replica_times.under_replicated), units
        ),
        what_did_it_cost.QUESTION: lambda: what_did_it_cost.answer(what_did_it_cost.facts(tables), units, price=price),
    }
    told_of = tables if at is None else tables.within(tables.scope._replace(since=at - around, until=at + around))
    return missing(told_of).doubt(answers[question]())


def units_of(tables: Tables) -> Units:
    """Return the units in which the quotas of these tables were written."""
    said = tables.events.select("bytes_per_second").where(F.col("bytes_per_second") > 0).distinct().limit(100)
    return Units.of(row.bytes_per_second for row in said.collect())
