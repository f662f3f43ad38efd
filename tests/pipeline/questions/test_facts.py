"""From tables to facts: what was injected, or written down, is what is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.ring import START_SECONDS, Cluster
from journal_schema import Kind
from pipeline.cli import main
from pipeline.journals.ingest import ingest
from pipeline.model.duration_curve import recorded
from pipeline.questions import was_it_kept, what_happened, who_was_starved, will_it_finish
from pipeline.questions.answer import Verdict
from pipeline.questions.asking import ask, units_of
from pipeline.tables import Tables
from pipeline.tables.scope import Scope
from tests.pipeline import recorded_moves
from tests.pipeline.frames import ingested
from tests.pipeline.journal_files import FIRST, changed, event_line, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

MASTER = ["--master", "local[2]"]
CLUSTER = Cluster(brokers=3, partitions=6, seconds=200, violations=((101, 17),), stalls=((102, 100, 200),))


@pytest.fixture(scope="module")
def generated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return ingested(spark, CLUSTER, tmp_path_factory.mktemp("facts"))


def test_the_injected_violation_is_what_was_broken(generated: Tables) -> None:
    found = was_it_kept.facts(generated)
    assert (found.roles, found.windows, found.over, found.broken_roles) == (6, 1200, 24, 2)
    assert found.worst[0].ratio == pytest.approx(2.0, rel=1e-3)
    assert found.worst[0].at == START_SECONDS + 17
    assert found.incidents[0].cause == "catch-up over the bound"
    after = was_it_kept.facts(generated.within(Scope(since=START_SECONDS + 28)))
    assert (after.over, after.windows) == (0, 6 * 172)


def test_the_injected_stall_is_what_never_finishes(generated: Tables) -> None:
    found = will_it_finish.facts(generated)
    assert (found.now, found.lost, found.silent) == (START_SECONDS + 199, (), ())
    # Both ends of each link are recorded, and each of six replicas is told once.
    assert sorted((link.source, link.replicas) for link in found.links) == [("101", 2), ("102", 2), ("103", 2)]
    assert {one.name for one in found.still} == {f"generated-{number} from 102 to 103" for number in (1, 4)}
    answer = will_it_finish.answer(found, units_of(generated))
    assert answer.verdict is Verdict.BAD
    before = will_it_finish.facts(generated.within(Scope(until=START_SECONDS + 90)))
    assert will_it_finish.answer(before, units_of(generated)).verdict is Verdict.GOOD


def test_who_has_been_silent_for_long_is_not_judged_by_its_last_trend(spark: SparkSession, tmp_path: Path) -> None:
    """101 is recorded until second 59, 20 messages a second nearer; 103 until second 199. Only 101 has fallen silent,
    for 103 is behind to the end. Asked at second 80, 101 counts from its own last second."""
    for broker, seconds in ((101, 60), (103, 200)):
        lines = [
            changed(
                traffic_line(FIRST + at, broker=broker, fetch_offset=20 * at + 20, high_watermark=9000),
                fetch_offset_before=[20 * at],
            )
            for at in range(seconds)
        ]
        write_file(tmp_path / "journal", lines=lines, broker=broker)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    found = will_it_finish.facts(tables)
    assert (found.now, found.silent) == (FIRST + 199, ((101, "leader", FIRST + 59),))
    assert [one.name for one in found.lost] == ["orders-0 from 101 to 102"]
    answer = will_it_finish.answer(found, units_of(tables))
    assert (answer.verdict, answer.number) == (Verdict.UNKNOWN, None)
    assert "nothing was heard of broker 101 as leader after 2026-11-21 08:40:59 UTC" in answer.sentence
    earlier = will_it_finish.answer(will_it_finish.facts(tables.within(Scope(until=FIRST + 80))), units_of(tables))
    assert (earlier.verdict, earlier.number) == (Verdict.GOOD, pytest.approx((9000 - 20 * 80) / 20, rel=1e-2))


def test_one_clock_ahead_does_not_make_everybody_else_unknown(spark: SparkSession, tmp_path: Path) -> None:
    """45 seconds: "Not known: nothing was heard of broker 101 …". A replica that the one with that clock lost is lost
    by its own clock, and who is alone for long is the last that is left."""
    for broker, ahead in ((101, 0), (102, 0), (103, 45)):
        lines = [
            changed(
                traffic_line(FIRST + ahead + at, broker=broker, peer="104", topic=f"t{broker}",
                             fetch_offset=20 * at + 20, high_watermark=9000),
                fetch_offset_before=[20 * at],
            )
            for at in range(200)
        ]  # fmt: skip
        lines += [
            traffic_line(FIRST + ahead + at, broker=broker, peer="105", topic="gone", high_watermark=9000)
            for at in range(160) if broker == 103
        ]  # fmt: skip
        write_file(tmp_path / "journal", lines=lines, broker=broker)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    found = will_it_finish.facts(tables)
    assert (found.now, found.silent) == (FIRST + 199, ())
    assert sorted(link.source for link in found.links) == ["101", "102", "103"]
    assert [one.name for one in found.lost] == ["gone-0 from 103 to 105"]
    assert all(link.seconds == pytest.approx(250, rel=0.05) for link in found.links)
    heard = {(101, "leader"): 0, (102, "leader"): 0, (103, "leader"): 600}
    assert will_it_finish.present(heard) == 600
    assert will_it_finish.present({(101, "leader"): 0, (102, "follower"): 45}) == 45


@pytest.mark.parametrize("later", [{"peer": "103"}, {"throttled": False}], ids=["another leader", "no quota any more"])
def test_one_that_was_seen_in_sync_since_has_finished_whoever_brought_it(
    spark: SparkSession, tmp_path: Path, later: dict[str, Any]
) -> None:
    """Behind until second 59, silent for a minute, then in sync, beyond the high watermark that it was told last."""
    follower = {"broker": 102, "role": "follower", "peer": "101"}
    lines = [
        changed(
            traffic_line(FIRST + at, fetch_offset=20 * at + 20, high_watermark=9000, **follower),
            fetch_offset_before=[20 * at],
        )
        for at in range(60)
    ]
    in_sync = {**follower, **later, "in_sync": True, "record_bytes": 100}
    lines += [
        traffic_line(FIRST + at, fetch_offset=9000 + at, high_watermark=9000 + at, **in_sync) for at in range(120, 200)
    ]
    write_file(tmp_path / "journal", lines=lines, broker=102)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    answer = will_it_finish.answer(will_it_finish.facts(tables), units_of(tables))
    assert (answer.verdict, answer.number) == (Verdict.GOOD, 0.0)
    before = will_it_finish.facts(tables.within(Scope(until=FIRST + 120)))
    assert [one.name for one in (*before.lost, *before.still)] == []  # asked at second 59, it is on its way


def quota_of(bytes_per_second: float) -> str:
    said = {"policy": "strict", "enforce": True, "selection": "*", "reason": "start"}
    return event_line(Kind.QUOTA, FIRST, role="leader", bytes_per_second=bytes_per_second, **said)


def test_what_was_only_observed_was_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    """101 moved 5 times a quota that nothing enforced; told was "Yes, ... where it was enforced". 102 has one that is
    enforced, and is all that the answer is about."""
    for broker, enforce, size in ((101, False, 5000), (102, True, 500)):
        lines = [changed(quota_of(1018.0), broker=broker, enforce=enforce)]
        lines += [traffic_line(FIRST + at, broker=broker, record_bytes=size) for at in range(30)]
        write_file(tmp_path / "journal", lines=lines, broker=broker)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    trial = ask(tables.within(Scope(brokers=(101,))), "was-it-kept")
    assert (trial.verdict, trial.number) == (Verdict.UNKNOWN, None)
    assert trial.sentence == "Nothing was enforced: 1 quota only observed."
    both = was_it_kept.facts(tables)
    assert (both.roles, both.windows, both.observed, both.over) == (1, 30, 1, 0)
    assert {one.broker for one in both.worst} == {102}
    answer = ask(tables, "was-it-kept")
    assert answer.verdict is Verdict.GOOD
    assert answer.sentence.startswith("Yes, the bound was kept where it was enforced")
    assert answer.number == pytest.approx(0.509, abs=0.01)


def test_it_counts_bytes_and_not_messages(spark: SparkSession, tmp_path: Path) -> None:
    """A megabyte a second each, of messages of 1 kB and of 1 MB: 100 MB and 1904 MB are left under 2 MB/s, 1002 s. By
    messages it was 1 min 42 s."""
    lines = [quota_of(2e6)] + [
        changed(
            traffic_line(FIRST + at, partitions=(0, 1), record_bytes=1_000_000, omitted=1),
            fetch_offset_before=[1000 * at, at], fetch_offset=[1000 * at + 1000, at + 1],
            high_watermark_before=[200_000, 2004], high_watermark=[200_000, 2004],
        )
        for at in range(100)
    ]  # fmt: skip
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    answer = will_it_finish.answer(will_it_finish.facts(tables), units_of(tables))
    assert (answer.verdict, answer.number) == (Verdict.GOOD, pytest.approx(1002.0, rel=1e-3))
    assert "Yes, in 16 min 42 s" in answer.sentence


def test_a_replica_that_gets_nothing_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """For two minutes, while its lag grows and another one of the link goes on: it was "Yes, in 2 min 26 s"."""
    lines = [quota_of(2e6)] + [
        changed(
            traffic_line(FIRST + at, partitions=(0, 1), record_bytes=1_000_000),
            fetch_offset_before=[1000 * at, 0], fetch_offset=[1000 * at + 1000, 0], record_bytes=[1_000_000, 0],
            header_bytes=[18, 0], shapes=["[", "$"], second_record_bytes=[1_000_000], second_wire_bytes=[1_000_018],
            high_watermark_before=[200_000, 10 * at], high_watermark=[200_000, 10 * at + 10],
        )
        for at in range(121)
    ]  # fmt: skip
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    answer = ask(Tables(spark, str(tmp_path / "tables")), "will-it-finish")
    assert answer.verdict is Verdict.BAD
    assert "nothing comes for orders-1 from 101 to 102." in answer.sentence


def test_of_those_that_are_alike_it_tells_the_same_each_time(generated: Tables) -> None:
    """All brokers have the same traffic until the violation: who was the last, or the worst, was left to chance."""
    part = generated.within(Scope(until=START_SECONDS + 15))
    assert [link.source for link in will_it_finish.facts(part).links] == ["101", "102", "103"]
    assert [one.broker for one in was_it_kept.facts(part).worst] == [101, 101]


def test_around_a_moment_only_what_was_there_is_told(generated: Tables) -> None:
    found = what_happened.facts(generated, START_SECONDS + 100, around=40)
    still = [(row.broker, row.role, row.cause, row.first - START_SECONDS, row.seconds) for row in found.stalls]
    cause = "held back, and nothing moves"
    assert still == [(102, "leader", cause, 100, 40), (103, "follower", cause, 100, 40)]
    later = what_happened.facts(generated, START_SECONDS + 150, around=20).stalls
    assert {(row.first - START_SECONDS, row.seconds) for row in later} == {(130, 40)}
    assert what_happened.facts(generated, START_SECONDS + 60, around=40).stalls == ()
    assert found.bound.over == 0
    assert what_happened.facts(generated, START_SECONDS + 17, around=5).bound.over > 0
    assert what_happened.facts(generated, START_SECONDS - 10_000).seconds == 0


def test_events_are_told_once_and_not_those_of_every_file(spark: SparkSession, tmp_path: Path) -> None:
    quota = event_line(
        Kind.QUOTA, FIRST + 30, role="leader", bytes_per_second=4096.0, policy="strict", enforce=True, selection="*",
        reason="change",
    )  # fmt: skip
    ended = [
        event_line(
            Kind.CONNECTION, FIRST + at, role="leader", peer="102", cause="peer_closed", seconds=9.0, replica_fetches=3,
            held_seconds=1.0,
        )
        for at in (50, 55)
    ]  # fmt: skip
    lines = [changed(quota, time=FIRST, tick=0, reason="file"), quota, *ended]
    lines += [traffic_line(FIRST + at, fetch_offset=at) for at in range(60)]
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    found = what_happened.facts(tables, FIRST + 30)
    assert [(row.before, row.limit, row.time) for row in found.quotas] == [(None, 4096.0, FIRST)]
    assert found.events == ()
    assert [(row.cause, row.number) for row in found.connections] == [("peer_closed", 2)]
    answer = ask(tables, "what-happened", at=FIRST + 30)
    assert "the quota of broker 101 as leader became 4 KiB/s" in answer.sentence


RATE = '[{"place":"broker","key":"leader.replication.throttled.rate","value":"20MiB/s"}]'


def test_an_override_is_one_thing_at_all_brokers_that_have_it(spark: SparkSession, tmp_path: Path) -> None:
    def line(action: str, at: int, broker: int, **said: str) -> str:
        same = {"override": "7f3a", "label": "move-1", "changes": RATE, "until": FIRST + 40}
        return event_line(Kind.OVERRIDE, FIRST + at, action=action, broker=broker, **same, **said)

    for number, broker in enumerate((101, 102, 104), start=1):
        lines = [traffic_line(FIRST + at, fetch_offset=at, broker=broker) for at in range(60)]
        lines.append(line("set", 10, broker, by="anna", because="disk\x1b[2J full"))
        lines.append(line("undone", 20, broker, by="ben") if broker == 104 else line("ended", 40, broker))
        write_file(tmp_path / "journal", lines=lines, broker=broker, number=number)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    answer = ask(Tables(spark, str(tmp_path / "tables")), "what-happened", at=FIRST + 30)
    told = [text for text in answer.evidence if "override" in text]
    of_it = "(label move-1): leader.replication.throttled.rate = 20MiB/s"
    more = "; it ends at 2026-11-21 08:40:40 UTC; reason: disk\\x1b[2J full"
    assert told == [
        f"2026-11-21 08:40:10 UTC: anna set the override 7f3a at brokers 101, 102 and 104 {of_it}{more}",
        f"2026-11-21 08:40:20 UTC: ben undid the override 7f3a at broker 104 {of_it}",
        f"2026-11-21 08:40:40 UTC: the override 7f3a ended at brokers 101 and 102 {of_it}",
    ]


def test_a_failed_reload_is_told_however_many_restarts_were_nearer(spark: SparkSession, tmp_path: Path) -> None:
    """A rolling restart of twelve left no place for it."""
    lines = [traffic_line(FIRST + at, fetch_offset=at) for at in range(60)]
    lines += [event_line(Kind.START, FIRST + at, version="1") for at in range(25, 38)]
    lines.append(event_line(Kind.RELOAD, FIRST + 55, outcome="failed", error="line 3"))
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    found = what_happened.facts(Tables(spark, str(tmp_path / "tables")), FIRST + 30)
    assert (len(found.events), found.cut) == (what_happened.MAX_ROWS, ("events",))
    assert found.events[-1].error == "line 3"


def test_traffic_that_no_quota_selects_is_not_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lines = [traffic_line(FIRST + at, fetch_offset=at, throttled=False, in_sync=True) for at in range(60)]
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    assert what_happened.facts(tables, FIRST + 30).seconds == 60
    answer = ask(tables, "what-happened", at=FIRST + 30)
    assert (answer.verdict, answer.number) == (Verdict.GOOD, 0.0)
    assert "Nothing out of the ordinary" in answer.sentence


def test_a_replica_that_stands_still_while_others_move_is_starved(spark: SparkSession, tmp_path: Path) -> None:
    """Three replicas for six minutes: 1 gets nothing in minutes two to four, 2 half of what 0 gets."""
    start = FIRST - FIRST % 60
    lines = []
    for at in range(360):
        for partition, size in ((0, 4000), (1, 0 if 60 <= at < 240 else 4000), (2, 2000)):
            lines.append(
                traffic_line(
                    start + at, partitions=[partition], record_bytes=size, omitted=1, fetch_offset=at,
                    peer=str(102 + partition),
                )
            )  # fmt: skip
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    found = who_was_starved.facts(tables)
    assert (found.minutes, found.replicas) == (18, 1)
    (row,) = found.rows
    assert (row.partition, row.peer, row.minutes, row.first) == (1, "103", 3, start + 60)
    assert row.others_bytes == 3 * 60 * 6000
    least = who_was_starved.facts(tables.within(Scope(since=start + 240))).least_share
    assert least is not None
    assert (least.partition, least.share) == (2, pytest.approx(3 * 2 / 10))


def test_it_is_starved_by_those_too_who_are_never_held_back(spark: SparkSession, tmp_path: Path) -> None:
    """Who goes first by its urgency, say, gets all that it asks for, in every second."""
    start = FIRST - FIRST % 60
    lines = [
        traffic_line(
            start + at, partitions=[partition], record_bytes=size, omitted=omitted, fetch_offset=at, in_sync=in_sync,
            peer=str(102 + partition),
        )
        for at in range(240)
        for partition, size, omitted, in_sync in ((0, 4000, 0, False), (1, 0, 1, False), (2, 1000, 0, True))
    ]  # fmt: skip
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    (row,) = who_was_starved.facts(Tables(spark, str(tmp_path / "tables"))).rows
    assert (row.partition, row.peer, row.minutes, row.first) == (1, "103", 4, start)
    assert row.others_bytes == 240 * 4000


def test_the_recorded_moves_of_both_ends_are_a_link(spark: SparkSession, tmp_path: Path) -> None:
    """Of one link, told at both ends by clocks three seconds apart; its bytes are the independent sum."""
    fetches = recorded_moves.catch_up()
    for number, (role, broker, skew) in enumerate((("leader", 101, 0), ("follower", 102, 3)), 1):
        lines = recorded_moves.lines(fetches, source=101, destination=102, role=role, skew_seconds=skew)
        write_file(tmp_path / "journal", lines=lines, broker=broker, number=number)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    found = recorded(Tables(spark, str(tmp_path / "tables")))
    (pair,) = found.pairs
    assert (pair.source, pair.destination, pair.moves, pair.unfinished) == ("101", "102", 6, 0)
    assert pair.bytes == sum(recorded_moves.bytes_moved(fetches).values())
    (stream,) = found.streams
    assert stream.backlog_bytes == pytest.approx(pair.bytes, rel=0.02)
    assert found.quotas == {}


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["was-it-kept"], 3, "No, the bound was broken"),
        (["was-it-kept", "--since", "60s"], 0, "Yes, the bound was kept"),
        (["will-it-finish"], 3, "Never, at this rate"),
        (["who-was-starved"], 0, "Nobody: of 36 minutes"),
        (["what-rate"], 0, "Set 12 MB/s"),
        (["what-rate", "--until", "2026-11-20"], 4, "Nothing moved"),
        (["what-happened", "--at", "02:01:40", "--around", "40s"], 0, "Broker"),
        (["what-happened"], 2, "expected --at with what-happened"),
        (["was-it-kept", "--at", "02:00"], 2, "expected --at with what-happened"),
        (["why"], 2, "'why' is not one of"),
    ],
)
def test_what_is_asked_is_answered_with_a_status(
    generated: Tables, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, says: str
) -> None:
    question, *options = arguments
    assert main(["ask", question, generated.storage.root, *options, *MASTER]) == status
    printed = capsys.readouterr()
    assert says in printed.out + printed.err


def test_scripts_get_json(generated: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "was-it-kept", generated.storage.root, "--json", *MASTER]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["question"], found["verdict"], found["unit"]) == ("was-it-kept", "bad", "x quota")
    assert found["number"] == pytest.approx(2.0, rel=1e-3)
