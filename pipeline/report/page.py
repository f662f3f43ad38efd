"""The page: one HTML file with everything in it, for a screen, a phone, and paper.

Pure: facts in, text out. `page.html.jinja` is what it says and in which order: first what is answered, in sentences;
then who and when; then only those that something was the matter with. Invariant: whatever comes from a journal is
escaped, by Jinja; nothing is loaded, and the page itself forbids it.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..questions.answer import counted, moment, replica
from ..questions.was_it_kept import incident_in_words
from ..questions.who_was_starved import stood_still
from ..questions.will_it_finish import lost_in_words
from ..units import duration
from .drawing import FONT, figure, library
from .facts import MAX_PAIRS
from .overviews import MAP_LEFT, curve_plot, link_map, moves_plot, share_map
from .plots import outlier_plot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jinja2 import Template

    from ..model.backtest import BackTest
    from ..model.broker_pairs import Pair
    from ..questions.will_it_finish import Left
    from ..units import Units
    from .buckets import Grid
    from .facts import Facts
    from .outlier import LagEnd, Outlier

ALL = 0.95
"""The share of a quota from which on it counts as fully used, as far as colours go."""


def render(facts: Facts) -> str:
    """Return the whole page."""
    return _template().render(facts=facts)


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for one in (
        counted, curve_plot, duration, error, figure, last_pairs, library, link_map, moment, most_of_a_quota,
        moves_plot, outlier_plot, rows_of_pairs, rows_of_replicas, share_map, troubles,
    ):  # fmt: skip
        environment.globals[one.__name__] = one
    environment.globals.update(font=FONT, MAP_LEFT=MAP_LEFT)
    return environment.get_template("page.html.jinja")


def most_of_a_quota(grid: Grid) -> str:
    return "all of the quota" if not 0 < grid.most_share < ALL else f"{grid.most_share:.0%} of the quota, the most"


def troubles(one: Outlier, facts: Facts) -> Iterator[str]:
    """Yield what was the matter with a broker."""
    if one.broken:
        yield f"{counted(one.broken, 'window')} over the bound"
    for row in one.stalls:
        seconds = counted(row.seconds, "second")
        yield f"{seconds} without getting nearer as {row.role}, from {moment(row.first)}: {row.cause}"
    yield from _of_links(one.broker, facts)
    for side in one.sides:
        if side.end:
            yield f"{lag_at_the_end(side.end, facts.units)} behind at the end as {side.role}"


def _of_links(broker: int, facts: Facts) -> Iterator[str]:
    for row in facts.broken_inside:
        if row.broker == broker:
            yield f"over the bound of a rate inside its quota: {incident_in_words(row, facts.units)}"
    for waiting in facts.lost:
        if waiting.broker is not None and waiting.broker[0] == broker:
            yield f"lost: {lost_in_words(waiting, facts.units)}"
    for row in facts.starved:
        if row.broker == broker:
            yield f"without a byte: {stood_still(row, facts.units)}"


def lag_at_the_end(end: LagEnd, units: Units) -> str:
    if end.lag_bytes is None:
        return f"{counted(end.messages, 'message')}, in bytes not known,"
    return units.size(end.lag_bytes)


def last_pairs(facts: Facts) -> Sequence[Pair]:
    """Return the pairs that end last, in the order in which they began."""
    last = sorted(facts.recorded.pairs, key=lambda pair: (-_ends(pair, facts), pair))[:MAX_PAIRS]
    return sorted(last, key=lambda pair: (pair.began, -_ends(pair, facts), pair))


def _ends(pair: Pair, facts: Facts) -> float:
    """Return the second of its end, the expected one if it has not ended; infinity: never."""
    left = facts.left.get((pair.source, pair.destination)) if pair.unfinished else None
    if left is None:
        return float(pair.ended)
    return math.inf if left.seconds is None else facts.ended + left.seconds


def rows_of_pairs(pairs: Sequence[Pair], facts: Facts) -> Iterator[tuple[object, ...]]:
    for pair in pairs:
        yield (
            f"{pair.source} → {pair.destination}", pair.moves, pair.moves - pair.unfinished,
            facts.units.size(pair.bytes), progress(pair),
            still_to_go(pair, facts.left.get((pair.source, pair.destination)), facts.units),
            duration(pair.ended - pair.began), f"{pair.share_held:.0%}",
        )  # fmt: skip


def progress(pair: Pair) -> str:
    """Return the share of what there was to bring that was brought."""
    if not pair.unfinished:
        return "100%"
    whole = pair.backlog_bytes + pair.written_bytes
    return "not known" if pair.unknown or not whole else f"{min(pair.bytes / whole, 0.99):.0%}"


def still_to_go(pair: Pair, left: Left | None, units: Units) -> str:
    """Return how long what is left takes from the end of the recording on."""
    if not pair.unfinished:
        return ""
    if left is None or left.bytes is None:
        return "not known"
    end = "not known" if not left.is_known else "never" if left.seconds is None else duration(left.seconds)
    return f"{units.size(left.bytes)}, {end}"


def rows_of_replicas(facts: Facts) -> Iterator[tuple[str, ...]]:
    """Yield the worst replicas, whether they have caught up or not."""
    for row in facts.worst_replicas:
        end = (
            "caught up" if row.finished else "not known" if row.lacks is None else f"{facts.units.size(row.lacks)} left"
        )
        yield replica(row), duration(row.seconds), moment(row.began), facts.units.size(row.bytes), end


def error(found: BackTest, what: str) -> str:
    left_out = "; ".join(f"{count} not tested: {why}" for why, count in sorted(found.left_out.items()))
    more = f"; {left_out}" if left_out else ""
    if found.median_and_worst is None:
        return f"{what}: nothing could be held against it{more}"
    median, worst = found.median_and_worst
    tests = counted(len(found.tested), "test")
    return f"{what}: median error {median:.0%} in {tests}, the worst {worst.error:+.0%} ({worst.what}){more}"
