"""What the tables lack by the sidecars' own word: lines that they dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal_schema import Kind
from pipeline.cli import main
from pipeline.journals.ingest import ingest
from pipeline.report.facts import collect
from pipeline.tables import Tables
from pipeline.tables.incomplete_data import QUEUED_SECONDS, of_dropped
from pipeline.tables.scope import Scope
from tests.pipeline.journal_files import FIRST, changed, event_line, quota_line, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

OF_101 = "5 of broker 101, as told at 2026-11-21T08:41:40Z"
OF_102 = "9 of broker 102, as told from 2026-11-21T08:42:10Z to 2026-11-21T08:42:20Z"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """101 lost the seconds from 60 to 99, and said so in the latter; 102 lost something between other lines."""
    folder = tmp_path_factory.mktemp("dropped")
    for broker, gap, dropped in ((101, range(60, 100), {100: 5}), (102, range(0), {130: 7, 140: 2})):
        lines = [changed(quota_line(), broker=broker, bytes_per_second=5000.0)]
        spoken = (FIRST + at for at in range(160) if at not in gap)
        lines += [traffic_line(at, broker=broker, in_sync=True, fetch_offset=900) for at in spoken]
        lines += [event_line(Kind.DROPPED, FIRST + at, broker=broker, lines=count) for at, count in dropped.items()]
        write_file(folder / "journal", lines=lines, broker=broker)
    ingest(spark, [str(folder / "journal")], str(folder / "tables"))
    return Tables(spark, str(folder / "tables"))


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (Scope(), [OF_101, OF_102]),
        (Scope(brokers=(102,)), [OF_102]),
        # It says so once it writes again: after these seconds, and 102 wrote something in between.
        (Scope(until=FIRST + 80), [OF_101]),
        (Scope(until=FIRST + 30), []),
        (Scope(since=FIRST + 110), [OF_101, OF_102]),
        (Scope(since=FIRST + 141 + QUEUED_SECONDS), []),
    ],
)
def test_lines_that_were_dropped_are_told_of_the_seconds_that_may_lack_them(
    tables: Tables, scope: Scope, told: list[str]
) -> None:
    wanted = [f"not complete: sidecars dropped lines of their journals: {', '.join(told)}"] if told else []
    assert of_dropped(tables.within(scope)) == wanted


def test_what_was_dropped_long_before_the_last_minutes_is_a_doubt_of_the_end_and_no_more(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One drop, days ago, was the end of each answer."""
    lines = [changed(quota_line(), bytes_per_second=5000.0), event_line(Kind.DROPPED, FIRST + 1, lines=5)]
    lines += [traffic_line(FIRST + 2000 + at, in_sync=True, fetch_offset=900) for at in range(20)]
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    assert main(["ask", "will-it-finish", str(tmp_path / "tables"), "--master", "local[2]"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("It has: nobody was behind")
    assert "but: not complete: sidecars dropped lines of their journals: 5 of broker 101" in said
    assert main(["ask", "was-it-kept", str(tmp_path / "tables"), "--master", "local[2]"]) == 4


@pytest.mark.parametrize(
    ("question", "would_be"), [("was-it-kept", "Yes, the bound was kept"), ("will-it-finish", "It has: nobody was")]
)
def test_without_them_no_answer_is_good_that_needs_all(
    tables: Tables, capsys: pytest.CaptureFixture[str], question: str, would_be: str
) -> None:
    """Of 40 seconds without a line it said "Yes", and "nobody was behind"."""
    assert main(["ask", question, tables.storage.root, "--master", "local[2]"]) == 4
    said = capsys.readouterr()
    assert said.out.startswith("Not known, since sidecars dropped lines of their journals; by those there are: ")
    assert would_be in said.out.splitlines()[0]
    assert f"but: not complete: sidecars dropped lines of their journals: {OF_101}" in said.out
    assert f"not complete: sidecars dropped lines of their journals: {OF_101}" in said.err
    before = ["--until", "2026-11-21T08:40:30Z"]
    assert main(["ask", question, tables.storage.root, *before, "--master", "local[2]"]) == 0
    assert would_be in capsys.readouterr().out


def test_each_answer_of_the_page_has_it_as_a_doubt(tables: Tables) -> None:
    found = collect(tables)
    assert all(any(OF_101 in text for text in answer.uncertainty) for answer in found.answers)
    assert found.kept.verdict.value == 4
