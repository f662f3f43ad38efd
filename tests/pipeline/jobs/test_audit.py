from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from pipeline.jobs.audit import seconds_with_quota, summary, violations, windows
from pipeline.jobs.quotas import periods
from tests.pipeline.frames import Scenarios, quotas, traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def seconds(spark: SparkSession, sizes: dict[int, int], said: list[tuple[int, float | None]], **row: Any) -> DataFrame:
    rows = [{"at": at, "record_bytes": size, "omitted": 1, **row} for at, size in sizes.items()]
    return seconds_with_quota(traffic(spark, rows), quotas(spark, said))


def test_quotas_hold_until_the_next_word_and_repetition_is_none(spark: SparkSession) -> None:
    said = quotas(spark, [(0, 100.0), (5, 100.0), (9, 200.0), (12, None)])
    found = sorted((row.since - FIRST, row.until and row.until - FIRST, row.limit) for row in periods(said).collect())
    assert found == [(0, 9, 100.0), (9, 12, 200.0), (12, None, float("inf"))]


def test_of_two_words_in_a_second_the_later_run_has_the_last_and_what_it_was_told_is_later_than_its_start(
    spark: SparkSession,
) -> None:
    """A sidecar that has run for 900 s ends, another starts without quotas and is given one, all within a second."""
    said = quotas(spark, [(0, 50.0)], run="20261121T080000Z", tick=900)
    for run, reason, limit in (("20261121T084000Z", "change", 100.0), ("20261121T084000Z", "start", None)):
        said = said.unionByName(quotas(spark, [(0, limit)], run=run, tick=0, reason=reason))
    assert [row.limit for row in periods(said).collect()] == [100.0]


@pytest.mark.parametrize("order", [("rate", "pressed"), ("pressed", "rate")], ids=["in order", "as files may say it"])
def test_of_two_rates_that_were_chosen_in_a_second_the_one_for_late_followers_came_later(
    spark: SparkSession, order: tuple[str, ...]
) -> None:
    said = quotas(spark, [(0, 50.0)], reason="start", tick=0)
    for reason in order:
        said = said.unionByName(quotas(spark, [(3, {"rate": 90.0, "pressed": 40.0}[reason])], reason=reason, tick=3))
    (_, found) = periods(said).orderBy("since").collect()
    assert (found.limit, found.least, found.most) == (40.0, 40.0, 90.0)


def test_of_a_rate_that_was_chosen_and_a_change_in_a_second_the_change_came_later(spark: SparkSession) -> None:
    """A rate that sets itself becomes one of the file; then another is chosen, a second later."""
    said = quotas(spark, [(0, 50.0)], reason="start", tick=0)
    for at, reason, limit in ((0, "rate", 70.0), (0, "change", 100.0), (1, "rate", 80.0)):
        said = said.unionByName(quotas(spark, [(at, limit)], reason=reason, tick=at))
    assert [(row.since - FIRST, row.limit) for row in periods(said).orderBy("since").collect()] == [
        (0, 100.0),
        (1, 80.0),
    ]


def test_in_the_second_of_a_change_the_larger_quota_holds(spark: SparkSession) -> None:
    found = seconds(spark, dict.fromkeys(range(-1, 6), 1), [(0, 100.0), (2, 50.0), (4, 80.0), (5, None)])
    limits = {row.time - FIRST: row.limit for row in found.collect()}
    assert limits == {0: 100.0, 1: 100.0, 2: 100.0, 3: 50.0, 4: 80.0}  # unknown before 0, none from 5


