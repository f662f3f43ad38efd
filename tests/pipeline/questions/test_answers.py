"""From facts to sentences: what is said first, what a script gets, and what is doubted."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pyspark.sql import Row

from pipeline.jobs.inner_rates import Bound, Inside
from pipeline.model.backtest import BackTest, of_links, of_plan
from pipeline.model.broker_pairs import Pair
from pipeline.model.duration_curve import Recorded, in_force
from pipeline.model.fluid import Stream
from pipeline.model.pace import History
from pipeline.model.remaining_bytes import Behind, Waiting
from pipeline.questions import was_it_kept, what_happened, what_rate, who_was_starved, will_it_finish
from pipeline.questions.answer import Answer, Verdict
from pipeline.questions.was_it_kept import Kept
from pipeline.questions.what_happened import Happened
from pipeline.questions.who_was_starved import Starved
from pipeline.questions.will_it_finish import Finish
from pipeline.report.facts import _curve
from pipeline.units import Units
from tests.pipeline.journal_files import FIRST

MIB = 1024 * 1024
WORST = (
    Row(seconds=1, ratio=1.21, broker=101, role="leader", at=FIRST + 9, limit=4.0 * MIB),
    Row(seconds=11, ratio=1.01, broker=102, role="follower", at=FIRST + 20, limit=4.0 * MIB),
)
KEPT = Kept(4, 7200, 0, 0, 0, 0, WORST, 0, ())
INCIDENT = Row(
    broker=101, role="leader", window_seconds=1, cause="catch-up over the bound", first=FIRST, last=FIRST, windows=1,
    ratio=2.0, bytes=8 * MIB, allowed=5.2 * MIB,
)  # fmt: skip
BROKEN = KEPT._replace(over=3, broken_roles=1, incidents=(INCIDENT,))


@pytest.mark.parametrize(
    ("found", "verdict", "says", "doubts"),
    [
        (KEPT, Verdict.GOOD, "Yes, the bound was kept: no second more than 1.3 x and no 11 seconds more", 0),
        (KEPT._replace(observed=1), Verdict.GOOD, "Yes, the bound was kept where it was enforced", 1),
        (KEPT._replace(undecided=2, overlap_seconds=5), Verdict.GOOD, "Yes", 2),
        (BROKEN, Verdict.BAD, "in 3 windows by 1 role of a broker; the worst: broker 101 as leader moved", 0),
        (BROKEN._replace(incidents=(Row(**{**INCIDENT.asDict(), "ratio": None}),)), Verdict.BAD, "quota was 0)", 0),
        (KEPT._replace(roles=0, worst=()), Verdict.UNKNOWN, "There was no quota", 0),
        (KEPT._replace(roles=0, worst=(), observed=2), Verdict.UNKNOWN,
         "Nothing was enforced: 2 quotas only observed.", 1),
    ],
)  # fmt: skip
def test_was_it_kept(found: Kept, verdict: Verdict, says: str, doubts: int) -> None:
    answer = was_it_kept.answer(found, Units.BINARY)
    assert answer.verdict is verdict
    assert says in answer.sentence
    assert len(answer.uncertainty) == doubts
    if verdict is not Verdict.UNKNOWN:
        assert (answer.number, answer.unit) == (1.21, "x quota")
        assert (
            "the worst second: 1.21 x 4 MiB/s, broker 101 as leader, ending 2026-11-21 08:40:09 UTC" in answer.evidence
        )


def replica(partition: int = 0, **values: Any) -> Waiting:
    """5 MB behind, 50 kB a second."""
    one = Waiting("101", "102", "orders", partition, "follower", FIRST - 200, FIRST, 5000, 5e6, 60, 5e4, 0.0)
    return one._replace(**values)


HEARD = {(101, "leader"): FIRST, (102, "follower"): FIRST}


def finishing(
    *replicas: Waiting, gained: float = 5e4, written: float = 0.0, seconds: int = 60,
    said: dict[tuple[str, str], list[tuple[int, float]]] | None = None, **heard: int,
) -> Finish:  # fmt: skip
    """gained, written: bytes per second on their link."""
    lines = ((15.0, 15 * written),) * 4
    link = History("101", "102", FIRST + 1 - seconds, (gained,) * seconds, lines)
    spoken = {**HEARD, **({(102, "follower"): heard["of_102"]} if heard else {})}
    return will_it_finish.judged(Behind([*replicas], [link] if replicas else []), spoken, FIRST, said or {}, {}, ())


RAISED = {("101", "leader"): [(FIRST - 300, 5e4), (FIRST - 5, 2e5)]}
GONE = {("101", "leader"): [(FIRST - 300, 5e4), (FIRST - 5, math.inf)]}
STOPPED_NOW = {("101", "leader"): [(FIRST - 300, 5e4), (FIRST - 20, 0.0)]}
THE_OTHERS = [replica(number, rate=0.0) for number in range(1, 61)]
SET = "throttle-sidecar set leader.replication.throttled.rate"


@pytest.mark.parametrize(
    ("found", "verdict", "number", "says", "command"),
    [
        (finishing(replica()), Verdict.GOOD, 100.0, "Yes, in 1 min 40 s (1 min 36 s to 1 min 44 s), at", ""),
        (finishing(replica()), Verdict.GOOD, 100.0, "1 replica on 1 link behind, 101 to 102 is the last.", ""),
        (finishing(replica(), said={("101", "leader"): [(0, 5e4)]}), Verdict.GOOD, 100.0, "Yes, in",
         f"{SET} 100kB/s --fleet fleet.toml --at 101   # for half the time"),
        (finishing(replica(), said=RAISED), Verdict.GOOD, 25.0, "in 25 s, at 2026-", f"{SET} 400kB/s"),
        (finishing(replica(), said=RAISED), Verdict.GOOD, 25.0,
         "by the quotas alone, since 5 s after a change no pace is known.", ""),
        (finishing(replica(), said=GONE), Verdict.UNKNOWN, None, "101 to 102 has no quota, and 5 s ago something", ""),
        (finishing(replica(), gained=0.0, said=STOPPED_NOW), Verdict.BAD, math.inf, "its quota is 0", f"{SET} 1MB/s"),
        (finishing(replica(), written=1e4), Verdict.GOOD, 125.0, "Yes, in 2 min 05 s", ""),
        (finishing(replica(), written=5e4), Verdict.BAD, math.inf, "101 to 102 producers write as much as it may", ""),
        (finishing(replica(), replica(1, rate=0.0)), Verdict.BAD, math.inf, "nothing comes for orders-1 from 101 to",
         "kafka-topics.sh --bootstrap-server HOST:9092 --describe --topic orders"),
        (finishing(replica(rate=0.0), gained=0.0), Verdict.BAD, math.inf, "nothing comes for orders-0", "kafka-topics"),
        # One of 61 that take turns of a megabyte: it is no worse off than the others.
        (finishing(replica(rate=1e6), *THE_OTHERS, gained=1e6), Verdict.GOOD, 305.0, "in 5 min", ""),
        (finishing(replica(), seconds=9), Verdict.UNKNOWN, None, "Not known yet: 1 replica on 1 link behind", ""),
        (finishing(replica(remaining=5e4 * 6e11)), Verdict.GOOD, 6e11, "long after this century: 1 replica", ""),
        (finishing(replica(last=FIRST - 31), of_102=FIRST - 31), Verdict.UNKNOWN, None, "102 as follower after 2026",
         "kafka-topics"),
        # Its broker is heard of, but not it: that is no success.
        (finishing(replica(last=FIRST - 31)), Verdict.UNKNOWN, None,
         "orders-0 from 101 to 102 fell silent at 2026-11-21 08:39:29 UTC while it lacked 5 MB.", "kafka-topics"),
        (finishing(replica(rate=0.0, observed=20), gained=0.0, seconds=20), Verdict.UNKNOWN, None,
         "1 replica on 1 link behind; from 101 to 102 nothing came for 19 s.", ""),
        (finishing(replica(rate=0.0, observed=20), gained=0.0, said={("101", "leader"): [(0, 5e6)]}), Verdict.BAD,
         math.inf, "and for 101 to 102 nothing came for 59 s.", ""),
        # A fetch of a megabyte is worth 100 s of that quota.
        (finishing(replica(rate=0.0), gained=0.0, said={("101", "leader"): [(0, 1e4)]}), Verdict.UNKNOWN, None,
         "from 101 to 102 nothing came for 59 s.", ""),
        (finishing(replica(remaining=None)), Verdict.UNKNOWN, None,
         "Not known yet: 1 replica on 1 link behind; how many bytes 101 to 102 lacks no message says.", ""),
        (finishing(replica(), replica(1, remaining=None)), Verdict.UNKNOWN, None, "how many bytes 101", ""),
        (finishing(replica(remaining=None), written=5e4), Verdict.BAD, math.inf, "producers write as much", ""),
        (finishing(), Verdict.GOOD, 0.0, "It has: nobody was behind at 2026-11-21 08:40:00 UTC.", ""),
        (Finish(None), Verdict.UNKNOWN, None, "There is nothing to finish", ""),
    ],
)  # fmt: skip
def test_will_it_finish(found: Finish, verdict: Verdict, number: float | None, says: str, command: str) -> None:
    answer = will_it_finish.answer(found, Units.DECIMAL)
    assert (answer.verdict, answer.number) == (verdict, number if number is None else pytest.approx(number))
    assert says in answer.sentence
    assert answer.command.startswith(command)
    assert json.loads(json.dumps(answer.as_json(), allow_nan=False))["verdict"] == verdict.name.lower()


@pytest.mark.parametrize(("silence", "doubted"), [(45, True), (121, False)])
def test_a_short_silence_may_be_a_clock_that_differs(silence: int, *, doubted: bool) -> None:
    """Of two brokers nobody can tell: that is said."""
    last = FIRST - silence
    answer = will_it_finish.answer(finishing(replica(last=last), of_102=last), Units.DECIMAL)
    assert answer.verdict == Verdict.UNKNOWN
    assert any("clocks differ" in doubt for doubt in answer.uncertainty) == doubted


def test_rates_inside_the_quotas_stay_and_what_the_model_is_without_is_a_doubt() -> None:
    """Of 4 MiB/s the peer had 2, so that it took 500 s; no factor of the quota makes that less."""
    bound = Bound("101", "leader", "peer 102", frozenset(["102"]), 2.0 * MIB)
    held = RECORDED._replace(inside=Inside((bound,), ("broker 101 as leader had rates of topics (o)",)))
    assert held.seconds_at(1.0) == held.seconds_at(8.0) == pytest.approx(500.0)
    answer = what_rate.answer(held, Units.BINARY, wanted_seconds=250.0)
    assert answer.verdict is Verdict.BAD
    assert "rates inside the quotas stay as they are: peer 102 of broker 101 as leader" in answer.uncertainty
    assert "broker 101 as leader had rates of topics (o)" in answer.uncertainty


def test_of_a_broker_that_lost_a_replica_no_end_is_told() -> None:
    found = finishing(replica(), replica(1, last=FIRST - 31))
    state = will_it_finish.by_role(found)["101", "leader"]
    assert (state.behind, state.lost, state.remaining_bytes, state.end.seconds) == (1, 1, 1e7, None)
    assert state.pace == pytest.approx(5e4)
    (alone,) = {one.end.seconds for one in will_it_finish.by_role(finishing(replica())).values()}
    assert alone == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("found", "remaining"),
    [(finishing(replica(), replica(1, remaining=None)), None), (finishing(replica(), said=GONE), 5e6),
     (finishing(replica(rate=0.0, observed=20), gained=0.0, seconds=20), 5e6)],
    ids=["a replica of unknown size", "no quota any more", "nothing comes"],
)  # fmt: skip
def test_of_a_broker_with_a_link_whose_end_is_not_known_none_is_told(found: Finish, remaining: float | None) -> None:
    """Of a replica of unknown size it was 0 bytes, and 0 s."""
    state = will_it_finish.by_role(found)["102", "follower"]
    assert (state.remaining_bytes, state.end.seconds, state.stalled) == (remaining, None, False)
    (link,) = found.links
    assert (link.as_json()["bytes"], link.as_json()["known"]) == (remaining, False)


PAIR = Pair("101", "102", 6, 0, 1000 * MIB, FIRST, FIRST + 250, 0.97, leader_held=0.97)
RECORDED = Recorded((Stream("101", "102", 1000.0 * MIB, 3.0),), {("101", "leader"): 4.0 * MIB}, (PAIR,), {"102": 0.0})
UNFINISHED = RECORDED._replace(pairs=(PAIR._replace(unfinished=1),))
EMPTY = UNFINISHED._replace(
    pairs=(PAIR._replace(unfinished=1, bytes=0, share_held=1.0),), streams=(Stream("101", "102", 0.0, 3.0),)
)
"""Behind and without a byte: nobody knows how large a message is, so the model has nothing to bring."""
OF_UNKNOWN_SIZE = EMPTY._replace(pairs=(PAIR._replace(unfinished=1, unknown=6),))
STOPPED = {("101", "leader"): 0.0}


@pytest.mark.parametrize(
    ("found", "wanted", "verdict", "number", "says"),
    [
        (RECORDED, None, Verdict.GOOD, 8 * MIB, "Set 8 MiB/s to have it in half the time: with 4 MiB/s it took 4"),
        (RECORDED, None, Verdict.GOOD, 8 * MIB, "4 min 10 s, and a quota set the pace in 97% of that."),
        (RECORDED, 1000.0, Verdict.GOOD, 1 * MIB, "Set 1 MiB/s to have it in 16 min 40 s"),
        (RECORDED, 1.0, Verdict.BAD, None, "No rate does it in 1 s: with the quotas out of the way it still takes 8 s"),
        (RECORDED._replace(pairs=(PAIR._replace(share_held=0.1),)), None, Verdict.GOOD, 4 * MIB, "Leave it at 4 MiB/s"),
        (UNFINISHED, None, Verdict.GOOD, 8 * MIB, "with 4 MiB/s it would take 4 min 10 s, and a quota"),
        (UNFINISHED._replace(quotas=STOPPED), None, Verdict.UNKNOWN, None, "with 0 B/s it never ends"),
        (UNFINISHED._replace(quotas=STOPPED), 7200.0, Verdict.UNKNOWN, None, "No multiple of 0 B/s, up to 1,024 times"),
        (UNFINISHED._replace(quotas=STOPPED), 7200.0, Verdict.UNKNOWN, None, "without quotas the model says 8 s."),
        (UNFINISHED._replace(quotas=STOPPED), 1.0, Verdict.BAD, None, "out of the way it still takes 8 s"),
        (EMPTY._replace(quotas=STOPPED), None, Verdict.UNKNOWN, None, "Nothing moved"),
        (EMPTY, None, Verdict.UNKNOWN, None, "Nothing moved"),
        (EMPTY, 7200.0, Verdict.UNKNOWN, None, "Nothing moved"),
        (OF_UNKNOWN_SIZE, None, Verdict.UNKNOWN, None, "No journal says how much there was to bring"),
        (OF_UNKNOWN_SIZE, 7200.0, Verdict.UNKNOWN, None, "No journal says how much there was to bring"),
        (RECORDED._replace(quotas={("103", "leader"): 0.0}), None, Verdict.UNKNOWN, None, "There was no quota in for"),
        (RECORDED._replace(quotas={}), None, Verdict.UNKNOWN, None, "There was no quota in force"),
        (RECORDED._replace(pairs=()), None, Verdict.UNKNOWN, None, "Nothing moved"),
    ],
)  # fmt: skip
def test_what_rate(found: Recorded, wanted: float | None, verdict: Verdict, number: float | None, says: str) -> None:
    answer = what_rate.answer(found, Units.BINARY, wanted_seconds=wanted)
    assert answer.verdict is verdict
    assert says in answer.sentence
    assert answer.number == (None if number is None else pytest.approx(number, rel=0.03))


def test_the_model_is_held_against_the_recording() -> None:
    """1000 MiB at 4 MiB/s are 250 s, as recorded; had it taken 200 s, the model would be 25 % off."""
    faster = RECORDED._replace(pairs=(PAIR._replace(ended=FIRST + 200),))
    assert "(+0%)" in what_rate.answer(RECORDED, Units.BINARY).uncertainty[0]
    assert (
        "the model says 4 min 10 s where 3 min 20 s were recorded (+25%)"
        in what_rate.answer(faster, Units.BINARY).uncertainty[0]
    )
    assert "could not be held against" in what_rate.answer(UNFINISHED, Units.BINARY).uncertainty[0]
    found = of_links(faster).median_and_worst
    assert found is not None
    median, worst = found
    assert (median, worst.what, worst.error) == (pytest.approx(0.25), "101 to 102", pytest.approx(0.25))
    nothing = BackTest((), {"not all of it ended": 1})
    assert of_links(UNFINISHED) == of_plan(UNFINISHED) == nothing
    assert nothing.median_and_worst is None


def test_a_quota_that_changed_while_something_moved_is_a_mean_and_the_model_knows_of_the_change() -> None:
    """4 MiB/s for 100 s, then 4 for 150 s on the follower's side; the leader's goes from 2 to 6 after 50 s of 250."""
    said = {
        ("101", "leader"): [(0.0, FIRST + 50.0, 2.0 * MIB), (FIRST + 50.0, math.inf, 6.0 * MIB)],
        ("102", "follower"): [(0.0, FIRST + 100.0, 4.0 * MIB), (FIRST + 100.0, math.inf, 4.0 * MIB)],
        ("103", "leader"): [(0.0, math.inf, math.inf)],
    }
    quotas, changes = in_force(said, [PAIR])
    assert quotas == {("101", "leader"): pytest.approx(5.2 * MIB), ("102", "follower"): pytest.approx(4.0 * MIB)}
    assert [(one.at, one.broker, one.bytes_per_second) for one in changes] == [
        (FIRST, "101", 2.0 * MIB), (FIRST + 50, "101", 6.0 * MIB)
    ]  # fmt: skip
    leader = {("101", "leader"): quotas["101", "leader"]}
    streams = (Stream("101", "102", 1000.0 * MIB, float(FIRST)),)
    found = RECORDED._replace(streams=streams, quotas=leader, changes=changes)
    assert found.seconds_modelled == pytest.approx(50 + 900 / 6)
    assert (
        "with 5.2 MiB/s, the mean of what it was while it changed, it took"
        in what_rate.answer(found, Units.BINARY).sentence
    )


def test_plan_is_asked_again_for_what_was_recorded() -> None:
    """1000 MiB in 250 s need 4 MiB/s, which was the quota. One that did not set the pace says nothing of `plan`, also
    where the other end's did; what is not tested is counted."""
    quotas = {("101", "leader"): 4.0 * MIB, ("102", "follower"): 8.0 * MIB, ("103", "leader"): 4.0 * MIB}
    found = of_plan(RECORDED._replace(quotas=quotas))
    (tested,) = found.tested
    assert (tested.what, tested.said, tested.was) == ("broker 101 as leader", 4.0 * MIB, 4.0 * MIB)
    assert found.left_out == {"its own quota did not set the pace": 1}
    short = of_plan(RECORDED._replace(pairs=(PAIR._replace(ended=FIRST + 9),)))
    assert short == BackTest((), {"it took less than 10 s": 1})
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert (told["tests"], told["worst"], told["worst_error"]) == (1, "broker 101 as leader", 0.0)


