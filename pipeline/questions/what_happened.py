"""What happened at a moment: what was said, what changed, what was broken, in the minutes around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from journal_schema import Kind

from ..jobs import lag
from ..jobs.quotas import ROLE
from ..jobs.rates import LEVELS, per_second
from ..tables.schema import CHANGES
from ..terminal import listed, printable
from ..units import duration
from . import was_it_kept
from .answer import Answer, Verdict, counted, moment, who

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row

    from ..tables import Tables
    from ..units import Units
    from .was_it_kept import Kept

QUESTION = "what-happened"
AROUND_SECONDS = 300
MAX_ROWS = 12
CHANGED = 0.25
"""The share of the larger of two rates that counts as a change: less is how traffic is."""
UNREMARKABLE = ("file_opened", "file_closed", "client")
MAX_NAMES = 5
"""The most brokers, or changes of an override, that a sentence names."""
TOLD_APART = ("override", "connection")
"""Kinds of events that are grouped before they are told."""


class Happened(NamedTuple):
    """events: of the journals, the nearest. overrides: the nearest, each once for all brokers that have it.
    connections: ended ones, by broker and cause. rates: the roles that changed most, `before` and `after` in bytes per
    second. stalls: by role and cause."""

    at: int
    around: int
    seconds: int
    """The seconds with any traffic, of any role."""
    events: tuple[Row, ...]
    overrides: tuple[Row, ...]
    connections: tuple[Row, ...]
    rates: tuple[Row, ...]
    stalls: tuple[Row, ...]
    bound: Kept


def facts(tables: Tables, at: int, *, around: int = AROUND_SECONDS) -> Happened:
    """Work it out, of `around` seconds before and after `at`."""
    near = tables.within(tables.scope._replace(since=at - around, until=at + around))
    said = near.scope.cut(near.events)
    remarkable = said.where(
        ~F.col("kind").isin([*UNREMARKABLE, *TOLD_APART]) & (F.coalesce("reason", F.lit("")) != "file")
    )
    events = remarkable.orderBy(F.abs(F.col("time") - at), "time", "broker").limit(MAX_ROWS).collect()
    ended = said.where(F.col("kind") == Kind.CONNECTION.value).groupBy("broker", "cause")
    connections = ended.agg(F.count("*").alias("number"), F.min("time").alias("first"))
    connections = connections.orderBy(F.desc("number"), "broker", "cause")
    traffic = per_second(near.seconds, LEVELS["broker"])
    # Traffic that no quota selects is recorded, too: where there is nothing else, there is not nothing.
    busy = near.seconds.select("time").distinct().count()
    return Happened(
        at, around, busy, tuple(sorted(events, key=lambda row: (row.time, row.broker))),
        tuple(_overrides(said, at)), tuple(connections.limit(MAX_ROWS).collect()),
        tuple(_rates(traffic, at, around)), tuple(_stalls(near)),
        was_it_kept.facts(near),
    )  # fmt: skip


def _overrides(said: DataFrame, at: int) -> list[Row]:
    """Return one row per override, action and author: a command changes a whole fleet, member by member."""
    parsed = said.where(F.col("kind") == Kind.OVERRIDE.value).withColumn("changes", F.from_json("changes", CHANGES))
    same = [F.min(name).alias(name) for name in ("time", "label", "because", "until", "changes")]
    brokers = F.sort_array(F.collect_set("broker")).alias("brokers")
    rows = parsed.groupBy("override", "action", "by").agg(*same, brokers)
    nearest = rows.orderBy(F.abs(F.col("time") - at), "time", "override", "action").limit(MAX_ROWS).collect()
    return sorted(nearest, key=lambda row: row.time)


def _rates(traffic: DataFrame, at: int, around: int) -> list[Row]:
    before, after = (
        (F.coalesce(F.sum(F.when(half, F.col("bytes"))), F.lit(0)) / around).alias(name)
        for name, half in (("before", F.col("time") < at), ("after", F.col("time") >= at))
    )
    change = F.abs(F.col("after") - F.col("before"))
    rows = traffic.groupBy(*ROLE).agg(before, after).where(change > CHANGED * F.greatest("before", "after"))
    return rows.orderBy(F.desc(change), *ROLE).limit(MAX_ROWS).collect()


def _stalls(near: Tables) -> list[Row]:
    before = near.reaching_back(lag.LOOKS_BACK_SECONDS)
    found = near.scope.cut(lag.stalls(lag.of_tables(before), before.seconds, before.events))
    return lag.stalls_by_cause(found).limit(MAX_ROWS).collect()


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
    more = f", and {counted(len(told) - 1, 'more thing')} {window}" if len(told) > 1 else ""
    sentence = f"{told[0][0].upper()}{told[0][1:]}{more}."
    return Answer(QUESTION, Verdict.GOOD, sentence, float(len(told)), "things", tuple(told), _doubts(found))


def _doubts(found: Happened) -> tuple[str, ...]:
    doubts = ["by the clocks of the brokers' machines, which may differ by seconds"]
    if found.seconds < 2 * found.around:
        doubts.append(f"{2 * found.around - found.seconds} of its {2 * found.around} seconds are without traffic")
    return tuple(doubts)


def _told(found: Happened, units: Units) -> list[str]:
    bound = was_it_kept.answer(found.bound, units).sentence
    told = [bound.removeprefix("No, ").rstrip(".")] if found.bound.over else []
    told += [f"{moment(row.time)}: {_override(row)}" for row in found.overrides]
    told += [f"{moment(row.time)}: {_event(row, units)}" for row in found.events]
    told += [
        f"{who(row.broker, row.role)} got no nearer for {counted(row.seconds, 'second')} from {moment(row.first)}:"
        f" {row.cause}"
        for row in found.stalls
    ]
    told += [
        f"{who(row.broker, row.role)} moved {units.rate(row.before)} before and {units.rate(row.after)} after"
        for row in found.rates
    ]
    told += [
        f"{counted(row.number, 'connection')} of broker {row.broker} ended, the first at {moment(row.first)}:"
        f" {row.cause}"
        for row in found.connections
    ]
    return told


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


def _event(row: Row, units: Units) -> str:
    kind, sidecar = row.kind, f"broker {row.broker}'s sidecar"
    if kind == Kind.QUOTA.value:
        quota = "unlimited" if row.bytes_per_second is None else units.rate(row.bytes_per_second)
        observed = "" if row.enforce else ", only observed"
        return f"{who(row.broker, row.role)} got the quota {quota}{observed} ({row.reason})"
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
