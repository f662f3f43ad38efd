"""What is typed, what is printed, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journal_schema import Kind
from pipeline.cli import group, main
from tests.pipeline.journal_files import FIRST, event_line, traffic_line, write_file
from tests.pipeline.journals.flaky import object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MASTER = ["--master", "local[2]"]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 seconds of a steady drain at the quota; one second at twice the quota."""
    folder = tmp_path_factory.mktemp("cli")
    quota = event_line(
        Kind.QUOTA, FIRST, role="leader", bytes_per_second=1018.0, policy="strict", enforce=True, selection="*",
        reason="start",
    )  # fmt: skip
    lines = [
        traffic_line(FIRST + n, fetch_offset_before=[max(5 * n - 5, 0)], fetch_offset=5 * n, omitted=1)
        for n in range(100)
        if n != 50
    ]
    twice = {"record_bytes": 2000, "wire_bytes": 2036}
    lines.append(traffic_line(FIRST + 50, fetch_offset_before=[245], fetch_offset=250, omitted=1, **twice))
    write_file(folder / "journal", lines=[quota, *lines])
    assert main(["ingest", str(folder / "journal"), "--into", str(folder / "tables"), *MASTER]) == 0
    return folder / "tables"


def test_every_job_teaches_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in group.commands:
        assert main([name, "--help"]) == 0
        assert "Example" in capsys.readouterr().out, name


def test_ingest_says_what_it_did(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(tables.parent / "journal"), "--into", str(tables), *MASTER]) == 0
    printed = capsys.readouterr()
    assert "files: none; unchanged: 1" in printed.out
    assert "nothing new" in printed.err


def test_compact_says_what_there_was_to_do(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", str(tables), *MASTER]) == 0
    names, *rows = capsys.readouterr().out.splitlines()
    assert names.split() == ["table", "files_before", "files", "bytes_before", "bytes"]
    assert [row.split() for row in rows] == [[name, *"0000"] for name in ("lines", "events", "files", "quarantine")]


def test_where_no_window_was_over_the_evidence_is_there_and_empty(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """It is known from the sums, so that windows are not judged once more; columns are those it has otherwise."""
    until_then = ["--until", f"{datetime.fromtimestamp(FIRST + 50, UTC):%Y-%m-%dT%H:%M:%SZ}"]
    for name, arguments in (("none", until_then), ("some", [])):
        assert main(["audit", str(tables), *arguments, "--evidence", str(tmp_path / name), *MASTER]) == 0
    none, some = (spark.read.parquet(str(tmp_path / name)) for name in ("none", "some"))
    assert none.columns == some.columns
    assert (none.count(), some.count() > 0) == (0, True)
    capsys.readouterr()
    assert main(["audit", str(tables), *until_then, *MASTER]) == 0
    assert "no rows" in capsys.readouterr().err


def test_audit_prints_the_verdict_and_the_evidence(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tables), *MASTER]) == 0
    summary, _, evidence = capsys.readouterr().out.partition("\nworst windows over the bound:\n")
    header, row = [line.split() for line in summary.splitlines() if line]
    found = dict(zip(header, row, strict=True))
    assert (found["broker"], found["role"], found["worst_1s"], found["over_1s"]) == ("101", "leader", "2.000", "1")
    assert (found["worst_1s_at"], found["kept"], found["verdict"]) == (str(FIRST + 50), "False", "broken")
    assert "catch-up over the bound" in evidence


