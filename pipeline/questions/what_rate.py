"""Finds the rate to set next time: the least that would have brought the recorded bytes in the wanted time."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from ..model.duration_curve import EXACT, MAX_FACTOR
from ..terminal import listed
from ..units import duration
from .answer import FOLLOWER_RATE, LEADER_RATE, Answer, Verdict, counted, set_rate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model.duration_curve import Recorded
    from ..model.fluid import Quotas
    from ..units import Units

QUESTION = "what-rate"
HELD = 0.5
"""A share of the moves' seconds. If a quota set the pace in fewer, another quota would change little."""
FASTER = 0.5
"""A share of the recorded time: the time to aim at if nobody says how long it may take."""
MAX_QUOTAS = 8


def answer(found: Recorded, units: Units, *, wanted_seconds: float | None = None) -> Answer:
    """Tell it; `number` is the largest of the quotas to set, in bytes per second."""
    if not any(pair.bytes for pair in found.pairs) or not found.streams:
        return Answer(QUESTION, Verdict.UNKNOWN, "Nothing moved, so that nothing says what a rate would have brought.")
    if not found.scaled:
        return Answer(QUESTION, Verdict.UNKNOWN, "There was no quota in force, so that there is none to scale.")
    modelled = found.seconds_modelled
    took = found.seconds if found.finished else modelled
    if not modelled or (wanted_seconds is None and math.isinf(took)):
        sentence = (
            f"Say with --finish-in how long it may take: with {_quotas(found, units)} it never ends."
            if modelled
            else "No journal says how much there was to bring, so that nothing says what a rate would have brought."
        )
        return Answer(QUESTION, Verdict.UNKNOWN, sentence, None, "B/s", (recording(found, units),), _doubts(found))
    return _told(found, units, took, wanted_seconds)


def _told(found: Recorded, units: Units, took: float, wanted_seconds: float | None) -> Answer:
    highest = max(found.scaled.values())
    evidence = [recording(found, units), _pace(found)]
    doubts = list(_doubts(found))
    if wanted_seconds is None and found.share_held < HELD:
        sentence = (
            f"Leave it at {units.rate(highest)}: a quota set the pace in {found.share_held:.0%} of the moves' time, so"
            " that another one changes little; the brokers, the network or their disks were slower."
        )
        return Answer(QUESTION, Verdict.GOOD, sentence, highest, "B/s", tuple(evidence), tuple(doubts))
    wanted = took * FASTER if wanted_seconds is None else wanted_seconds
    factor = found.factor_for(wanted)
    if factor is None:
        verdict, sentence = _too_little(found, wanted, units)
        return Answer(QUESTION, verdict, sentence, None, "B/s", tuple(evidence), tuple(doubts))
    rates = {key: units.rounded_up(limit * factor / EXACT) for key, limit in found.scaled.items()}
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
        told = sorted(rates.items())[:MAX_QUOTAS]
        evidence += [f"broker {broker} as {role}: {units.rate(rate)}" for (broker, role), rate in told]
        if len(rates) > MAX_QUOTAS:
            evidence.append(f"… and {counted(len(rates) - MAX_QUOTAS, 'more quota')}, each {factor:.3g} times as much")
    too_low = {broker for (broker, _), rate in rates.items() if 0 < found.inflow.get(broker, 0.0) >= rate}
    if too_low:
        doubts.append(
            f"brokers {listed(sorted(too_low), MAX_QUOTAS)} take in more than that in sync, which a quota that selects"
            " those replicas counts as well: then catching up never ends (KIP-73: T > IN)"
        )
    return Answer(QUESTION, Verdict.GOOD, sentence, number, "B/s", tuple(evidence), tuple(doubts), _set(rates, units))


def _set(rates: Quotas, units: Units) -> str:
    """Return the commands that set these rates: one for all brokers of a role that get the same."""
    alike: dict[tuple[str, float], list[str]] = defaultdict(list)
    for (broker, role), rate in sorted(rates.items()):
        alike[LEADER_RATE if role == "leader" else FOLLOWER_RATE, rate].append(broker)
    commands = [set_rate(" ".join(brokers), key, rate, units) for (key, rate), brokers in sorted(alike.items())]
    return " && ".join(commands[:MAX_QUOTAS])


def _too_little(found: Recorded, wanted: float, units: Units) -> tuple[Verdict, str]:
    """Return what to say where the most that the quotas are scaled by is not enough: it may be the links, or a quota of
    0, which is 0 however often it is taken."""
    without = found.seconds_at(math.inf)
    if without > wanted:
        return Verdict.BAD, (
            f"No rate does it in {duration(wanted)}: with the quotas out of the way it still takes {_took(without)}, by"
            " how much each link has to carry."
        )
    return Verdict.UNKNOWN, (
        f"No multiple of {_quotas(found, units)}, up to {MAX_FACTOR:,.0f} times as much, does it in"
        f" {duration(wanted)}; without quotas the model says {_took(without)}."
    )


def _quotas(found: Recorded, units: Units) -> str:
    mean = ", the mean of what it was while it changed," if found.changes else ""
    return f"{_range(found.scaled.values(), units)}{mean}"


def recording(found: Recorded, units: Units) -> str:
    """Return what moved, over how many links, in which time."""
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


def _doubts(found: Recorded) -> tuple[str, ...]:
    doubts = [_trust(found), *found.inside.left_out]
    if found.inside.bounds:
        doubts.append(f"rates inside the quotas stay as they are: {found.inside.in_words()}")
    unknown = sum(pair.unknown for pair in found.pairs)
    if unknown:
        doubts.append(
            f"of {counted(unknown, 'move')} no journal says how far behind it was (the high watermark was never known):"
            " the model takes that for nothing"
        )
    return tuple(doubts)


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