def test_a_quota_of_0_is_kept_while_nothing_moves(spark: SparkSession) -> None:
    cases: list[tuple[int, bool, str, set[str]]] = [
        (0, False, "kept", set()),
        (10, True, "broken", {"in-sync traffic alone is more than is allowed"}),
        (10, False, "broken", {"catch-up over the bound"}),
    ]
    scenarios = Scenarios()
    for moved, in_sync, _, _ in cases:
        rows = [{"at": at, "record_bytes": moved, "omitted": 1, "in_sync": in_sync} for at in range(3)]
        scenarios.add(rows, {"said": [(0, 0.0)]})
    frame = seconds_with_quota(*scenarios.frames(spark))
    of_case = scenarios.split(summary(frame).collect(), "broker")
    causes = scenarios.split(violations(frame).collect(), "broker")
    for number, (moved, _, verdict, expected) in enumerate(cases):
        (row,) = of_case[number]
        assert (row.limit, row.mean_ratio, row.worst_1s) == (0.0, None, None if moved else 0.0)
        assert (row.verdict, row.over_1s) == (verdict, 3 if moved else 0)
        assert {each.cause for each in causes[number]} == expected


def test_windows_slide_over_gaps(spark: SparkSession) -> None:
    """Bytes 100 at 0, 40 at 2, 70 at 13; quota 10: eleven seconds may have 110."""
    frame = seconds(spark, {0: 100, 2: 40, 13: 70}, [(0, 10.0)])
    found = {
        row.time - FIRST: (row.from_time - FIRST, row.bytes, row.quota_bytes, round(row.ratio, 3), row.over)
        for row in windows(frame).where("window_seconds = 11").collect()
    }
    assert found == {
        0: (-10, 100, 110.0, 0.909, False),
        2: (-8, 140, 110.0, 1.273, True),
        13: (3, 70, 110.0, 0.636, False),
    }


CAUSES: dict[int, tuple[list[tuple[int, bool]], bool, str]] = {
    101: ([(200, False)], True, "catch-up over the bound"),
    102: ([(200, True)], True, "in-sync traffic alone is more than is allowed"),
    103: ([(70, True), (100, False)], True, "in-sync traffic on top of catch-up within the bound"),
    104: ([(200, False)], False, "observed only: the quota was not enforced"),
}
"""By broker: bytes and whether they are of replicas in sync, whether its quota is enforced, and what is to be told."""


def test_a_violation_names_its_cause(spark: SparkSession) -> None:
    lines = traffic(spark, [
        {"at": 20, "broker": broker, "record_bytes": size, "in_sync": in_sync}
        for broker, (rows, _, _) in CAUSES.items() for size, in_sync in rows
    ])  # fmt: skip
    said = [quotas(spark, [(0, 100.0)], broker=broker, enforce=one[1]) for broker, one in CAUSES.items()]
    found = violations(seconds_with_quota(lines, functools.reduce(DataFrame.unionByName, said)))
    assert {(row.broker, row.window_seconds, row.time - FIRST, row.cause) for row in found.collect()} == {
        (broker, 1, 20, cause) for broker, (_, _, cause) in CAUSES.items()
    }


def test_the_bound_itself_is_no_violation(spark: SparkSession) -> None:
    frame = seconds(spark, {0: 130, 1: 131}, [(0, 100.0)])
    assert [row.time - FIRST for row in violations(frame).collect()] == [1]


def test_the_summary_of_each_quota(spark: SparkSession) -> None:
    """80, 100, 120 of 100 in the first ten seconds, then a quota of 1000 and 1400 in one second."""
    frame = seconds(spark, {0: 80, 1: 100, 2: 120, 12: 1400}, [(0, 100.0), (11, 1000.0)])
    first, second = summary(frame).collect()
    assert (first.limit, first.seconds, first.bytes, first.mean_ratio, first.kept) == (100.0, 3, 300, 1.0, True)
    assert first.smoothness == pytest.approx(0.2)  # sqrt((0.04 + 0 + 0.04) / 2)
    assert (first.worst_1s, first.worst_1s_at - FIRST, first.over_1s) == (pytest.approx(1.2), 2, 0)
    assert (second.worst_1s, second.over_1s, second.kept) == (pytest.approx(1.4), 1, False)
    # 100 and 120 of second 2 and 12 lie 11 seconds apart: only 1400 and 120 share a window, of 10 x 100 + 1000.
    assert second.over_11s == 0


