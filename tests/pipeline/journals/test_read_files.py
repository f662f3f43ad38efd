"""Readers that fail, files that are cut off, altered, copied: what is told of each, and what the tables have."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql.types import StructType

from pipeline.errors import InputError
from pipeline.journals import read_files
from pipeline.journals.ingest import Outcome, ingest
from pipeline.tables import Tables, delta
from pipeline.tables.schema import EVENTS
from tests.pipeline.journal_files import FIRST, traffic_line, write_file
from tests.pipeline.journals.flaky import SCHEME, flaky

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

SECONDS = 300
NUMBERS = random.Random(20)


def lines(broker: int, first: int = 0) -> list[str]:
    """Sizes like noise, so that a file has several thousand bytes, too many for one read."""
    return [
        traffic_line(FIRST + at, broker=broker, record_bytes=NUMBERS.randrange(10**9))
        for at in range(first, first + SECONDS)
    ]


def told_bytes(texts: Iterable[str]) -> int:
    """The independent sum: of the lines, in plain Python."""
    return sum(sum(json.loads(text)["record_bytes"]) for text in texts)


def bytes_of(spark: SparkSession, tables: Path, broker: int) -> int:
    rows = Tables(spark, str(tables)).seconds.where(f"broker = {broker}").select("record_bytes").collect()
    return sum(row.record_bytes for row in rows)


def states(spark: SparkSession, tables: Path) -> dict[str, str]:
    return {row.source.split("-")[1]: row.state for row in Tables(spark, str(tables)).files.collect()}


class Fed(NamedTuple):
    folder: Path
    told: dict[int, int]
    ill: Outcome
    """With a file system that fails for 101 once, for 102 always."""
    bytes_when_ill: dict[int, int]
    states_when_ill: dict[str, str]
    well: Outcome
    """Once it has recovered, and 103's file was copied anew."""

    @property
    def tables(self) -> Path:
        return self.folder / "tables"


