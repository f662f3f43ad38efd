"""Journals of moves that were answered wrongly once, as sidecars wrote them, and what is true of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.cli import main
from pipeline.jobs import lag
from pipeline.journals.ingest import ingest
from pipeline.questions import replica_times, what_happened, will_it_finish
from pipeline.questions.answer import Verdict
from pipeline.questions.asking import ask
from pipeline.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CASES = Path(__file__).parent / "cases"
RAISED = 1_795_840_112
"""Both quotas went from 3 to 8 MiB/s at 04:28:32."""
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def case(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tables]:
    """Makes tables of a case, once."""
    folder, made = tmp_path_factory.mktemp("cases"), dict[str, Tables]()

    def tables_of(name: str) -> Tables:
        if name not in made:
            ingest(spark, [str(CASES / name)], str(folder / name))
            made[name] = Tables(spark, str(folder / name))
        return made[name]

    return tables_of


def test_two_seconds_after_a_quota_was_raised_the_quotas_say_when_it_ends(case: Callable[[str], Tables]) -> None:
    """It took 31 s more; told was 1 min 15 s, by the last minute's pace."""
    tables = case("eta-after-raise")
    answer = ask(tables, will_it_finish.QUESTION)
    assert answer.verdict is Verdict.GOOD
    assert answer.number == pytest.approx(31, abs=2)
    assert "by the quotas alone, since 2 s after a change no pace is known" in answer.sentence
    assert answer.command.startswith(
        "throttle-sidecar set leader.replication.throttled.rate 16MiB/s --fleet fleet.toml"
    )


def test_a_move_that_came_nearer_all_the_time_never_stalled(case: Callable[[str], Tables]) -> None:
    """Its replicas fell behind one after the other; told was "no nearer for 12 seconds"."""
    tables = case("false-stalls")
    assert lag.stalls(lag.of_tables(tables), tables.seconds, tables.events).count() == 0
    answer = ask(tables, what_happened.QUESTION, at=RAISED, around=120)
    assert not [text for text in (answer.sentence, *answer.evidence) if "no nearer" in text]
    assert "quota" in answer.sentence
    assert any("3 MiB/s → 8 MiB/s" in text for text in (answer.sentence, *answer.evidence))
    assert ask(tables, will_it_finish.QUESTION).sentence.startswith("It has: nobody was behind")


def test_what_remains_is_counted_in_bytes_where_messages_differ(
    case: Callable[[str], Tables], capsys: pytest.CaptureFixture[str]
) -> None:
    """412 000 clicks of 1 kB and 9 412 images of 1 MB, at 9.8 MB/s; told were 85.9 s."""
    tables = case("eta-message-sizes")
    answer = ask(tables, will_it_finish.QUESTION)
    assert answer.number == pytest.approx(16 * 60 + 42, rel=0.02)
    assert main(["lag", tables.storage.root, "--master", "local[2]"]) == 0
    names, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in rows:
        told = dict(zip(names, row, strict=True))
        if (told["broker"], told["role"]) in (("1", "leader"), ("2", "follower")):
            assert float(told["eta_seconds"]) == pytest.approx(16 * 60 + 42, rel=0.02)
            assert float(told["remaining_bytes"]) == pytest.approx(412e6 + 9412e6, rel=0.01)


def test_a_replica_that_fell_silent_while_behind_has_not_finished(
    case: Callable[[str], Tables], capsys: pytest.CaptureFixture[str]
) -> None:
    """b-1 was 377 500 messages of 1 kB behind, and was not heard of for 130 s; told was "It has: nobody was behind"."""
    tables = case("replica-that-left")
    for question in (will_it_finish.QUESTION, replica_times.NEVER_CATCHES_UP, replica_times.UNDER_REPLICATED):
        answer = ask(tables, question)
        assert answer.verdict is Verdict.UNKNOWN
        assert "b-1 from 1 to 2" in answer.sentence
        assert "378 MB" in answer.sentence
    assert main(["lag", tables.storage.root, "--master", "local[2]"]) == 4
    said = capsys.readouterr()
    assert "b-1 from 1 to 2 fell silent" in said.err
    assert "378 MB" in said.err
    names, *rows = [line.split() for line in said.out.splitlines()]
    told = {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in rows}
    assert (told["2", "follower"]["lost"], told["2", "follower"]["eta_seconds"]) == ("1", "-")