def verdict(found: DataFrame) -> Any:
    (row,) = summary(found).where(f"since = {FIRST + 10}").collect()
    return row


def test_a_second_with_a_change_is_judged_by_what_held_in_its_parts(spark: SparkSession) -> None:
    """From 1 to 100 MB/s within second 10: up to 1.3 MB was allowed at least, 130 MB at most, 125 MB is neither. The
    ten silent seconds before it had 1 MB/s, not 100. Each broker moved as many MB as its id says."""
    mb = 1_000_000
    expected = {1: (0, 0, "kept"), 125: (0, 1, "kept, but where the quota changed"), 131: (1, 0, "broken")}
    lines = traffic(spark, [{"at": 10, "broker": size, "record_bytes": size * mb} for size in expected])
    said = [quotas(spark, [(0, 1.0 * mb), (10, 100.0 * mb)], broker=size) for size in expected]
    rows = summary(seconds_with_quota(lines, functools.reduce(DataFrame.unionByName, said))).collect()
    assert {row.broker: (row.over_1s, row.undecided_1s, row.verdict) for row in rows} == expected
    for row in rows:
        assert row.limit == 100.0 * mb
        assert row.worst_1s == pytest.approx(row.broker / 100)
        assert row.worst_11s == pytest.approx(row.broker / 110)


def test_what_is_only_observed_is_not_broken(spark: SparkSession) -> None:
    lines = traffic(spark, [{"at": 20, "record_bytes": 200}])
    (row,) = summary(seconds_with_quota(lines, quotas(spark, [(0, 100.0)], enforce=False))).collect()
    assert (row.verdict, row.kept, row.over_1s) == ("observed only", None, 1)


def test_before_it_was_enforced_nothing_was_promised(spark: SparkSession) -> None:
    """1000 bytes in a second that was only observed do not break the eleven seconds that end after it is enforced."""
    lines = traffic(spark, [{"at": at, "record_bytes": size} for at, size in ((8, 1000), (12, 100))])
    said = quotas(spark, [(0, 100.0)], enforce=False).unionByName(quotas(spark, [(10, 100.0)]))
    assert verdict(seconds_with_quota(lines, said)).verdict == "kept"


BEFORE: dict[str, list[tuple[int, float | None]]] = {
    "since": [(0, 100.0)], "at once": [(10, 100.0)], "larger": [(0, 400.0)],
}  # fmt: skip
BEGAN = Scenarios()
BEGAN_CASES = {
    (moved, before): BEGAN.add(
        [{"at": at, "record_bytes": moved if at <= 10 else 90, "omitted": 1} for at in range(25)],
        {"said": said, "enforce": False, "reason": "start", "tick": 0}, {"said": [(10, 100.0)]},
    )
    for moved in (1000, 90) for before, said in BEFORE.items()
}  # fmt: skip


@pytest.fixture(scope="module")
def began(spark: SparkSession) -> dict[int, list[Any]]:
    found = summary(seconds_with_quota(*BEGAN.frames(spark))).where(f"since = {FIRST + 10}")
    return BEGAN.split(found.collect(), "broker")


@pytest.mark.parametrize(
    ("moved", "expected"), [(1000, (0, 0, 1, "kept, but where the quota changed")), (90, (0, 0, 0, "kept"))]
)
@pytest.mark.parametrize("before", BEFORE)
def test_in_the_second_in_which_it_began_to_be_enforced_anything_may_have_been_allowed(
    began: dict[int, list[Any]], before: str, moved: int, expected: tuple[object, ...]
) -> None:
    """A quota is observed, and enforced from within second 10; 90 of its 100 bytes move in each second after it."""
    (row,) = began[BEGAN_CASES[moved, before]]
    assert (row.over_1s, row.over_11s, row.undecided_1s, row.verdict) == expected
    assert (row.undecided_11s > 0) == (moved > 100)
    assert (row.limit, row.mean_ratio, row.worst_1s) == (100.0, pytest.approx(0.9), pytest.approx(0.9))


