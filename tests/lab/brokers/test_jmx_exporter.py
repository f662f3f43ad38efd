"""The agent's jar: from the cache if it is there, from Maven otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab.brokers import jmx_exporter
from lab.brokers.jmx_exporter import VERSION, exporter_jar, exporter_options
from lab.errors import LabError


def test_what_is_in_the_cache_is_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    jar = tmp_path / f"jmx_prometheus_javaagent-{VERSION}.jar"
    jar.touch()
    assert exporter_jar(cache=tmp_path) == jar


def test_a_missing_maven_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="apt-get install maven"):
        exporter_jar(cache=tmp_path)


def test_an_agent_has_an_address_and_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jmx_exporter, "exporter_jar", lambda: Path("/cache/agent.jar"))
    options = exporter_options("127.1.2.3", Path("/etc/jmx.yaml"))
    assert options == ("-javaagent:/cache/agent.jar=127.1.2.3:9405:/etc/jmx.yaml",)
