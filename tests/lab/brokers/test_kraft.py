from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.brokers.kraft import format_storage, kraft_properties, storage_template
from lab.errors import LabError
from lab.host.addresses import Addresses

if TYPE_CHECKING:
    from pathlib import Path

PLAN = Addresses("127.31.7", (101, 102, 103))
FAKE_JAVA = """#!/bin/sh
echo called >> "{calls}"
previous=
for argument; do
  [ "$previous" = --config ] && config="$argument"
  [ "$previous" = --release-version ] && release="$argument"
  previous="$argument"
done
[ "$release" = 0.0 ] && {{ echo "no such release"; exit 1; }}
while read -r line; do case "$line" in log.dirs=*) out="${{line#*=}}" ;; esac; done < "$config"
mkdir -p "$out" && echo node.id=1 > "$out/meta.properties" && echo records > "$out/bootstrap.checkpoint"
"""


def properties(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in text.splitlines())}


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for jars, and a java that formats like StorageTool."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(FAKE_JAVA.format(calls=tmp_path / "calls"))
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:/bin:/usr/bin")
    folder = tmp_path / "cache" / "kafka-9.9"
    folder.mkdir(parents=True)
    return folder


def test_the_first_broker_is_the_controller() -> None:
    first, second = kraft_properties(PLAN, 101), kraft_properties(PLAN, 102)
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == f"PLAINTEXT://kafka-101:9092,CONTROLLER://{PLAN.direct(101)}:9093"
    assert second["process.roles"] == "broker"
    assert second["listeners"] == second["advertised.listeners"] == "PLAINTEXT://kafka-102:9092"


def test_the_controller_is_met_by_address_so_that_nothing_stands_between() -> None:
    voters = {kraft_properties(PLAN, broker)["controller.quorum.voters"] for broker in PLAN.brokers}
    assert voters == {"101@127.31.7.11:9093"}


def test_storage_is_formatted_once_and_copied_with_another_identity(jars: Path, tmp_path: Path) -> None:
    template = storage_template("3.9", jars=jars)
    assert storage_template("3.9", jars=jars) == template
    assert (tmp_path / "calls").read_text() == "called\n"
    assert sorted(folder.name for folder in jars.parent.iterdir()) == ["kafka-9.9", "kafka-9.9-storage-3.9"]
    for node in (101, 102):
        format_storage(tmp_path / str(node), template, node=node, cluster_id="c")
    first, second = (properties((tmp_path / str(node) / "meta.properties").read_text()) for node in (101, 102))
    assert (first["node.id"], second["node.id"]) == ("101", "102")
    assert first["cluster.id"] == second["cluster.id"] == "c"
    assert first["directory.id"] != second["directory.id"]
    assert first["version"] == "1"
    assert (tmp_path / "102" / "bootstrap.checkpoint").read_text() == "records\n"


def test_a_formatted_directory_stays_as_it_is(jars: Path, tmp_path: Path) -> None:
    template = storage_template("3.9", jars=jars)
    format_storage(tmp_path / "data", template, node=101, cluster_id="c")
    before = (tmp_path / "data" / "meta.properties").read_text()
    format_storage(tmp_path / "data", template, node=102, cluster_id="d")
    assert (tmp_path / "data" / "meta.properties").read_text() == before


def test_the_tools_last_words_are_told_and_nothing_is_left(jars: Path) -> None:
    with pytest.raises(LabError, match=r"release 0\.0:\nno such release"):
        storage_template("0.0", jars=jars)
    assert [folder.name for folder in jars.parent.iterdir()] == ["kafka-9.9"]
