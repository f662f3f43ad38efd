"""Who has which core, and when."""

from __future__ import annotations

import os

import pytest

from fuzz.stage import priority
from fuzz.stage.priority import be_nice, before_attackers

RUN = ["throttle-sidecar", "run"]


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """Of root; where `be_nice` put this process."""
    put: list[frozenset[int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: put.append(frozenset(cores)))
    monkeypatch.setattr(priority, "CORES", frozenset({4, 5}))
    monkeypatch.setattr(priority, "OWN_CORE", 4)
    return put


def test_in_real_time_the_sidecar_under_attack_has_a_core_to_itself(
    two_cores: list[frozenset[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(priority.ENVIRONMENT, priority.REALTIME)
    be_nice()
    assert two_cores == [frozenset({5})]
    assert before_attackers(RUN) == ["chrt", "--rr", "1", *RUN]
    attacked = before_attackers(RUN, attacked=True)
    assert attacked[:2] == ["sh", "-c"]
    assert attacked[4:] == ["taskset", "--cpu-list", "4", "nice", "-n", "-20", *RUN]


def test_one_core_is_shared(two_cores: list[frozenset[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(priority.ENVIRONMENT, priority.REALTIME)
    monkeypatch.setattr(priority, "CORES", frozenset({4}))
    be_nice()
    assert two_cores == []
    assert before_attackers(RUN, attacked=True) == ["chrt", "--rr", "1", *RUN]


def test_otherwise_the_attackers_alone_go_last(
    two_cores: list[frozenset[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(priority.ENVIRONMENT, raising=False)
    be_nice()
    assert two_cores == []
    assert before_attackers(RUN, attacked=True) == RUN
    monkeypatch.setenv(priority.ENVIRONMENT, "-5")
    assert before_attackers(RUN) == ["nice", "-n", "-5", *RUN]


def test_who_is_not_root_has_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv(priority.ENVIRONMENT, priority.REALTIME)
    be_nice()
    assert before_attackers(RUN, attacked=True) == RUN
