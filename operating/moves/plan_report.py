"""Prints a plan: as JSON, or as tables.

Pure: a plan in, a value or a rich renderable out. Invariant: every number of the JSON is bytes or seconds and says
which in its key; a value that is unknown, or never ends, is null.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from proxy.quotas import format_bytes
from reassignment import moving, source, throttle

from ..quota_words import format_duration
from ..terminal import folding_table

if TYPE_CHECKING:
    from rich.table import Table

    from reassignment import Load
    from reassignment.throttle import Value

    from .planning import MovePlan

Json = dict[str, Any]
_MAX_MOVES = 20


def plan_json(plan: MovePlan) -> Json:
    """Return the document of ``--json``."""
    ground, found = plan.ground, throttle(plan.ground.moves, plan.rates)
    return {
        "moves": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "leader": source(partition, move.sources, ground.sizes),
                "sources": move.sources,
                "destinations": move.destinations,
                "bytes": _known(plan, ground.sizes[partition].bytes) if partition in ground.sizes else None,
            }
            for partition, move in moving(ground.moves).items()
        ],
        "brokers": [_load_json(plan, load) for load in plan.loads],
        "rates": [
            {"broker": broker, "role": role, "bytes_per_second": rate} for (broker, role), rate in plan.rates.items()
        ],
        "quotas": _nested(found.settings()),
        "move_bytes": _known(plan, plan.total_bytes),
        "seconds": _finite(plan.total_seconds),
        "warnings": plan.warnings,
    }


def _load_json(plan: MovePlan, load: Load) -> Json:
    return {
        "broker": load.broker,
        "role": load.role,
        "move_bytes": _known(plan, load.move_bytes),
        "written_bytes_per_second": load.written_bytes_per_second if plan.ground.inflow is not None else None,
        "inflow_bytes_per_second": None if plan.ground.inflow is None else load.inflow_bytes_per_second,
        "rate_bytes_per_second": plan.rates.get((load.broker, load.role)),
        "seconds": _finite(plan.seconds(load)) if plan.ground.sizes else None,
    }


def _known(plan: MovePlan, size_bytes: float) -> float | None:
    return round(size_bytes) if plan.ground.sizes else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _nested(settings: list[tuple[str, str, str, Value]]) -> Json:
    tables: Json = {}
    for table, name, key, value in settings:
        tables.setdefault(table, {}).setdefault(name, {})[key] = value
    return tables


def plan_table(plan: MovePlan) -> RenderableType:
    """Return the lines for people."""
    really = moving(plan.ground.moves)
    # Each warning stays on one line, however narrow the terminal: it may contain a command to be copied.
    warnings = [Text(f"warning: {warning}", "yellow", no_wrap=True, overflow="ignore") for warning in plan.warnings]
    if not really:
        return Group(Text("Nothing moves between brokers: every replica that is wanted is there already."), *warnings)
    size = format_bytes(plan.total_bytes) if plan.ground.sizes else "of unknown size"
    partitions = f"{len(really)} partition{'s' if len(really) > 1 else ''}"
    parts: list[RenderableType] = [Text(f"{partitions} to move, {size} over the network{_end(plan)}"), Text()]
    parts += [_brokers(plan), Text(), _lists(throttle(plan.ground.moves, plan.rates).settings())]
    return Group(*parts, *warnings)


def _end(plan: MovePlan) -> str:
    seconds = plan.total_seconds
    if math.isnan(seconds):
        return ""
    if math.isinf(seconds):
        return ", without end at these rates"
    return f", in about {format_duration(seconds)}"


def _brokers(plan: MovePlan) -> Table:
    table = folding_table("broker", "role", right=("to move", "rate", "time", "written meanwhile", "IN"))
    measured, known = plan.ground.inflow is not None, bool(plan.ground.sizes)
    for load in plan.loads:
        rate = plan.rates.get((load.broker, load.role))
        table.add_row(
            str(load.broker),
            load.role,
            format_bytes(load.move_bytes) if known else "-",
            "-" if rate is None else _rate(rate),
            _time(plan.seconds(load)) if known else "-",
            _rate(load.written_bytes_per_second) if measured else "-",
            _rate(load.inflow_bytes_per_second) if measured else "-",
        )
    busy = {(load.broker, load.role) for load in plan.loads}
    for broker, role in sorted(plan.rates.keys() - busy):
        table.add_row(str(broker), role, "if it leads", _rate(plan.rates[broker, role]), "-", "-", "-")
    return table


def _lists(settings: list[tuple[str, str, str, Value]]) -> Table:
    table = folding_table("topic", "role", "throttled replicas (partition:broker)")
    rows = [row for row in settings if row[0] == "topics"]
    for _, topic, key, value in rows[:_MAX_MOVES]:
        table.add_row(topic, key.partition(".")[0], str(value))
    if len(rows) > _MAX_MOVES:
        table.add_row("…", "", f"{len(rows) - _MAX_MOVES} lists more: --json has them all")
    return table


def _rate(bytes_per_second: float) -> str:
    return "no limit" if math.isinf(bytes_per_second) else f"{format_bytes(bytes_per_second)}/s"


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "never"
    return "-" if math.isnan(seconds) else format_duration(seconds)
