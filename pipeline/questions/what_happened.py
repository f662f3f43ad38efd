"""Lists the events of the minutes around a moment: first those that call for action, then changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

from ..jobs import lag
from ..jobs.quotas import ROLE, UNLIMITED, periods
from ..tables.schema import CHANGES
from ..terminal import listed, printable
from ..units import duration
from . import was_it_kept
from .answer import STATUS, Answer, Verdict, counted, moment, who

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row

    from ..tables import Tables
    from ..units import Units
    from .was_it_kept import Kept

QUESTION = "what-happened"
AROUND_SECONDS = 300
MAX_ROWS = 12
UNREMARKABLE = ("file_opened", "file_closed", "client")
MAX_NAMES = 5
"""The most brokers, or changes of an override, that a sentence names."""
TOLD_APART = ("override", "connection", "quota")
"""Kinds of events that are grouped before they are told."""


class Happened(NamedTuple):
    """events: of the journals, those that call for action, then the nearest. overrides: the nearest, each once for all
    brokers that have it. connections: ended ones, by broker and cause. quotas: those that changed, `before` (None: none
    was told) and `limit`, each change once for all `roles` that made it. stalls: by role and cause."""

    at: int
    around: int
    seconds: int
    """The seconds with any traffic, of any role."""
    last: int | None
    """The last second with any, up to `PACE_SECONDS` after those; None: there is none."""
    events: tuple[Row, ...]
    overrides: tuple[Row, ...]
    connections: tuple[Row, ...]
    quotas: tuple[Row, ...]
    stalls: tuple[Row, ...]
    bound: Kept
    cut: tuple[str, ...] = ()
    """The names of these lists that are not whole."""


def facts(tables: Tables, at: int, *, around: int = AROUND_SECONDS) -> Happened:
    """Work it out, of `around` seconds before and after `at`."""
    near = tables.within(tables.scope._replace(since=at - around, until=at + around))
    said = near.scope.cut(near.events)
    remarkable = said.where(
        ~F.col("kind").isin([*UNREMARKABLE, *TOLD_APART]) & (F.coalesce("reason", F.lit("")) != "file")
    )
    # Of a hundred restarts the nearest would leave no place for the reload that failed.
    failed = (F.col("kind") == Kind.RELOAD.value) & (F.coalesce("error", F.lit("")) != "")
    urgent = F.when(failed, 2).when(F.col("kind") == Kind.DROPPED.value, 1).otherwise(0)
    events = remarkable.orderBy(F.desc(urgent), F.abs(F.col("time") - at), "time", "broker")
    ended = said.where(F.col("kind") == Kind.CONNECTION.value).groupBy("broker", "cause")
    connections = ended.agg(F.count("*").alias("number"), F.min("time").alias("first"))
    connections = connections.orderBy(F.desc("number"), "broker", "cause")
    # A stall within the window may be seen after it.
    ahead = near.within(near.scope._replace(until=at + around + lag.PACE_SECONDS))
    # Traffic that no quota selects is recorded, too: where there is nothing else, there is not nothing.
    within = F.when(F.col("time") < at + around, F.col("time"))
    lists = {
        "events": _first(events), "overrides": _overrides(said, at), "ended connections": _first(connections),
        "quotas": _quotas(near, at), "stalls": _stalls(near, ahead),
    }  # fmt: skip
    cut = tuple(name for name, rows in lists.items() if len(rows) > MAX_ROWS)
    nearest, overrides, endings, quotas, stalls = (tuple(rows[:MAX_ROWS]) for rows in lists.values())
    busy = ahead.seconds.agg(F.count_distinct(within).alias("seconds"), F.max("time").alias("last")).collect()[0]
    return Happened(
        at, around, busy.seconds, busy.last, tuple(sorted(nearest, key=lambda row: (row.time, row.broker))),
        tuple(sorted(overrides, key=lambda row: row.time)), endings, quotas, stalls, was_it_kept.facts(near), cut,
    )  # fmt: skip


def _first(rows: DataFrame) -> list[Row]:
    """Return what is told of rows, and one more if there are more."""
    return rows.limit(MAX_ROWS + 1).collect()


def _overrides(said: DataFrame, at: int) -> list[Row]:
    """Return one row per override, action and author: a command changes a whole fleet, member by member."""
    parsed = said.where(F.col("kind") == Kind.OVERRIDE.value).withColumn("changes", F.from_json("changes", CHANGES))
    same = [F.min(name).alias(name) for name in ("time", "label", "because", "until", "changes")]
    brokers = F.sort_array(F.collect_set("broker")).alias("brokers")
    rows = parsed.groupBy("override", "action", "by").agg(*same, brokers)
    return _first(rows.orderBy(F.abs(F.col("time") - at), "time", "override", "action"))


def _quotas(near: Tables, at: int) -> list[Row]:
    before = F.lag("limit").over(Window.partitionBy(*ROLE).orderBy("since"))
    found = periods(near.events).select(*ROLE, "since", "limit", "enforce", before.alias("before"))
    told = found.where(F.col("before").isNotNull() | (F.col("limit") < UNLIMITED))
    said = told.withColumnRenamed("since", "time").where(F.col("time") >= (near.scope.since or 0))
    roles = F.sort_array(F.collect_set(F.struct(*ROLE))).alias("roles")
    rows = said.groupBy("before", "limit", "enforce").agg(F.min("time").alias("time"), roles)
    return _first(rows.orderBy(F.abs(F.col("time") - at), "time", "limit"))


def _stalls(near: Tables, ahead: Tables) -> list[Row]:
    around = ahead.reaching_back(lag.LOOKS_BACK_SECONDS)
    found = lag.stalls(lag.of_tables(around), around.seconds, around.events)
    return _first(lag.stalls_by_cause(found, near.scope))


def answer(found: Happened, units: Units) -> Answer:
    """Tell it, the weightiest first; `number` is how many things there are to tell."""
    window = f"in the {duration(found.around)} before and after {moment(found.at)}"
    told = _told(found, units)
    if not told:
        verdict, sentence = Verdict.UNKNOWN, f"Nothing is recorded {window}."
        if found.seconds:
            verdict = Verdict.GOOD
            sentence = f"Nothing out of the ordinary {window}: no bound broken, nothing changed, nobody stalled."
        return Answer(QUESTION, verdict, sentence, 0.0, "things", uncertainty=_doubts(found))
    texts = [text for text, _ in told]
    command = next((command for _, command in told if command), "")
    least = "at least " if found.cut else ""
    more = f", and {least}{counted(len(told) - 1, 'more thing')} {window}" if len(told) > 1 else ""
    sentence = f"{texts[0][0].upper()}{texts[0][1:]}{more}."
    return Answer(QUESTION, Verdict.GOOD, sentence, float(len(told)), "things", tuple(texts), _doubts(found), command)


def _doubts(found: Happened) -> tuple[str, ...]:
    doubts = ["by the clocks of the brokers' machines, which may differ by seconds"]
    doubts += [f"of more than {MAX_ROWS} {name} {MAX_ROWS} are told: ask with a shorter --around" for name in found.cut]
    if found.seconds < 2 * found.around:
        doubts.append(f"{2 * found.around - found.seconds} of its {2 * found.around} seconds are without traffic")
    if found.last is not None and found.last < found.at + found.around + lag.PACE_SECONDS - 1:
        doubts.append(
            f"a stall is seen up to {duration(lag.PACE_SECONDS)} late, and the last traffic is of {moment(found.last)}"
        )
    return tuple(doubts)


def _told(found: Happened, units: Units) -> list[tuple[str, str]]:
    """Return each thing, and the command that acts on it; what calls for something to be done comes first."""
    bound = was_it_kept.answer(found.bound, units)
    told = [(bound.sentence.removeprefix("No, ").rstrip("."), bound.command)] if found.bound.over else []
    told += [
        ((f"{who(row.broker, row.role)} got no nearer for {counted(row.seconds, 'second')} from {moment(row.first)}:"
         f" {row.cause}"), STATUS)
        for row in found.stalls
    ]  # fmt: skip
    events = [(row, f"{moment(row.time)}: {_event(row)}") for row in found.events]
    told += [(text, _remedy(row)) for row, text in events if _remedy(row)]
    told += [(f"{moment(row.time)}: {_override(row)}", _undo(row)) for row in found.overrides]
    told += [(f"{moment(row.time)}: {_quota(row, units)}", "") for row in found.quotas]
    told += [(text, "") for row, text in events if not _remedy(row)]
    told += [
        ((f"{counted(row.number, 'connection')} of broker {row.broker} ended, the first at {moment(row.first)}:"
         f" {row.cause}"), "")
        for row in found.connections
    ]  # fmt: skip
    return told


def _remedy(row: Row) -> str:
    """Return what to type where something is wrong with a sidecar; empty where nothing is."""
    if row.kind == Kind.RELOAD.value and row.error:
        return "throttle-sidecar check --config proxy.toml"
    return STATUS if row.kind == Kind.DROPPED.value else ""


def _undo(row: Row) -> str:
    return f"throttle-sidecar undo {printable(row.override, keep='')} --fleet fleet.toml" if row.action == "set" else ""


def _quota(row: Row, units: Units) -> str:
    roles = listed((who(one.broker, one.role) for one in row.roles), MAX_NAMES)
    was = "" if row.before is None else f"{units.rate(row.before)} → "
    observed = "" if row.enforce else ", only observed"
    return f"the quota of {roles} became {was}{units.rate(row.limit)}{observed}"


def _override(row: Row) -> str:
    action = {"set": "set ", "undone": "undid "}.get(row.action)
    name = f"the override {printable(row.override, keep='')}"
    done = f"{name} ended" if action is None else f"{printable(row.by or 'somebody', keep='')} {action}{name}"
    label = "" if row.label is None else f" (label {printable(row.label, keep='')})"
    until = f"; it ends at {moment(row.until)}" if row.until is not None and row.action == "set" else ""
    reason = f"; reason: {printable(row.because, keep='')}" if row.because else ""
    changed = listed((f"{_key(each)} = {each.value}" for each in row.changes), MAX_NAMES)
    return f"{done} at {_brokers(row.brokers)}{label}: {printable(changed, keep='')}{until}{reason}"


def _brokers(ids: Sequence[int]) -> str:
    if len(ids) > MAX_NAMES:
        return f"{len(ids)} brokers from {ids[0]} to {ids[-1]}"
    *others, last = map(str, ids)
    return f"brokers {', '.join(others)} and {last}" if others else f"broker {last}"


def _key(change: Row) -> str:
    return change.key if change.place == "broker" else f"{change.place}.{change.key}"


def _event(row: Row) -> str:
    kind, sidecar = row.kind, f"broker {row.broker}'s sidecar"
    if kind == Kind.RELOAD.value:
        failed = f": {printable(row.error, keep='')}" if row.error else ""
        return f"{sidecar} read its quotas again: {row.outcome}{failed}"
    if kind == Kind.START.value:
        return f"{sidecar} started (version {row.version})"
    if kind == Kind.STOP.value:
        return f"{sidecar} stopped in order"
    if kind == Kind.CLOCK.value:
        return f"the clock of broker {row.broker}'s machine was set by {row.seconds:+.0f} s"
    if kind == Kind.DROPPED.value:
        return f"{sidecar} dropped {row.lines} lines of its journal: what it saw then is not known"
    return f"{sidecar}: {kind}"
