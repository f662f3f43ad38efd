"""The page: one HTML file with everything in it, for a screen, a phone, and paper.

Pure: facts in, text out. First what is answered, in sentences; then who and when; then only those that something was
the matter with. Invariant: whatever comes from a journal is escaped; nothing is loaded, and the page itself forbids it.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from ..questions.answer import counted, moment, replica
from ..questions.who_was_starved import stood_still
from ..units import duration
from .drawing import figure, library
from .facts import MAX_PAIRS
from .overviews import MAP_LEFT, curve_plot, link_map, moves_plot, share_map
from .plots import outlier_plot
from .style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..model.backtest import BackTest
    from ..model.broker_pairs import Pair
    from ..questions.answer import Answer
    from ..questions.will_it_finish import Left
    from ..units import Units
    from .buckets import LinkGrid
    from .facts import Facts
    from .outlier import LagEnd, Outlier

FORBIDDEN = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"
"""Content Security Policy: no address is asked for anything. Vega compiles its expressions, which is called eval."""
POINTED = "Pointed at, a plot says what it was then."
ALL = 0.95
"""The share of a quota from which on it counts as fully used, as far as colours go."""
CURVE = "How long it takes by the quota"
ZOOMED = "Wheel with Ctrl, or two fingers on a touchpad: nearer; drag: earlier and later; double click: all of it."


def render(facts: Facts) -> str:
    """Return the whole page."""
    between = f"{counted(facts.brokers, 'broker')}, {moment(facts.began)} to {moment(facts.ended)}"
    parts = [
        "<h1>Replication under quotas</h1>",
        f'<p class="quiet">{_text(between)}, as their sidecars recorded it.</p>',
        f'<p class="moved">{_text(facts.moved)}</p>',
        *(_answer(answer) for answer in facts.answers),
        _grid(facts),
        _outliers(facts),
        _moves(facts),
        _what_if(facts),
        _sources(facts),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{FORBIDDEN}">'
        f"<title>Replication report</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body><main>{''.join(parts)}</main>{library()}</body></html>\n"


def _answer(answer: Answer) -> str:
    items = [*answer.evidence, *(f"but: {text}" for text in answer.uncertainty)]
    told = "".join(f"<li>{_text(item)}</li>" for item in items)
    command = f"<p><code>{_text(answer.command)}</code></p>" if answer.command else ""
    more = f"<details><summary>evidence</summary><ul>{told}</ul></details>" if items else ""
    asked = f'<div class="quiet">{_text(answer.question.replace("-", " ").capitalize())}?</div>'
    return (
        f'<div class="answer {answer.verdict.name.lower()}">{asked}<b>{_text(answer.sentence)}</b>{command}{more}</div>'
    )


def _grid(facts: Facts) -> str:
    grid = facts.grid
    if not grid.rows:
        return ""
    left_out = f" The {len(grid.rows)} of {grid.all_rows} that matter most." if grid.all_rows > len(grid.rows) else ""
    most = "all of the quota" if not 0 < grid.most_share < ALL else f"{grid.most_share:.0%} of the quota, the most"
    squares = f"A square is {duration(grid.columns.seconds_per_column)}; pointed at, it says what it is."
    return (
        f'<h2>Who, and when</h2><p class="quiet">{squares}{left_out}</p><h3>How much of its quota each used</h3>'
        + _legend(("--share", most), ("--bad", "over the bound", "frame"))
        + figure(share_map(grid), "Share of the quota that each broker used", left=MAP_LEFT)
        + _links(facts.links)
    )


def _links(links: LinkGrid) -> str:
    if not links.rows:
        return ""
    left_out = ""
    if links.all_rows > len(links.rows):
        left_out = f'<p class="quiet">The {len(links.rows)} of {links.all_rows} that were, or will be, behind most.</p>'
    return (
        f"<h3>Which links were behind</h3>{left_out}"
        + _legend(("--lag", f"{links.most:.3g} replicas behind, the most"))
        + figure(link_map(links), "How many replicas of each link were behind", left=MAP_LEFT)
    )


def _legend(*entries: tuple[str, ...]) -> str:
    """Return a legend; entries: a colour of the page, what it means, and the kind of its mark if that is no square."""
    inner = "".join(
        f'<span><i class="swatch {"".join(kind)}" style="--of:var({variable})"></i>{_text(meaning)}</span>'
        for variable, meaning, *kind in entries
    )
    return f'<p class="legend">{inner}</p>'


def _outliers(facts: Facts) -> str:
    shown = ""
    if not facts.all_outliers:
        shown = '<p class="quiet">No broker: none was over its bound, stalled, or behind at the end. The busiest:</p>'
    if facts.all_outliers > len(facts.outliers):
        shown = f'<p class="quiet">The {len(facts.outliers)} worst of {counted(facts.all_outliers, "broker")}.</p>'
    legend = _legend(
        ("--leader", "as leader", "line"), ("--follower", "as follower", "line"), ("--muted", "quota", "dashes"),
        ("--limit", "the quota changed", "dots"), ("--muted", "at its pace, with the 80 % interval", "dots"),
        *([("--leader-band", "up to the worst second")] if facts.seconds_per_point > 1 else ()),
    )  # fmt: skip
    marks = (
        f'<p class="quiet">{POINTED} {ZOOMED} After the last second: where the lag goes at its pace since the'
        " last change. Lines end where nothing was recorded.</p>"
    )
    figures = "".join(_outlier(one, facts) for one in facts.outliers)
    return f"<h2>Out of the ordinary</h2>{shown}{marks}{legend}{figures}"


def _outlier(one: Outlier, facts: Facts) -> str:
    told = [f"{counted(one.broken, 'window')} over the bound"] if one.broken else []
    told += [
        f"{counted(row.seconds, 'second')} without getting nearer as {row.role}, from {moment(row.first)}: {row.cause}"
        for row in one.stalls
    ]
    told += [f"without a byte: {stood_still(row, facts.units)}" for row in facts.starved if row.broker == one.broker]
    told += [f"{_left(side.end, facts.units)} behind at the end as {side.role}" for side in one.sides if side.end]
    items = "".join(f"<li>{_text(item)}</li>" for item in told)
    spec = outlier_plot(one, facts.units, facts.seconds_per_point)
    title = f"Rates, quotas and lag of broker {one.broker} as leader and as follower"
    plot = "" if spec is None else figure(spec, title)
    return f"<figure><h3>Broker {one.broker}</h3><ul>{items}</ul>{plot}</figure>"


def _left(end: LagEnd, units: Units) -> str:
    if end.lag_bytes is None:
        return f"{counted(end.messages, 'message')}, in bytes not known,"
    return units.size(end.lag_bytes)


def _moves(facts: Facts) -> str:
    pairs = facts.recorded.pairs
    if not pairs:
        return ""
    last = sorted(pairs, key=lambda pair: (-_ends(pair, facts), pair))[:MAX_PAIRS]
    shown = sorted(last, key=lambda pair: (pair.began, -_ends(pair, facts), pair))
    left_out = f'<p class="quiet">The {MAX_PAIRS} of {len(pairs)} that end last.</p>' if len(pairs) > MAX_PAIRS else ""
    rows = [
        (f"{pair.source} → {pair.destination}", pair.moves, pair.moves - pair.unfinished, facts.units.size(pair.bytes),
         _progress(pair), _eta(pair, facts.left.get((pair.source, pair.destination)), facts.units),
         duration(pair.ended - pair.began), f"{pair.share_held:.0%}")
        for pair in shown
    ]  # fmt: skip
    names = ("from → to", "moves", "ended", "bytes", "done", "to go", "time", "held by a quota")
    legend = _legend(("--bar", "share of the moves that ended"), ("--grid", "not ended"))
    plot = figure(moves_plot(shown, facts.units), "When each pair of brokers had something to move", left=0)
    return f"<h2>What moved</h2>{left_out}{legend}<figure>{plot}</figure>{table(names, rows)}{_replicas(facts)}"


def _ends(pair: Pair, facts: Facts) -> float:
    """Return the second of its end, the expected one if it has not ended; infinity: never."""
    left = facts.left.get((pair.source, pair.destination)) if pair.unfinished else None
    if left is None:
        return float(pair.ended)
    return math.inf if left.seconds is None else facts.ended + left.seconds


def _progress(pair: Pair) -> str:
    """Return the share of what there was to bring that was brought."""
    if not pair.unfinished:
        return "100%"
    whole = pair.backlog_bytes + pair.written_bytes
    return "not known" if pair.unknown or not whole else f"{min(pair.bytes / whole, 0.99):.0%}"


def _eta(pair: Pair, left: Left | None, units: Units) -> str:
    """Return how long what is left takes from the end of the recording on."""
    if not pair.unfinished:
        return ""
    if left is None:
        return "not known"
    return f"{units.size(left.bytes)}, {'never' if left.seconds is None else duration(left.seconds)}"


def _replicas(facts: Facts) -> str:
    """Return a table of the worst replicas, whether they have caught up or not."""
    rows = [
        (replica(row), duration(row.seconds), moment(row.began), facts.units.size(row.bytes),
         "caught up" if row.finished else "not known" if row.lacks is None else f"{facts.units.size(row.lacks)} left")
        for row in facts.worst_replicas
    ]  # fmt: skip
    names = ("replica", "behind for", "from", "brought", "at the end")
    return f"<h3>The replicas that were behind for longest</h3>{table(names, rows)}"


def _what_if(facts: Facts) -> str:
    if facts.curve is None:
        return ""
    told = [
        _error(facts.model, "the model, for each pair of brokers that moved something: how long it took"),
        _error(facts.plan, "plan, for each broker whose quota set the pace: the rate that it would have said"),
    ]
    items = "".join(f"<li>{_text(item)}</li>" for item in told)
    legend = _legend(
        ("--leader", "by the model", "line"), ("--limit", "recorded", "dot"), ("--follower", "to be set", "dashes")
    )
    return (
        '<h2>What if</h2><p class="quiet">The same demand under other quotas, shared by turns: the strict policy in the'
        f" long run.</p>{legend}<figure>{figure(curve_plot(facts.curve, facts.units), CURVE)}</figure>"
        f"<h3>How exact this is, by what was recorded</h3><ul>{items}</ul>"
    )


def _error(found: BackTest, what: str) -> str:
    left_out = "; ".join(f"{count} not tested: {why}" for why, count in sorted(found.left_out.items()))
    more = f"; {left_out}" if left_out else ""
    if found.median_and_worst is None:
        return f"{what}: nothing could be held against it{more}"
    median, worst = found.median_and_worst
    tests = counted(len(found.tested), "test")
    return f"{what}: median error {median:.0%} in {tests}, the worst {worst.error:+.0%} ({worst.what}){more}"


def _sources(facts: Facts) -> str:
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(facts.files.items()))
    text = f"Journal files: {states}. Lines set aside: {facts.quarantined:,}. Times are UTC."
    return f"<h2>From what</h2><p>{_text(text)}</p>"


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table that scrolls by itself where the screen is narrow."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(value: object) -> str:
    return html.escape(str(value))
