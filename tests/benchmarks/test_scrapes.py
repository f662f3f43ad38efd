"""What a scrape costs: that the benchmark measures what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from benchmarks import scrapes
from proxy.config.settings import load_settings
from proxy.quota_files.reload import QuotaWatch
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.diagnostics.surveys import surveyed
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path


def test_half_of_so_many_replicas_are_behind(tmp_path: Path) -> None:
    (tmp_path / "proxy.toml").write_text(scrapes.PROXY)
    (tmp_path / "quotas.toml").write_text(scrapes.QUOTAS)
    settings = load_settings(tmp_path / "proxy.toml")
    watch = QuotaWatch.open(settings.quotas.file, broker_id=101, log=RecordedLog())
    throttle = RoleThrottle(Role.LEADER, settings.quotas, quotas=watch.current, statistics=RoleStatistics(), now=5.0)
    scrapes.fill(throttle, replicas=4000, connections=4, now=5.0)
    found = surveyed(throttle, 5.0)
    assert (found.in_sync, found.behind, found.fetching) == (2000, 2000, 4)


def test_slices_are_shorter_than_one_go_and_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text("\n".join(("before", scrapes.PART.begin, scrapes.PART.end, "after")) + "\n")
    options = ["--replicas", "40000", "--connections", "40", "--rounds", "3", "--write", str(document)]
    result = CliRunner().invoke(scrapes.main, options)
    assert result.exit_code == 0, result.output
    rows = [line.split(" | ") for line in document.read_text().splitlines() if "| `/metrics` |" in line]
    longest = {row[1]: float(row[2].removesuffix(" ms")) for row in rows}
    assert longest["in slices"] < longest["at one go"] / 3
    assert document.read_text().startswith("before\n")
    assert document.read_text().endswith("after\n")
