"""What rate to set next time, and why: the least that would have brought what was recorded in the wanted time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..curve import EXACT
from ..units import duration
from .answer import Answer, Verdict, counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..curve import Recorded
    from ..units import Units

QUESTION = "what-rate"
HELD = 0.5
"""A share of the moves' seconds. If a quota set the pace in fewer, another quota would change little."""
FASTER = 0.5
"""A share of the recorded time: the time to aim at if nobody says how long it may take."""
MOST_QUOTAS = 8


def answer(found: Recorded, units: Units, *, wanted_seconds: float | None = None) -> Answer:
    """Tell it; `number` is the largest of the quotas to set, in bytes per second."""
    if not found.pairs or not found.streams:
        return Answer(QUESTION, Verdict.UNKNOWN, "Nothing moved, so that nothing says what a rate would have brought.")
    if not found.quotas:
        return Answer(QUESTION, Verdict.UNKNOWN, "There was no quota in force, so that there is none to scale.")
    took = found.seconds if found.finished else found.seconds_modelled
    if wanted_seconds is None and math.isinf(took):
        sentence = f"Say with --finish-in how long it may take: with {_quotas(found, units)} it never ends."
        return Answer(QUESTION, Verdict.UNKNOWN, sentence, None, "B/s", (recording(found, units),), (_trust(found),))
    highest = max(found.quotas.values())
    evidence = [recording(found, units), _pace(found)]
    doubts = [_trust(found), *found.inside.left_out]
    if found.inside.bounds:
        doubts.append(f"rates inside the quotas stay as they are: {found.inside.in_words()}")
    if wanted_seconds is None and found.share_held < HELD:
        sentence = (
            f"Leave it at {units.rate(highest)}: a quota set the pace in {found.share_held:.0%} of the moves' time, so"
            " that another one changes little; the brokers, the network or their disks were slower."
        )
        return Answer(QUESTION, Verdict.GOOD, sentence, highest, "B/s", tuple(evidence), tuple(doubts))
    wanted = took * FASTER if wanted_seconds is None else wanted_seconds
    factor = found.factor_for(wanted)
    if factor is None:
        sentence = (
            f"No rate does it in {duration(wanted)}: with the quotas out of the way it still takes"
            f" {_took(found.seconds_at(math.inf))}, by how much each link has to carry."
        )
        return Answer(QUESTION, Verdict.BAD, sentence, None, "B/s", tuple(evidence), tuple(doubts))
    rates = {key: units.rounded_up(limit * factor / EXACT) for key, limit in found.quotas.items()}
    number = max(rates.values())
    alike = len(set(rates.values())) == 1
    set_to = f"Set {units.rate(number)}" if alike else f"Set {_range(rates.values(), units)} (listed below)"
    goal = "half the time" if wanted_seconds is None else f"{duration(wanted)}"
    how = "it took" if found.finished else "it would take"
    sentence = (
        f"{set_to} to have it in {goal}: with {_quotas(found, units)} {how} {_took(took)}, and a quota set the pace in"
        f" {found.share_held:.0%} of {'that' if found.finished else 'what was recorded'}."
    )
    if not alike:
        told = sorted(rates.items())[:MOST_QUOTAS]
        evidence += [f"broker {broker} as {role}: {units.rate(rate)}" for (broker, role), rate in told]
        if len(rates) > MOST_QUOTAS:
            evidence.append(f"… and {counted(len(rates) - MOST_QUOTAS, 'more quota')}, each {factor:.3g} times as much")
    too_low = [broker for (broker, _), rate in rates.items() if rate <= found.inflow.get(broker, 0.0)]
    if too_low:
        doubts.append(
            f"brokers {', '.join(sorted(set(too_low)))} take in more than that in sync, which a quota that selects"
            " those replicas counts as well: then catching up never ends (KIP-73: T > IN)"
        )
    return Answer(QUESTION, Verdict.GOOD, sentence, number, "B/s", tuple(evidence), tuple(doubts))


def _quotas(found: Recorded, units: Units) -> str:
    mean = ", the mean of what it was while it changed," if found.changes else ""
    return f"{_range(found.quotas.values(), units)}{mean}"


def recording(found: Recorded, units: Units) -> str:
    """What moved, over how many links, in which time."""
    moved = sum(pair.bytes for pair in found.pairs)
    number = sum(pair.moves for pair in found.pairs)
    links = len({(pair.source, pair.destination) for pair in found.pairs})
    return (
        f"{counted(number, 'move')} over {counted(links, 'link')} brought {units.size(moved)} in"
        f" {duration(found.seconds)}{'' if found.finished else ', and not all had ended'}"
    )


def _pace(found: Recorded) -> str:
    last = found.pairs[0]
    return (
        f"the last link was {last.source} to {last.destination}; there a quota set the pace in {last.share_held:.0%} of"
        " the moves' seconds"
    )


def _trust(found: Recorded) -> str:
    if found.error is None:
        return "the model could not be held against this recording, since not everything in it ended"
    at = found.seconds_modelled
    return (
        f"for the recorded quotas the model says {_took(at)} where {duration(found.seconds)} were recorded"
        f" ({found.error:+.0%})"
    )


def _took(seconds: float) -> str:
    return "for ever" if math.isinf(seconds) else duration(seconds)


def _range(values: Iterable[float], units: Units) -> str:
    found = sorted(set(values))
    return units.rate(found[0]) if len(found) == 1 else f"{units.rate(found[0])} to {units.rate(found[-1])}"
