"""The demo on real brokers, as README's first command runs it, only shorter."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.lab.demo.test_command import SCRIPT, WORST_SECOND


@pytest.mark.brokers
@pytest.mark.timeout(120)
def test_the_demo_on_real_brokers_keeps_to_both_quotas_and_loses_nothing() -> None:
    arguments = ["--mib", "36", "--first", "4", "--raised", "12", "--json"]
    done = subprocess.run([SCRIPT, "demo", *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    ending = json.loads(done.stdout)
    assert [check["what"] for check in ending["checks"] if not check["holds"]] == []
    assert len(ending["checks"]) == 4
    for phase in ending["phases"]:
        assert phase["worst_second_over_quota"] <= WORST_SECOND
