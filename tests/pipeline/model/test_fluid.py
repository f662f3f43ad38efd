"""The fluid model beside arithmetic; tests/pipeline/model/test_pace.py holds it against links that share quotas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.fluid import Change, Quotas, Stream, _network, _shares, finish_times

MB = 1_000_000.0
LINE = 125 * MB


@pytest.mark.parametrize(
    ("streams", "quotas", "finishes"),
    [
        ([Stream("1", "2", 60 * MB)], {("1", "leader"): MB}, [60.0]),
        ([Stream("1", "2", 60 * MB)], {}, [60 * MB / LINE]),
        ([Stream("1", "2", 60 * MB)], {("1", "leader"): 0.0}, [None]),
        ([Stream("1", "2", 60 * MB, written_bytes_per_second=0.5 * MB)], {("2", "follower"): MB}, [120.0]),
        ([Stream("1", "2", 60 * MB, written_bytes_per_second=MB)], {("2", "follower"): MB}, [None]),
        # Written for 30 s alone: 30 MB come on top, and meanwhile nothing is gained.
        ([Stream("1", "2", 60 * MB, 0.0, MB, 30.0)], {("2", "follower"): MB}, [90.0]),
        # The small one is done after 20 s at half; the other has the rest, and begins 5 s later.
        ([Stream("1", "2", 10 * MB), Stream("1", "3", 50 * MB)], {("1", "leader"): MB}, [20.0, 60.0]),
        ([Stream("1", "2", 10 * MB), Stream("1", "3", 50 * MB, 5.0)], {("1", "leader"): MB}, [15.0, 60.0]),
        # 3 is held by its own quota at 0.2, so 2 has the other 0.8.
        ([Stream("1", "2", 8 * MB), Stream("1", "3", 2 * MB)], {("1", "leader"): MB, ("3", "follower"): 0.2 * MB},
         [10.0, 10.0]),
        ([], {}, []),
    ],
)  # fmt: skip
def test_flows_share_what_there_is(streams: list[Stream], quotas: Quotas, finishes: list[float | None]) -> None:
    found = finish_times(streams, quotas, line_bytes_per_second=LINE)
    assert found == [None if at is None else pytest.approx(at, rel=1e-6) for at in finishes]


@pytest.mark.parametrize(("quota", "written"), [(math.nan, 0.0), (MB, math.nan)], ids=["quota", "written"])
def test_what_is_no_number_is_refused_and_not_shared_out_for_ever(quota: float, written: float) -> None:
    streams = [Stream("1", "2", MB, written_bytes_per_second=written), Stream("1", "3", 0.0, 0.0, written)]
    with pytest.raises(ValueError, match="found NaN"):
        finish_times(streams, {("1", "leader"): quota}, line_bytes_per_second=LINE)
    with pytest.raises(ValueError, match="can be shared out"), np.errstate(invalid="ignore"):
        _shares(_network(streams, {("1", "leader"): math.nan}, LINE), np.array([True, False]), np.zeros(2))


def test_what_has_caught_up_still_takes_what_is_written() -> None:
    """After 2's 10 MB (20 s at half), the 0.5 MB/s written to it leave half of the quota to 3 for another 80 s."""
    streams = [Stream("1", "2", 0.0, 0.0, 0.5 * MB), Stream("1", "3", 50 * MB)]
    assert finish_times(streams, {("1", "leader"): MB}, line_bytes_per_second=LINE) == [0.0, pytest.approx(100.0)]


@pytest.mark.parametrize("days", [0, 21, 365])
def test_days_before_change_nothing(days: int) -> None:
    """100 MB and 300 MB through one quota of 1 MB/s, begun 10 s apart: 10 s alone, 180 s by halves, then alone again.
    How long after an earlier catch-up that is makes no difference."""
    later = days * 86_400.0
    streams = [
        Stream("1", "2", 20 * MB),
        Stream("1", "2", 100 * MB, later + 50),
        Stream("1", "3", 300 * MB, later + 60),
    ]
    found = finish_times(streams, {("1", "leader"): MB}, line_bytes_per_second=LINE)
    took = [None if end is None else end - one.starts for one, end in zip(streams, found, strict=True)]
    assert took == [pytest.approx(20, rel=0.01), pytest.approx(190, rel=0.01), pytest.approx(390, rel=0.01)]


LINKS = st.tuples(st.sampled_from("123"), st.sampled_from("456"), st.floats(1e3, 1e9), st.floats(0, 1e4))


@given(st.lists(LINKS, min_size=1, max_size=20), st.floats(1e4, 1e8))
def test_no_budget_is_exceeded_and_none_idles(links: list[tuple[str, str, float, float]], quota: float) -> None:
    """All of a leader's bytes take at least their time at its quota, and no more than that after the last start."""
    streams = [Stream(source, destination, size, at) for source, destination, size, at in links]
    quotas: Quotas = {(leader, "leader"): quota for leader in "123"}
    found = finish_times(streams, quotas, line_bytes_per_second=1e12)
    for leader in "123":
        own = [(one, end) for one, end in zip(streams, found, strict=True) if one.source == leader]
        if own:
            needed = sum(one.backlog_bytes for one, _ in own) / quota
            ends = [end for _, end in own]
            last = max(end for end in ends if end is not None)
            assert None not in ends
            assert last >= (min(one.starts for one, _ in own) + needed) * 0.999 - 1
            assert last <= (max(one.starts for one, _ in own) + needed) * 1.01 + 1


def test_a_quota_that_is_raised_meanwhile_holds_from_then_on() -> None:
    """16 MB at 1 MB/s, from second 4 on at 2, from second 7 on unlimited: 4 + 6, and 6 MB as fast as the line."""
    stream = Stream("1", "2", 16 * MB, 100.0)
    raised = ((104.0, "1", 2 * MB), (104.0, "9", 0.0), (107.0, "1", math.inf))
    changes = [Change(at, broker, "leader", quota) for at, broker, quota in raised]
    (found,) = finish_times([stream], {("1", "leader"): MB}, changes=changes, line_bytes_per_second=LINE)
    assert found == pytest.approx(107 + 6 * MB / LINE)