def test_rates_inside_a_quota_are_audited_and_hold_in_every_scenario(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 10 kB/s of the broker 2 kB/s are the peer's, which has 1018 B/s of them."""
    bounds = {"peers": {"102": 2000.0}, "topics": {"orders": 5.0}}
    quota = event_line(
        Kind.QUOTA, FIRST, role="leader", bytes_per_second=10_000.0, policy="strict", enforce=True, selection="*",
        reason="start", bounds=json.dumps(bounds),
    )  # fmt: skip
    lines = [
        traffic_line(FIRST + n, fetch_offset_before=[max(5 * n - 5, 0)], fetch_offset=5 * n, omitted=1)
        for n in range(30)
    ]
    write_file(tmp_path / "journal", lines=[quota, *lines])
    assert main(["ingest", str(tmp_path / "journal"), "--into", str(tmp_path / "tables"), *MASTER]) == 0
    assert main(["audit", str(tmp_path / "tables"), *MASTER]) == 0
    assert "leader, peer 102" in capsys.readouterr().out
    replay = ["replay", str(tmp_path / "tables"), "--leader", "1MB/s", *MASTER]
    assert main(replay) == 0
    printed = capsys.readouterr()
    assert "in every scenario hold as recorded: peer 102 of broker 101 as leader" in printed.err
    assert "left out: broker 101 as leader had rates of topics (orders)" in printed.err
    header, row = [line.split() for line in printed.out.splitlines() if line]
    behind = 900 * 1000 / 5  # messages, each a fifth of what a second brought
    assert float(row[-1]) == pytest.approx(behind / 2000.0, rel=0.1), header


def test_lag_prints_the_last_word(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lag", str(tables), *MASTER]) == 0
    header, row = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = dict(zip(header, row, strict=True))
    assert (found["time"], found["lag"], found["behind"], found["lost"]) == (str(FIRST + 99), str(900 - 495), "1", "0")
    assert float(found["eta_seconds"]) == pytest.approx(81, rel=0.03)
    assert float(found["eta_low"]) < 81 < float(found["eta_high"])


def test_a_broker_that_is_in_no_table_is_said(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mistyped, it would be one of which nothing is to be told: never broken, never starved."""
    for job in (["lag", str(tables)], ["audit", str(tables)], ["ask", "who-was-starved", str(tables)]):
        assert main([*job, "--broker", "101", "--broker", "1011", *MASTER]) == 1
        expected = "error: --broker 1011: expected one whose journals are in the tables (101)"
        assert expected in capsys.readouterr().err


def test_a_whole_result_goes_to_a_file(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rates"
    assert main(["rates", str(tables), "--by", "partition", "--out", str(out), "--format", "csv", *MASTER]) == 0
    lines = [line for part in sorted(out.glob("part-*.csv")) for line in part.read_text().splitlines()]
    assert lines[0].split(",") == [
        "broker", "role", "topic", "partition", "time", "bytes", "in_sync_bytes", "record_bytes", "fetches",
        "omitted", "kip73_rate",
    ]  # fmt: skip
    assert len(lines) == 101
    assert f"written to {out}" in capsys.readouterr().err


def test_a_result_takes_the_place_of_an_earlier_one_and_of_nothing_else(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark removes what it finds where it is to write: a home directory, a file, or the tables themselves."""
    kept = tmp_path / "kept" / "thesis.txt"
    kept.parent.mkdir()
    kept.write_text("years", "utf-8")
    (tmp_path / "empty").mkdir()
    files = sorted(tables.rglob("*"))
    for place in (kept, kept.parent, tables, tables / "files"):
        for job in (["rates", str(tables), "--out"], ["audit", str(tables), "--evidence"]):
            assert main([*job, str(place), *MASTER]) == 1
            assert f"error: {place}: expected nothing, or an earlier result" in capsys.readouterr().err
    assert kept.read_text("utf-8") == "years"
    assert sorted(tables.rglob("*")) == files
    for place in (tmp_path / "empty", tmp_path / "new", tmp_path / "new"):
        assert main(["rates", str(tables), "--out", str(place), *MASTER]) == 0


def test_moves_prints_each(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moves", str(tables), *MASTER]) == 0
    header, row = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = dict(zip(header, row, strict=False))
    assert (found["source"], found["destination"], found["seconds"], found["finished"]) == (
        "101",
        "102",
        "100",
        "False",
    )


def test_replay_tries_every_quota_once(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """900 messages of 200 bytes."""
    quotas = ["--leader", "1kB/s", "--follower", "2kB/s", "--leader", "1000B/s"]
    assert main(["replay", str(tables), *quotas, *MASTER]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[0], row[1], float(row[-1])) for row in rows] == [
        ("follower", "2000", pytest.approx(90, rel=0.1)), ("leader", "1000", pytest.approx(180, rel=0.1))
    ]  # fmt: skip


def test_stream_watches_once(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    textfile = tmp_path / "pipeline.prom"
    arguments = ["--into", str(tmp_path / "live"), "--textfile", str(textfile), "--once"]
    assert main(["stream", str(tables.parent / "journal"), *arguments, *MASTER]) == 0
    assert "eta_seconds" in capsys.readouterr().out
    assert 'replication_pipeline_stalled{broker="101",role="leader"} 0' in textfile.read_text()


def test_a_text_file_that_cannot_be_written_is_said_and_ends_no_stream(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics" / "pipeline.prom").mkdir(parents=True)
    job = ["stream", str(tables.parent / "journal"), "--into", str(tmp_path / "live"), "--once", *MASTER]
    assert main([*job, "--textfile", str(tmp_path / "nothing" / "pipeline.prom")]) == 1
    assert "pipeline.prom: expected its folder to be there" in capsys.readouterr().err
    assert main([*job, "--textfile", str(tmp_path / "metrics" / "pipeline.prom")]) == 1
    printed = capsys.readouterr()
    assert "pipeline.prom: cannot be written: Is a directory" in printed.err
    assert "eta_seconds" in printed.out
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["pipeline.prom"]


def test_what_is_missing_is_printed_and_is_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(tmp_path / "journal", lines=[traffic_line(FIRST), "not a line", traffic_line(4_070_908_800)])
    write_file(tmp_path / "journal", broker=102, lines=[traffic_line(FIRST, broker=102)], closed=False)
    assert main(["ingest", str(tmp_path / "journal"), "--into", str(tmp_path / "tables"), *MASTER]) == 1
    said = capsys.readouterr().out
    assert "files: 1 torn, 1 whole; unchanged: 0" in said
    assert "lines: 7, of them set aside: 2" in said
    assert "its clock is in the future: 2099-01-01 (lines like that, in all files: 1)" in said
    assert "torn: it ends before its last line says so (a kill -9, a full disk); its 2 whole lines were read" in said
    assert main(["lag", str(tmp_path / "tables"), *MASTER]) == 0
    assert "not complete: of 2 journal files 1 torn, 2 lines set aside" in capsys.readouterr().err


def test_a_report_goes_to_any_path_and_in_an_object_store_takes_the_place_of_the_one_there(
    spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    """A store's rename refuses what is there already, and its paths are no files of this machine."""
    out = tmp_path / "reports" / "report.html"
    out.parent.mkdir()
    out.write_text("the one before", "utf-8")
    places = ["--out", f"{object_store(spark)}{out}", "--json", f"file:{tmp_path}/{{a}}/report.json"]
    assert main(["report", str(tables), *places, *MASTER]) == 0
    assert "<h1>Replication" in out.read_text("utf-8")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    assert json.loads((tmp_path / "{a}" / "report.json").read_text("utf-8"))["brokers"] == 1


def test_a_report_takes_no_folder_s_place_nor_its_own(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "yesterday.html").write_text("the one before", "utf-8")
    for option in ("--out", "--json"):
        assert main(["report", str(tables), option, f"file:{tmp_path}/reports", *MASTER]) == 1
        assert "reports: cannot be written: expected a file, found a folder" in capsys.readouterr().err
    for option in ("--out", "--json"):
        assert main(["report", str(tables), option, str(tmp_path / "nowhere" / "report"), *MASTER]) == 1
        assert "report: cannot be written: expected its folder to be there, found none" in capsys.readouterr().err
    assert (tmp_path / "reports" / "yesterday.html").exists()
    assert main(["report", str(tables), "--out", "one", "--json", "one", *MASTER]) == 2
    assert "two places, found one for both" in capsys.readouterr().err


def test_a_topic_from_the_wire_does_not_reach_the_terminal_as_it_is(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [traffic_line(FIRST + at, topic="\x1b]52;c;cm0=\x07", fetch_offset=at) for at in range(3)]
    write_file(tmp_path / "journal", lines=[*lines, "not a line \x1b[2J"])
    main(["ingest", str(tmp_path / "journal"), "--into", str(tmp_path / "tables"), *MASTER])
    assert main(["moves", str(tmp_path / "tables"), *MASTER]) == 0
    printed = capsys.readouterr()
    assert "\\x1b]52;c;cm0=\\x07" in printed.out
    assert "\x1b" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["replay", "{tmp}"], 2, "expected at least one --leader, --follower or --both"),
        (["replay", "{tmp}", "--leader", "1Mb/s"], 2, "expected something like 20MB/s, found '1Mb/s'"),
        (["audit", "{tmp}/nothing"], 1, "nothing: no tables here; run `python -m pipeline ingest` first"),
        (["ingest", "{tmp}/nothing", "--into", "{tmp}/t"], 1, "nothing: no such file or directory"),
        (["ingest", "{tmp}", "--into", "{tmp}/t"], 1, "no files called journal-*.gz here"),
        (["audit", "{tmp}", "--conf", "x"], 1, "--conf: expected KEY=VALUE, found 'x'"),
        (["audit"], 2, "Missing argument"),
        (["audit", "{tmp}", "--out", "over", "--evidence", "over/"], 2, "two places, found over/ for both"),
        (["ask", "what-did-it-cost", "{tmp}", "--price", "nan"], 2, "expected something like 0.01, found 'nan'"),
        (["ask", "what-did-it-cost", "{tmp}", "--price", "0"], 2, "expected more than 0, such as 0.01, found '0'"),
        (["audit", "{tmp}", "--since", "99999999h"], 2, "expected less, such as 2h, found '99999999h'"),
        (["audit", "{tmp}", "--until", "0001-01-01"], 2, "found '0001-01-01'"),
        (["ask", "what-happened", "{tmp}", "--at", "9999-12-31"], 2, "found '9999-12-31'"),
        (["ask", "what-happened", "{tmp}", "--at", "6h", "--around", "99999999999d"], 2, "expected less, such as 2h"),
        (["replay", "{tmp}", "--leader", "1MB/s", "--line", "0"], 2, "'--line': expected more than 0"),
        (["weather"], 2, "No such command"),
    ],
)
def test_wrong_input_is_a_line_and_a_status(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == status
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("full", ["stdout", "stderr", "both"])
def test_a_full_disk_behind_the_output_is_said_and_ends_with_1(full: str) -> None:
    """Not with 120, by which Python says that its own last flush failed; buffered, as streams are for people."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as device:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", "--help" if full == "stdout" else "nope"],
            cwd=ROOT, env=environment, check=False,
            stdout=subprocess.PIPE if full == "stderr" else device,
            stderr=subprocess.PIPE if full == "stdout" else device,
        )  # fmt: skip
    assert done.returncode == 1
    if full == "stdout":
        assert done.stderr.decode().startswith("error: the output cannot be written: No space left on device; what was")
        assert len(done.stderr.splitlines()) == 1
