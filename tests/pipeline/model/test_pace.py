"""The pace of links, held against moves that go on: how far off it is, and how often its interval has the truth."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from pipeline.jobs.lag import MIN_SECONDS
from pipeline.model.pace import STILL_SECONDS, TURN_BYTES, End, History, Pace, ends, is_still, last_step, paces
from tests.pipeline.model.generated_moves import KINDS, generate

if TYPE_CHECKING:
    from tests.pipeline.model.generated_moves import Told


def asked(told: Told) -> End:
    quotas = {side: said[-1][1] for side, said in told.limits.items() if math.isfinite(said[-1][1])}
    found = paces(told.links, told.left, told.limits)
    return ends(told.links, found, told.left, quotas, in_sync=told.in_sync)[0]


class Judged(NamedTuple):
    kinds: tuple[str, ...]
    error: float
    is_inside: bool


def judged(first_seed: int, number: int) -> list[Judged]:
    """Ask at drawn moments. Where a rival has just ended nobody knows the pace, and it is said: that is no answer."""
    found: list[Judged] = []
    seed, unknown = first_seed, 0
    while len(found) < number:
        seed += 1
        told = generate(seed)
        if told is None or told.truth < 5:
            continue
        end = asked(told)
        if end.by_quotas:
            unknown += 1
            continue
        truth = told.truth
        if end.seconds is None or math.isinf(truth):
            error = 0.0 if end.seconds is None and math.isinf(truth) else math.inf
        else:
            error = end.seconds / truth - 1
        is_inside = end.high is None if math.isinf(truth) else (
            end.low is not None and end.low <= truth <= (math.inf if end.high is None else end.high)
        )  # fmt: skip
        found.append(Judged(told.kinds, error, is_inside))
    assert unknown < number / 10
    return found


@pytest.mark.parametrize("number", [100, pytest.param(400, marks=pytest.mark.long)])
def test_ten_seconds_after_a_change_the_end_is_known_and_its_interval_has_the_truth(number: int) -> None:
    found = judged(50_000, number)
    assert statistics.median(abs(one.error) for one in found) <= 0.05
    assert 0.75 <= sum(one.is_inside for one in found) / number <= 0.9
    assert {kind for one in found for kind in one.kinds} == set(KINDS)


def test_a_replica_that_is_brought_nothing_changes_nothing_for_the_others() -> None:
    """It is told by itself (`is_still`); the end of the others is as well known as without it."""
    errors = []
    for seed in range(60):
        told = generate(seed, stuck=True)
        if told is not None and 5 <= told.truth < math.inf:
            end = asked(told)
            if end.seconds is not None and not end.by_quotas:
                errors.append(abs(end.seconds / told.truth - 1))
    assert len(errors) > 25
    assert statistics.median(errors) <= 0.05


@pytest.mark.parametrize(
    ("rate", "observed", "among", "pace", "still"),
    [
        (0.0, 60, 2, 1e6, True), (1.0, 60, 2, 1e6, False), (0.0, 29, 2, 1e6, False), (0.0, 60, 1, 0.0, True),
        # One of 61 that take turns of a megabyte.
        (0.0, 60, 61, 1e6, False),
    ],
)  # fmt: skip
def test_who_gets_nothing_though_its_turn_came(
    rate: float, observed: float, among: int, pace: float, *, still: bool
) -> None:
    assert is_still(rate, observed, among=among, pace=pace) is still


def test_the_last_step_of_the_mean_is_found_and_noise_is_none() -> None:
    noise = np.random.default_rng(5).normal(0, 8, 60)
    assert last_step(100 + noise) == 0
    assert last_step(np.concatenate([100 + noise[:40], 60 + noise[40:]])) == pytest.approx(40, abs=1)
    assert last_step(np.concatenate([np.zeros(20), np.full(4, 50.0)])) == 20
    assert last_step(np.zeros(30)) == last_step(np.array([])) == 0


def test_a_pause_is_no_step_until_it_has_lasted_for_half_a_minute() -> None:
    steady = np.full(60, 5.0)
    for seconds in (1, 3, STILL_SECONDS - 1):
        assert last_step(np.concatenate([steady, np.zeros(seconds)])) == 0
        assert last_step(np.concatenate([steady, np.zeros(seconds), steady[:2]])) == 0
    assert last_step(np.concatenate([steady, np.zeros(STILL_SECONDS)])) == 60


def told_ends(gained: list[float], limits: list[tuple[int, float]], left: float = 1000.0) -> End:
    return told_pace(gained, limits, left)[1]


def told_pace(gained: list[float], limits: list[tuple[int, float]], left: float = 1000.0) -> tuple[Pace, End]:
    """The replicas were behind all the time."""
    link = History("101", "102", 0, tuple(gained), (), frozenset(range(len(gained))))
    side = ("101", "leader")
    quotas = {side: limits[-1][1]} if math.isfinite(limits[-1][1]) else {}
    (pace,) = paces([link], [left], {side: limits})
    return pace, ends([link], [pace], [left], quotas, in_sync={})[0]


@pytest.mark.parametrize(("every", "fast"), [(10, 1), (25, 1), (10, 7), (40, 1)])
def test_of_a_link_that_comes_in_bursts_the_pace_is_of_whole_bursts(every: int, fast: int) -> None:
    """A fetch brings several seconds' worth (`kip73`): at five of ten phases it was "Never", at the others three times
    as soon as it is. Under the smallest quota a fetch is worth 40 s, so that such a pause is no end."""
    quota = TURN_BYTES / every if every > STILL_SECONDS else 1.0
    for phase in range(every):
        gained = [quota * every / fast if (at + phase) % every < fast else 0.0 for at in range(240)]
        pace, end = told_pace(gained, [(-9, quota)], 1000.0 * quota)
        assert pace.is_known
        assert end.seconds == pytest.approx(1000.0, rel=0.03)
        assert (end.low or 0.0) < 1000 < (end.high or math.inf)


def test_three_seconds_without_a_byte_are_a_pause_and_half_a_minute_is_an_end() -> None:
    """It was "Never, at this rate: its quota is 0" after three."""
    for seconds in (1, 3, 9, 15, 29):
        pace, end = told_pace([5.0] * 60 + [0.0] * seconds, [(-9, 5.0)])
        assert pace.gained == pytest.approx(300 / (60 + seconds), rel=0.05)
        assert end.seconds == pytest.approx(1000 / pace.gained)
    pace, end = told_pace([5.0] * 60 + [0.0] * STILL_SECONDS, [(-9, 5e6)])
    assert (pace.gained, pace.is_known, end.seconds) == (0.0, True, None)


def test_a_quota_of_0_is_an_end_at_once_and_another_change_is_none_before_half_a_minute() -> None:
    stopped = [5.0] * 60 + [0.0] * (MIN_SECONDS + 1)
    pace, end = told_pace(stopped, [(-9, 5.0), (59, 0.0)])
    assert (pace.gained, pace.is_known, end.seconds, end.by_quotas) == (0.0, True, None, False)
    pace, end = told_pace(stopped, [(-9, 5.0), (59, 4e6)])
    assert (pace.gained, pace.is_known, end.by_quotas) == (0.0, False, True)
    # Who asks for nothing at all may have gone, or paused.
    link = History("101", "102", 0, (5.0,) * 60 + (0.0,) * 20)
    assert not paces([link], [1000.0], {})[0].is_known


def test_before_ten_seconds_have_passed_since_a_quota_changed_it_is_the_quotas_arithmetic() -> None:
    before = [3.0] * 60
    raised = [(-9, 3.0), (59, 8.0)]
    told = told_ends(before, raised)
    assert (told.seconds, told.low, told.high, told.by_quotas) == (pytest.approx(125.0), None, None, True)
    # A second of the change has something of both.
    known = told_ends([*before, *[7.8] * MIN_SECONDS], raised)
    assert (known.seconds, known.by_quotas) == (pytest.approx(1000 / 7.8), False)
    assert known.low is not None
    assert known.low < 1000 / 7.8 < (known.high or 0.0)


def test_a_quota_that_held_nobody_changes_nothing_where_it_is_raised() -> None:
    """The link carries 2 of 10: with 20 it carries 2, and the quotas' arithmetic would be ten times off."""
    told = told_ends([2.0] * 60, [(-9, 10.0), (55, 20.0)])
    assert (told.seconds, told.by_quotas) == (pytest.approx(500.0), False)
    assert told_ends([2.0] * 60, [(-9, 10.0), (55, 1.0)]).by_quotas


def test_a_quota_that_sets_itself_is_no_change_all_the_time() -> None:
    limits = [(second, 3.0 + 0.01 * second) for second in range(60)]
    assert not told_ends([3.0] * 60, limits).by_quotas


def test_where_producers_write_as_much_as_comes_it_ends_never() -> None:
    link = History("101", "102", 0, (3.0,) * 60, ((15.0, 60.0),) * 4)
    (pace,) = paces([link], [1000.0], {})
    (end,) = ends([link], [pace], [1000.0], {}, in_sync={})
    assert (pace.net, end.seconds, end.high) == (pytest.approx(-1.0), None, None)
