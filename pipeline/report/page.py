"""The page: one HTML file with everything in it, for a screen, a phone, and paper.

Pure: facts in, text out. Invariant: whatever comes from a journal is escaped; nothing is loaded, nothing runs.
"""

from __future__ import annotations

import html
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .plots import lag_plot, moves_plot, rate_plot, share_plot, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .facts import Facts, LagPoint

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --muted: #60646c; --grid: #d9dbe0; --rate: #0b68cb;
  --peak: #b4530a; --limit: #c62a2f; --band: #0b68cb33; --good: #18794e; --bad: #c62a2f; --card: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --paper: #111315; --ink: #edeef0; --muted: #a3a8ae; --grid: #34383d;
  --rate: #6cb1ff; --peak: #ffa057; --limit: #ff8589; --band: #6cb1ff33; --good: #4cc38a; --bad: #ff8589;
  --card: #1b1e21; } }
* { box-sizing: border-box; } body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 0; } p, figcaption { color: var(--muted); margin: .2rem 0 .8rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.card { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; } .card b { display: block;
  font-size: 1.35rem; } .card span { color: var(--muted); font-size: .85rem; }
.good { color: var(--good); } .bad { color: var(--bad); } svg { display: block; width: 100%; height: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 1.5rem; }
figure.alone { max-width: 44rem; } .wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--muted); font-weight: 500; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 0; break-inside: avoid; }
@media print { :root { --paper: #fff; --ink: #000; --muted: #444; --grid: #bbb; --rate: #0b68cb; --peak: #b4530a;
  --limit: #c62a2f; --band: #0b68cb33; --good: #18794e; --bad: #c62a2f; --card: #f3f3f3; } body { max-width: none;
  padding: 0; font-size: 11px; } .wide { overflow: visible; } th, td { white-space: normal; } }
