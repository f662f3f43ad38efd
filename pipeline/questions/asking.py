"""From a question's name to its answer, with what the tables are without among its doubts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..curve import recorded
from ..troubles import of_tables
from ..units import Units
from . import finish, happened, kept, rate, starved

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tables import Tables
    from .answer import Answer

QUESTIONS = (finish.QUESTION, kept.QUESTION, rate.QUESTION, happened.QUESTION, starved.QUESTION)


def ask(
    tables: Tables, question: str, *, at: int | None = None, finish_in: float | None = None,
    around: int = happened.AROUND_SECONDS,
) -> Answer:  # fmt: skip
    """Answer one of `QUESTIONS`.

    at: what-happened's moment, seconds since 1970. finish_in: what-rate's seconds.
    """
    units = units_of(tables)
    answers: dict[str, Callable[[], Answer]] = {
        finish.QUESTION: lambda: finish.answer(finish.facts(tables), units),
        kept.QUESTION: lambda: kept.answer(kept.facts(tables), units),
        rate.QUESTION: lambda: rate.answer(recorded(tables), units, wanted_seconds=finish_in),
        happened.QUESTION: lambda: happened.answer(happened.facts(tables, at or 0, around=around), units),
        starved.QUESTION: lambda: starved.answer(starved.facts(tables), units),
    }
    return answers[question]().doubted(*of_tables(tables.files))


def units_of(tables: Tables) -> Units:
    """The units in which the quotas of these tables were written."""
    said = tables.events.select("bytes_per_second").where(F.col("bytes_per_second") > 0).distinct().limit(100)
    return Units.of(row.bytes_per_second for row in said.collect())
