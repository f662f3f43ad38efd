"""The hosted CI's workflow runs what must pass before work lands, and by schedule whatever takes longer."""

from __future__ import annotations

import re
from typing import Any

import yaml

from deploy.commit import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
LONG = {"pipeline", "installed", "kubernetes", "fuzz", "explore", "simulation", "faults", "system"}


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"][name]
    return found


def test_what_must_pass_is_what_a_checkout_runs() -> None:
    assert "sudo .ci/run" in [step.get("run") for step in job("lands")["steps"]]


def test_the_long_verbs_run_by_schedule_and_are_the_makefiles() -> None:
    weekly = job("weekly")
    verbs = weekly["strategy"]["matrix"]["verb"]
    assert set(verbs) >= LONG
    assert "sudo make ${{ matrix.verb }}" in [step.get("run") for step in weekly["steps"]]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(verbs) <= set(targets)