"""


VERDICTS = {"kept": "good", "broken": "bad"}
"""What is coloured."""


def render(facts: Facts) -> str:
    """Return the whole page."""
    parts = [
        f"<h1>Replication, {_time(facts.began)} to {_time(facts.ended)}</h1>",
        f"<p>{facts.brokers} brokers, as their sidecars recorded it. Times are UTC.</p>",
        _cards(facts),
        _audit(facts),
        _rates(facts),
        _lag(facts),
        _moves(facts),
        _topics(facts),
        _what_if(facts),
        _sources(facts),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Replication report</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body><main>{''.join(parts)}</main></body></html>\n"


def _cards(facts: Facts) -> str:
    ends = [points[-1] for points in facts.lag.values() if points]
    lag = max((point.lag for point in ends), default=0)
    worst = max((row.worst_1s for row in facts.audit if row.worst_1s is not None), default=None)
    return _section_cards(
        [
            (facts.verdict, "the bound, in every window", VERDICTS.get(facts.verdict, "")),
            ("-" if worst is None else f"{worst:.2f} x", "worst second, over its quota", ""),
            (f"{size(facts.bytes)}", "throttled bytes, as quotas count them", ""),
            (f"{lag:,.0f}", "messages behind at the end, worst broker", "good" if not lag else ""),
            (_remaining(ends), "until it has caught up", ""),
        ]
    )


def _section_cards(cards: Iterable[tuple[str, str, str]]) -> str:
    inner = "".join(
        f'<div class="card"><b class="{kind}">{_text(value)}</b><span>{_text(label)}</span></div>'
        for value, label, kind in cards
    )
    return f'<div class="cards">{inner}</div>'


def _remaining(ends: Sequence[LagPoint]) -> str:
    left = [point for point in ends if point.lag]
    if not left:
        return "done"
    if any(point.drain is not None and point.eta_seconds is None for point in left):
        return "never, at this rate"
    if any(point.drain is None for point in left):
        return "not known yet"
    return duration(max(point.eta_seconds or 0.0 for point in left))


def _audit(facts: Facts) -> str:
    rows = [
        (row.broker, row.role, f"{size(row.limit)}/s", _ratio(row.mean_ratio), _ratio(row.smoothness),
         _ratio(row.worst_1s), _ratio(row.worst_11s), row.over_1s + row.over_11s, row.verdict)
        for row in facts.audit
    ]  # fmt: skip
    names = (
        "broker",
        "role",
        "quota",
        "mean / Q",
        "st. dev. / Q",
        "worst 1 s / Q",
        "worst 11 s / Q",
        "over",
        "verdict",
    )
    text = "<h2>Was the bound kept?</h2><p>Windows slide by whole seconds; mean and deviation are of seconds in which "
    text += "something was held back.</p>" + table(names, rows)
    if facts.evidence:
        text += f"<h3>When it was not ({len(facts.evidence)} of {facts.all_evidence}, the worst first)</h3>"
        text += table(
            ("broker", "role", "window", "from", "windows", "worst / Q", "bytes", "allowed", "cause"),
            [
                (row.broker, row.role, f"{row.window_seconds} s", _time(row.first), row.windows, _ratio(row.ratio),
                 size(row.bytes), size(row.allowed), row.cause)
                for row in facts.evidence
            ],
        )  # fmt: skip
    return text


def _rates(facts: Facts) -> str:
    text = "<h2>Rate against quota</h2>"
    if facts.all_series > len(facts.series):
        text += f"<p>The busiest {len(facts.series)} of {facts.all_series}.</p>"
    plots = [
        _figure(f"Broker {series.broker} as {series.role}", rate_plot(series, facts.seconds_per_point))
        for series in facts.series
    ]
    return f'{text}<div class="plots">{"".join(plots)}</div>'


def _lag(facts: Facts) -> str:
    text = "<h2>How far behind</h2>"
    behind = {key: points for key, points in facts.lag.items() if any(point.lag for point in points)}
    if not behind:
        return text + "<p>Nobody was.</p>"
    plots = [
        _figure(f"Broker {broker} as {role}", lag_plot(broker, role, points, facts.seconds_per_point))
        for (broker, role), points in list(behind.items())[: len(facts.series) or 1]
    ]
    text += f'<div class="plots">{"".join(plots)}</div>'
    if facts.stalls:
        text += "<h3>When it did not get less</h3>" + table(
            ("broker", "role", "seconds", "first", "last", "cause"),
            [(r.broker, r.role, r.seconds, _time(r.first), _time(r.last), r.cause) for r in facts.stalls],
        )
    return text


PACE = {
    "leader": "the source's quota, shared by several destinations",
    "follower": "the destination's quota, shared by several sources",
    "independent": "a quota, shared with no other broker",
    "no quota": "no quota",
}
"""By what bound a move, as `pipeline.moves` calls it."""


def _moves(facts: Facts) -> str:
    if not facts.moves:
        return ""
    rows = [
        (f"{row.topic}-{row.partition}", f"{row.source} → {row.destination}", duration(row.seconds), size(row.bytes),
         f"{size(row.bytes_per_second)}/s", PACE[row.bound], "yes" if row.finished else "no")
        for row in facts.moves
    ]  # fmt: skip
    names = ("partition", "from → to", "time", "bytes", "rate", "pace set by", "finished")
    shown = f"<p>The longest {len(facts.moves)} of {facts.all_moves}.</p>" if facts.all_moves > len(facts.moves) else ""
    return (
        "<h2>Moves</h2>"
        + shown
        + _figure("When each was behind", moves_plot(facts.moves), "alone")
        + table(names, rows)
    )


def _topics(facts: Facts) -> str:
    return "<h2>Topics</h2>" + _figure("Bytes moved", share_plot(facts.topics), "alone") if facts.topics else ""


def _what_if(facts: Facts) -> str:
    if not facts.what_if:
        return ""
    rows = [
        (f"{size(row.bytes_per_second)}/s", "never" if math.isinf(row.seconds) else duration(row.seconds),
         f"{size(row.worst_second or 0.0)}/s")
        for row in facts.what_if
    ]  # fmt: skip
    role = facts.what_if[0].role
    return (
        "<h2>What if</h2><p>The same demand from its beginning, under another quota of every "
        f"{_text(role)}, by the sidecar's own admission.</p>"
        + table((f"quota of each {role}", "the slowest link has caught up after", "worst second"), rows)
    )


def _sources(facts: Facts) -> str:
    states = ", ".join(f"{count} {state}" for state, count in sorted(facts.files.items()))
    return f"<h2>From what</h2><p>Journal files: {_text(states)}. Lines set aside: {facts.quarantined}.</p>"


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table that scrolls by itself where the screen is narrow."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def duration(seconds: float) -> str:
    """``1 h 02 min``, ``3 min 20 s``, ``12 s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _figure(caption: str, svg: str, kind: str = "") -> str:
    return f'<figure class="{kind}"><h3>{_text(caption)}</h3>{svg}</figure>'


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _text(value: object) -> str:
    return html.escape(str(value))