def test_a_rate_below_what_is_written_in_sync_is_doubted() -> None:
    quotas = {("101", "leader"): 4.0 * MIB, ("102", "follower"): 8.0 * MIB}
    answer = what_rate.answer(RECORDED._replace(quotas=quotas, inflow={"102": 20.0 * MIB}), Units.BINARY)
    assert "Set 8 MiB/s to 16 MiB/s (listed below)" in answer.sentence
    assert "broker 101 as leader: 8 MiB/s" in answer.evidence
    assert any("brokers 102 take in more than that in sync" in text for text in answer.uncertainty)


def test_a_quota_that_nothing_moved_under_is_not_scaled() -> None:
    """101 moved at 4 MiB/s; 103 has a quota of 0 and nothing to move. Neither took anything in in sync."""
    answer = what_rate.answer(RECORDED._replace(quotas={**RECORDED.quotas, ("103", "leader"): 0.0}), Units.BINARY)
    assert answer.sentence.startswith("Set 8 MiB/s to have it in half the time: with 4 MiB/s it took")
    assert not any("take in more than that" in text for text in answer.uncertainty)


def test_moves_whose_high_watermark_was_never_known_are_a_doubt() -> None:
    found = RECORDED._replace(pairs=(PAIR._replace(unknown=2),))
    assert any(
        "of 2 moves no journal says how far behind" in text
        for text in what_rate.answer(found, Units.BINARY).uncertainty
    )


