"""The questions by name, each answered from tables, with what the tables lack among the answer's doubts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..model.duration_curve import recorded
from ..tables.incomplete_data import of_tables
from ..units import Units
from . import was_it_kept, what_happened, what_rate, who_was_starved, will_it_finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tables import Tables
    from .answer import Answer

QUESTIONS = (
    will_it_finish.QUESTION,
    was_it_kept.QUESTION,
    what_rate.QUESTION,
    what_happened.QUESTION,
    who_was_starved.QUESTION,
)


def ask(
    tables: Tables, question: str, *, at: int | None = None, finish_in: float | None = None,
    around: int = what_happened.AROUND_SECONDS,
) -> Answer:  # fmt: skip
    """Answer one of `QUESTIONS`.

    at: what-happened's moment, seconds since 1970. finish_in: what-rate's seconds.
    """
    units = units_of(tables)
    answers: dict[str, Callable[[], Answer]] = {
        will_it_finish.QUESTION: lambda: will_it_finish.answer(will_it_finish.facts(tables), units),
        was_it_kept.QUESTION: lambda: was_it_kept.answer(was_it_kept.facts(tables), units),
        what_rate.QUESTION: lambda: what_rate.answer(recorded(tables), units, wanted_seconds=finish_in),
        what_happened.QUESTION: lambda: what_happened.answer(
            what_happened.facts(tables, at or 0, around=around), units
        ),
        who_was_starved.QUESTION: lambda: who_was_starved.answer(who_was_starved.facts(tables), units),
    }
    return answers[question]().doubted(*of_tables(tables.files))


def units_of(tables: Tables) -> Units:
    """Return the units in which the quotas of these tables were written."""
    said = tables.events.select("bytes_per_second").where(F.col("bytes_per_second") > 0).distinct().limit(100)
    return Units.of(row.bytes_per_second for row in said.collect())
