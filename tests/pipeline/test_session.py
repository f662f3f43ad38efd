"""Settings of a session: what a terminal, a worker and Delta Lake need."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import session
from pipeline.errors import InputError
from pipeline.jars import FOLDER_VARIABLE, fetch, jars
from pipeline.session import open_session


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Builder:
    """As much of Spark's as sets a session's settings."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def appName(self, _: str) -> Builder:
        return self

    def master(self, _: str) -> Builder:
        return self

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def getOrCreate(self) -> None:
        return None


@pytest.mark.parametrize(("stderr", "bars"), [(Terminal(), None), (io.StringIO(), "false")], ids=["terminal", "file"])
def test_spark_draws_its_bars_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, bars: str | None
) -> None:
    """A log of cron's had every state of every bar: three thousand characters for a report of six moves."""
    builder = Builder()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(session.SparkSession, "builder", builder)
    open_session("bars")
    assert builder.settings.get("spark.ui.showConsoleProgress") == bars


def test_workers_of_this_machine_run_the_drivers_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started by cron, PATH has another Python or none, and every open file would count as not read."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(session.SparkSession, "builder", Builder())
    open_session("workers", master="local[2]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/another")
    open_session("workers", master="local[2]")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/another"


def test_a_session_starts_with_jars_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    monkeypatch.setattr(session.SparkSession, "builder", builder)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    open_session("jars", master="local[2]")
    named = [Path(path).name.partition("_")[2].partition("-4")[0] for path in builder.settings["spark.jars"].split(",")]
    assert named == ["delta-spark_4.2_2.13", "delta-storage"]
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert jars() == []


def test_jars_that_cannot_be_fetched_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pipeline.jars._PROGRAM", "raise SystemExit('no route to repo1.maven.org')")
    with pytest.raises(InputError) as error:
        fetch(tmp_path / "jars")
    assert "no route to repo1.maven.org\nexpected there: io.delta:delta-spark_4.2_2.13:4.4.0" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_asked_for_help_does_nothing_else(tmp_path: Path) -> None:
    """It has no options: --help was passed over, and the jars were fetched."""
    for arguments, status, said in (("--help",), 0, "usage: python -m pipeline.jars"), (("more",), 2, ""):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.jars", *arguments],
            env=os.environ | {FOLDER_VARIABLE: str(tmp_path / "jars"), "JAVA_HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout.startswith(said)) == (status, True), done.stderr
    assert list(tmp_path.iterdir()) == []