def test_of_nothing_that_takes_any_time_there_is_no_curve() -> None:
    """`report` ended with a traceback: min() of no points."""
    assert _curve(EMPTY, None) is _curve(EMPTY._replace(quotas=STOPPED), None) is None
    assert _curve(RECORDED, None) is not None


def test_weeks_between_two_migrations_are_no_part_of_either() -> None:
    weeks = 21 * 86_400
    late = PAIR._replace(source="103", began=FIRST + weeks, ended=FIRST + weeks + 100)
    assert RECORDED._replace(pairs=(PAIR, late)).seconds == 350


EVENT = {
    "kind": "quota", "time": FIRST + 5, "broker": 101, "error": None, "outcome": None, "version": None,
    "seconds": None, "lines": None,
}  # fmt: skip
QUOTA = Row(
    time=FIRST + 5, before=3.0 * MIB, limit=8.0 * MIB, enforce=True,
    roles=[Row(broker=101, role="leader"), Row(broker=103, role="follower")],
)  # fmt: skip
OVERRIDE = {
    "override": "7f3a", "action": "set", "time": FIRST, "by": "anna", "label": None, "because": None, "until": None,
    "brokers": list(range(101, 131)), "changes": [Row(place="mode", key="enforce", value="false")] * 7,
}  # fmt: skip
QUIET = Happened(FIRST, 300, 600, FIRST + 359, (), (), (), (), (), KEPT)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (QUIET._replace(quotas=(QUOTA,)),
         "08:40:05 UTC: the quota of broker 101 as leader, broker 103 as follower became 3 MiB/s → 8 MiB/s"),
        (QUIET._replace(quotas=(Row(**{**QUOTA.asDict(), "before": None, "enforce": False}),)),
         "became 8 MiB/s, only observed"),
        (QUIET._replace(events=(Row(**{**EVENT, "kind": "reload", "outcome": "failed", "error": "line 3\x1b[2J"}),)),
         "broker 101's sidecar read its quotas again: failed: line 3\\x1b[2J"),
        (QUIET._replace(events=(Row(**{**EVENT, "kind": "clock", "seconds": -3.0}),)), "was set by -3 s"),
        (QUIET._replace(events=(Row(**{**EVENT, "kind": "dropped", "lines": 7}),)), "dropped 7 lines of its journal"),
        (QUIET._replace(events=(Row(**{**EVENT, "kind": "start", "version": "1"}),)), "sidecar started (version 1)"),
        (QUIET._replace(events=(Row(**{**EVENT, "kind": "stop"}),)), "sidecar stopped in order"),
        (QUIET._replace(overrides=(Row(**OVERRIDE),)),
         ("anna set the override 7f3a at 30 brokers from 101 to 130:"
          f" {'mode.enforce = false, ' * 4}mode.enforce = false and 2 more")),
        (QUIET._replace(bound=BROKEN, quotas=(QUOTA,)), "The bound was broken in 3 windows"),
        (QUIET._replace(stalls=(Row(broker=1, role="leader", cause="the quota is 0", seconds=9, first=FIRST),)),
         "Broker 1 as leader got no nearer for 9 seconds"),
        # What calls for something to be done comes first, whenever it was.
        (QUIET._replace(quotas=(QUOTA,), stalls=(Row(broker=1, role="leader", cause="x", seconds=9, first=FIRST),)),
         "Broker 1 as leader got no nearer for 9 seconds"),
        (QUIET._replace(connections=(Row(broker=1, cause="peer_closed", number=2, first=FIRST),)),
         "2 connections of broker 1 ended, the first at 2026-11-21 08:40:00 UTC: peer_closed"),
        (QUIET, "Nothing out of the ordinary in the 5 min 00 s before and after 2026-11-21 08:40:00 UTC"),
        (QUIET._replace(seconds=0), "Nothing is recorded in the 5 min 00 s before"),
    ],
)  # fmt: skip
def test_what_happened(found: Happened, says: str) -> None:
    answer = what_happened.answer(found, Units.BINARY)
    assert says in answer.sentence
    assert answer.verdict is (Verdict.GOOD if found.seconds else Verdict.UNKNOWN)
    assert bool(answer.evidence) == (answer.number != 0)


