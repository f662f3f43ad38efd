from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from operating.commands.confirming import confirm
from proxy.quotas import hash_of
from tests.proxy.fake_sidecar import PAGE

if TYPE_CHECKING:
    from tests.proxy.fake_sidecar import FakeSidecar


class Clock:
    """Stands in for `time`; `then` happens after that many steps."""

    def __init__(self, then: dict[int, object]) -> None:
        self.now, self._then = 0.0, then
        self.steps = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.steps += 1
        change = self._then.get(self.steps)
        if callable(change):
            change()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock({})
    monkeypatch.setattr("operating.commands.confirming.time", clock)
    return clock


FILE = b'[brokers.default]\nleader.replication.throttled.rate = "4MiB/s"\n'
"""What `ROLE` has."""
NEW = hash_of(FILE)


def says(hash: str, **quotas: object) -> bytes:  # noqa: A002 - as the page calls it
    return json.dumps({**PAGE, "quotas": {"hash": hash, **quotas}}).encode()


def test_it_waits_until_the_file_is_in_force(fake: FakeSidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.content = says("old")
    clock = Clock({3: lambda: setattr(fake, "content", says(NEW))})
    monkeypatch.setattr("operating.commands.confirming.time", clock)
    (found,) = confirm([fake.url], FILE)
    assert (found.in_force, found.broker) == (True, 101)
    assert found.line == f"broker 101 ({fake.url}): in force: leader 4.00 MiB/s (4194304 B/s), hash {NEW}"
    assert clock.steps == 3


def test_a_sidecar_that_reads_another_file_is_a_failure(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says("old")
    assert [(found.in_force, found.line) for found in confirm([fake.url], FILE)] == [
        (False, f"broker 101 ({fake.url}): not in force after 5 s: it has hash old; does it read this file?")
    ]
    assert clock.now == pytest.approx(5, abs=0.2)


def test_why_it_refuses_is_said(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says("old", last_reload_successful=False, last_error="quotas.toml: x: expected y")
    (found,) = confirm([fake.url], FILE)
    assert not found.good
    assert found.line.endswith("it refuses its file: quotas.toml: x: expected y")


def test_one_that_cannot_be_asked_is_no_failure(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says(NEW)
    first, second = confirm(["http://127.0.0.1:1", fake.url], FILE)
    assert (first.in_force, first.good) == (None, True)
    assert second.in_force
    line = first.line
    assert line.startswith("could not ask: http://127.0.0.1:1/throttle: no answer from a sidecar: ")
    assert line.endswith("a sidecar that runs takes the file within 250 ms")
