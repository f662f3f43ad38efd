from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from pipeline import session
from pipeline.session import USED_ALL_THE_TIME, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", USED_ALL_THE_TIME)
def test_what_every_column_needs_of_the_jvm_is_looked_for_once(spark: SparkSession, name: str) -> None:
    found = getattr(spark._jvm, name)
    assert found is getattr(spark._jvm, name)
    for member in USED_ALL_THE_TIME[name]:
        assert getattr(found, member) is getattr(found, member)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Builder:
    """As much of Spark's as sets a session's settings."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def appName(self, _: str) -> Builder:
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
    monkeypatch.setattr(session, "_find_once", lambda _: None)
    open_session("bars")
    assert builder.settings.get("spark.ui.showConsoleProgress") == bars