def test_things_that_are_left_out_are_said() -> None:
    started = [Row(**{**EVENT, "kind": "start", "version": "1", "broker": broker}) for broker in range(12)]
    answer = what_happened.answer(QUIET._replace(events=tuple(started), cut=("events",)), Units.BINARY)
    assert ", and at least 11 more things in the 5 min 00 s" in answer.sentence
    assert "of more than 12 events 12 are told: ask with a shorter --around" in answer.uncertainty


@pytest.mark.parametrize(("last", "doubted"), [(FIRST + 359, False), (FIRST + 358, True)])
def test_that_nobody_stalled_is_doubted_until_a_minute_later(last: int, *, doubted: bool) -> None:
    answer = what_happened.answer(QUIET._replace(last=last), Units.BINARY)
    said = "a stall is seen up to 1 min 00 s late, and the last traffic is of 2026-11-21 08:45:58 UTC"
    assert (said in answer.uncertainty) == doubted


REPLICA = {"broker": 101, "role": "leader", "peer": "103", "topic": "orders", "partition": 7}
STILL = Row(**REPLICA, minutes=14, first=FIRST, others_bytes=3_200_000_000)
LEAST = Row(**REPLICA, share=0.62, minute=FIRST // 60)


@pytest.mark.parametrize(
    ("found", "verdict", "number", "says"),
    [
        (Starved(90, 1, (STILL,), LEAST), Verdict.BAD, 14.0, "orders-7 from 101 to 103 (by broker 101's quota"),
        (Starved(90, 1, (STILL,), LEAST), Verdict.BAD, 14.0, "for 14 minutes from 2026-11-21 08:40:00 UTC"),
        (Starved(90, 3, (STILL,), LEAST), Verdict.BAD, 14.0, "; so did 2 more replicas."),
        (Starved(90, 0, (), LEAST), Verdict.GOOD, 0.0, "the least was 62% of a fair share, orders-7 from 101 to 103"),
        (Starved(90, 0, (), None), Verdict.GOOD, 0.0,
         "none went by without bytes for it twice in a row while others got some."),
        (Starved(0, 0, (), None), Verdict.UNKNOWN, 0.0, "Nobody was held back for a whole minute"),
    ],
)  # fmt: skip
def test_who_was_starved(found: Starved, verdict: Verdict, number: float, says: str) -> None:
    answer = who_was_starved.answer(found, Units.DECIMAL)
    assert (answer.verdict, answer.number) == (verdict, number)
    assert says in answer.sentence


def test_an_answer_for_a_script_has_only_what_json_has() -> None:
    answer = Answer("q", Verdict.BAD, "s", math.inf, "s", ("e",), ("u",)).doubted("more")
    assert json.loads(json.dumps(answer.as_json(), allow_nan=False)) == {
        "question": "q", "verdict": "bad", "sentence": "s", "number": None, "unit": "s", "evidence": ["e"],
        "uncertainty": ["u", "more"], "command": "",
    }  # fmt: skip
