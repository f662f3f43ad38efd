"""A Prometheus of our own, asked and answered; what it scrapes is in the incident of tests/deploy."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import trio

from lab.errors import LabError
from lab.host.addresses import Addresses
from lab.host.processes import kill_all
from lab.measuring import prometheus
from lab.measuring.prometheus import Prometheus, Target, promtool, required_tool

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
groups:
  - name: g
    rules:
      - alert: Low
        expr: vector(41) < 42
        annotations: {summary: "{{ $value }} is low"}
      - alert: Never
        expr: vector(41) < 0
"""


async def test_it_answers_and_alerts(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES, "utf-8")
    target = Target("job", "127.0.0.1:1", {"cluster": "c"})
    server = Prometheus([target], [rules], home=tmp_path / "prometheus")
    try:
        await server.start()
        with trio.fail_after(15):
            while not (firing := await trio.to_thread.run_sync(server.firing)):  # noqa: ASYNC110 - over HTTP
                await trio.sleep(0.05)
        vector = await trio.to_thread.run_sync(server.query, 'label_replace(vector(3), "a", "b", "", "")')
        scalar = await trio.to_thread.run_sync(server.query, "1 + 1")
        with pytest.raises(LabError, match="parse error"):
            await trio.to_thread.run_sync(server.query, "answer +")
        assert server.unhealthy_rules() == []
    finally:
        kill_all([server.process])
    assert [(alert.name, alert.annotations["summary"]) for alert in firing] == [("Low", "41 is low")]
    assert (vector, scalar) == ([({"a": "b"}, 3)], [({}, 2)])


def test_it_listens_where_nobody_else_was_found_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 9090, its own port, a machine's Prometheus listens, and nobody had looked."""
    monkeypatch.setattr(prometheus, "required_tool", lambda name: name)
    looked_at = Addresses("127.88.20", (1,))
    monkeypatch.setattr(prometheus, "free_subnet", lambda _: looked_at)
    place = urlsplit(Prometheus([], [], home=tmp_path / "prometheus").url)
    assert (place.hostname, place.port) in set(looked_at.everything())


def test_promtool_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(RULES.replace("vector(41) < 42", "vector(41) <"), "utf-8")
    with pytest.raises(LabError, match="parse error"):
        promtool("check", "rules", "bad.yaml", directory=tmp_path)


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="`promtool` was not found on PATH: apt-get install prometheus"):
        required_tool("promtool")