@pytest.fixture(scope="module")
def fed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fed:
    """Reads of broker 101's and of 104's open file fail once, of 102's always; 103's file is altered. Then all is well.
    The folders' names mean something else as patterns."""
    folder = tmp_path_factory.mktemp("fed")
    journal, tables = folder / "{a,b} [1]", folder / "tables[2]+{3}"
    written = {broker: lines(broker) for broker in (101, 102, 103, 104)}
    files = {
        broker: write_file(journal, broker=broker, lines=texts) for broker, texts in written.items() if broker != 104
    }
    write_file(journal, broker=104, lines=written[104], name_ends=".open.ndjson.gz", closed=False)
    good = files[103].read_bytes()
    files[103].write_bytes(good[: len(good) // 2] + bytes([good[len(good) // 2] ^ 0x10]) + good[len(good) // 2 + 1 :])
    left = flaky(spark)
    left.update({"journal-101": 1, "journal-102": 1_000_000, "journal-104": 1})
    source = f"{SCHEME}:{journal}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(read_files, "PAUSE_SECONDS", 0.0)
        ill = ingest(spark, [source], str(tables))
    found = {broker: bytes_of(spark, tables, broker) for broker in written}
    kinds = states(spark, tables)
    left.clear()
    files[103].write_bytes(good)
    well = ingest(spark, [source], str(tables))
    told = {broker: told_bytes(texts) for broker, texts in written.items()}
    return Fed(folder, told, ill, found, kinds, well)


def test_an_error_that_passes_costs_nothing(fed: Fed) -> None:
    """SocketTimeoutException, once, in the middle of a closed file and of an open one."""
    assert fed.bytes_when_ill[101] == fed.told[101]
    assert fed.bytes_when_ill[104] == fed.told[104]
    assert (fed.states_when_ill["101"], fed.states_when_ill["104"]) == ("whole", "open")


def test_an_error_that_stays_is_said_and_the_file_is_not_done(spark: SparkSession, fed: Fed) -> None:
    assert (fed.states_when_ill["102"], fed.bytes_when_ill[102]) == ("unread", 0)
    assert not fed.ill.is_complete
    (said,) = [trouble for trouble in fed.ill.troubles if "journal-102" in trouble]
    assert "not read: SocketTimeoutException: Read timed out, again and again; nothing of it was taken" in said
    tables = fed.folder / "tables[2]+{3}"
    assert bytes_of(spark, tables, 102) == fed.told[102]
    assert states(spark, tables)["102"] == "whole"


def test_of_an_altered_file_no_line_is_taken_and_a_good_copy_is(spark: SparkSession, fed: Fed) -> None:
    assert (fed.states_when_ill["103"], fed.bytes_when_ill[103]) == ("corrupt", 0)
    assert any("corrupt: a byte of it has changed" in trouble for trouble in fed.ill.troubles)
    assert bytes_of(spark, fed.folder / "tables[2]+{3}", 103) == fed.told[103]


def test_a_good_copy_beside_a_corrupt_one_of_the_same_size_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    """The message asks for a good copy. Both are fed from then on, and the corrupt one is not tried for ever."""
    texts = lines(101)
    good = write_file(tmp_path / "b", lines=texts)
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 0x10
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / good.name).write_bytes(content)
    both, tables = [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "tables"
    assert ingest(spark, both, str(tables)).files == {"corrupt": 1}
    again = ingest(spark, both, str(tables))
    assert (again.files, again.is_complete) == ({"whole": 1}, True)
    assert bytes_of(spark, tables, 101) == told_bytes(texts)
    assert ingest(spark, both, str(tables)).files == {}


def test_files_of_two_clusters_with_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Equal broker ids and start seconds: the second was "unchanged". At once, one after the other, and a true copy."""
    for cluster in ("a", "b"):
        texts = [traffic_line(FIRST + at, run=cluster, record_bytes=at) for at in range(30)]
        write_file(tmp_path / cluster, lines=[*texts, *texts] if cluster == "b" else texts, run=cluster)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    one, other, copy = (str(tmp_path / name) for name in ("a", "b", "copy"))
    with pytest.raises(InputError, match="two clusters, or two sidecars with one broker id"):
        ingest(spark, [one, other], str(tmp_path / "both"))
    tables = str(tmp_path / "tables")
    assert ingest(spark, [one], tables).files == {"whole": 1}
    with pytest.raises(InputError, match=r"/b/journal-101.*: expected lines of run a as in .*/a/journal-101.*found"):
        ingest(spark, [other], tables)
    assert ingest(spark, [one, copy], tables)[:4] == ({"copy": 1}, 0, 0, 1)
    assert ingest(spark, [one, copy], tables)[:4] == ({}, 0, 0, 2)
    assert Tables(spark, tables).traffic.count() == 30
    assert Tables(spark, str(tmp_path / "both")).traffic.count() == 0


def test_files_that_name_two_clusters_are_refused_whatever_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """Other broker ids, other starts. A file that names none, from before the sidecar knew it, goes with either."""
    tables = str(tmp_path / "tables")
    write_file(tmp_path / "a", broker=101, lines=[traffic_line(FIRST)])
    write_file(tmp_path / "a", broker=101, number=2, lines=[traffic_line(FIRST + 1)], cluster="A")
    write_file(tmp_path / "b", broker=201, lines=[traffic_line(FIRST, broker=201)], cluster="B")
    write_file(tmp_path / "more", broker=102, lines=[traffic_line(FIRST, broker=102)], cluster="A")
    message = r"/b/journal-201-.*: expected lines of cluster A as in .*/a/journal-101-.*-000002.*, found those of.* B"
    with pytest.raises(InputError, match=message):
        ingest(spark, [str(tmp_path)], str(tmp_path / "both"))
    assert ingest(spark, [str(tmp_path / "a")], tables).files == {"whole": 2}
    with pytest.raises(InputError, match=message):
        ingest(spark, [str(tmp_path / "b")], tables)
    assert ingest(spark, [str(tmp_path / "more")], tables).files == {"whole": 1}
    assert {row.broker for row in Tables(spark, tables).traffic.collect()} == {101, 102}


def test_tables_from_before_a_column_was_added_are_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    tables, folder = str(tmp_path / "tables"), tmp_path / "journal"
    write_file(folder, lines=[traffic_line(FIRST)])
    former = StructType([field for field in EVENTS if field.name != "cluster"])
    delta.create(spark, f"{tables}/events", former, ("date",))
    assert Tables(spark, tables).table("events").columns == EVENTS.names
    ingest(spark, [str(folder)], tables)
    write_file(folder, number=2, lines=[traffic_line(FIRST + 1)], cluster="A")
    ingest(spark, [str(folder)], tables)
    said = Tables(spark, tables).events.where("kind = 'file_opened'").select("cluster").collect()
    assert sorted(row.cluster or "" for row in said) == ["", "A"]


def test_a_file_of_no_bytes_is_torn(spark: SparkSession, tmp_path: Path) -> None:
    """As a power cut leaves it. Spark lists it and passes over it without a word."""
    write_file(tmp_path / "journal", lines=lines(101))
    (tmp_path / "journal" / "journal-102-20261121T084000Z-000001.ndjson.gz").touch()
    done = ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    assert (done.files, done.is_complete) == ({"whole": 1, "torn": 1}, False)
    assert states(spark, tmp_path / "tables") == {"101": "whole", "102": "torn"}
    assert ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables")).files == {}


def test_what_was_read_whole_is_not_read_again(fed: Fed) -> None:
    assert (fed.well.files, fed.well.skipped_files) == ({"whole": 2, "open": 1}, 1)
    assert fed.well.is_complete
    assert fed.well.troubles == ()


def test_copies_and_what_a_file_was_while_it_was_open_are_the_same_file(spark: SparkSession, tmp_path: Path) -> None:
    """Both directories at once, then with a copy that was cut off; an open file that is closed later."""
    tables = tmp_path / "tables"
    texts = lines(101)
    path = write_file(tmp_path / "a", lines=texts)
    write_file(tmp_path / "a", broker=102, lines=lines(102)[:5], name_ends=".open.ndjson.gz", closed=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    first = ingest(spark, both, str(tables))
    assert (first.files, first.is_complete) == ({"whole": 1, "open": 1}, True)
    (tmp_path / "b" / path.name).write_bytes(path.read_bytes()[:-100])
    (tmp_path / "b" / path.name.replace("101", "102")).with_suffix("").with_suffix(".open.ndjson.gz").unlink()
    (tmp_path / "a" / path.name.replace("101", "102")).with_suffix("").with_suffix(".open.ndjson.gz").unlink()
    write_file(tmp_path / "b", broker=102, lines=lines(102)[:5])
    again = ingest(spark, both, str(tables))
    assert (again.files, again.skipped_files, again.is_complete) == ({"whole": 1, "copy": 1}, 1, True)
    assert states(spark, tables) == {"101": "whole", "102": "whole"}
    assert bytes_of(spark, tables, 101) == told_bytes(texts)