def test_in_the_second_in_which_the_first_quota_began_anything_may_have_been_allowed(spark: SparkSession) -> None:
    row = verdict(seconds(spark, {10: 9000, 11: 50}, [(0, None), (10, 100.0)]))
    assert (row.seconds, row.bytes, row.over_1s, row.undecided_1s) == (2, 9050, 0, 1)
    assert row.verdict == "kept, but where the quota changed"


def test_a_window_in_which_no_quota_held_has_no_ratio(spark: SparkSession) -> None:
    """No quota until second 10, 100 from then on: 50 bytes in second 12, whose eleven seconds reach back before it.
    What moved without a quota is no part of any window."""
    found = seconds(spark, {5: 9000, 12: 50, 30: 60}, [(0, None), (10, 100.0)])
    of_eleven = {row.time - FIRST: row for row in windows(found).where("window_seconds = 11").collect()}
    assert (of_eleven[12].ratio, of_eleven[12].allowed, of_eleven[12].quota_bytes) == (None, None, None)
    assert (of_eleven[12].bytes, of_eleven[12].over, of_eleven[12].undecided) == (50, False, False)
    assert of_eleven[30].ratio == pytest.approx(60 / 1100)
    (row,) = summary(found.where(f"time = {FIRST + 12}")).collect()
    assert (row.worst_1s, row.worst_11s, row.worst_11s_at, row.verdict) == (0.5, None, None, "kept")


def test_each_second_has_only_the_quotas_of_its_windows_and_they_add_up(spark: SparkSession) -> None:
    """Of a rate that changes every four seconds, for three minutes; without a line in every seventh second."""
    said = [(at, 100.0 + (at * 37) % 900) for at in range(0, 180, 4)]
    limits = dict(said)
    of_second = {at: limits[at - at % 4] for at in range(180)}
    most = {at: max(of_second[at], of_second.get(at - 1, 0.0)) for at in of_second}
    frame = seconds(spark, {at: 1 for at in range(180) if at % 7}, said)
    assert frame.selectExpr("max(size(changes))").collect()[0][0] == 4
    found = windows(frame).where("window_seconds = 11").collect()
    before = limits[0]  # is taken for what held before the first word
    assert {row.time - FIRST: row.quota_bytes for row in found} == {
        at: sum(most.get(second, before) for second in range(at - 10, at + 1)) for at in range(180) if at % 7
    }


def test_a_window_in_which_a_quota_began_is_allowed_its_burst(spark: SparkSession) -> None:
    """Eleven seconds have 1.05 of their quotas, and a quarter of one that began in them; before 0 there was 100."""
    lines = traffic(spark, [{"at": at, "record_bytes": 1} for at in range(14)])
    found = windows(seconds_with_quota(lines, quotas(spark, [(0, 100.0), (2, 200.0)]))).where("window_seconds = 11")
    allowed = {row.time - FIRST: round(row.allowed, 6) for row in found.collect()}
    expected = {1: 1155, 2: 1260 + 50, 3: 1365 + 50, 12: 2310 + 50, 13: 2310}
    assert {at: allowed[at] for at in expected} == expected


def test_two_sidecars_with_one_brokers_id_are_named(spark: SparkSession) -> None:
    rows = [{"at": at, "record_bytes": 100, "run": run} for at in range(20) for run in ("a", "b")]
    found = seconds_with_quota(traffic(spark, rows), quotas(spark, [(0, 100.0)]))
    (row,) = summary(found).collect()
    assert (row.overlap_seconds, row.worst_1s) == (20, 2.0)
    assert {row.cause for row in violations(found).collect()} == {
        "two runs of this broker's sidecar at once, each with the quota for itself"
    }


def test_a_sidecar_that_was_restarted_is_not_two(spark: SparkSession) -> None:
    rows = [{"at": at, "record_bytes": 100, "run": "a" if at < 10 else "b"} for at in range(20)]
    (row,) = summary(seconds_with_quota(traffic(spark, rows), quotas(spark, [(0, 100.0)]))).collect()
    assert (row.overlap_seconds, row.verdict) == (0, "kept")
