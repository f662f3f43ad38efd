from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy.commands.confirming import confirm
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
    monkeypatch.setattr("proxy.commands.confirming.time", clock)
    return clock


def says(hash: str, **quotas: object) -> bytes:  # noqa: A002 - as the page calls it
    return json.dumps({**PAGE, "quotas": {"hash": hash, **quotas}}).encode()


def test_it_waits_until_the_file_is_in_force(fake: FakeSidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.content = says("old")
    clock = Clock({3: lambda: setattr(fake, "content", says("new"))})
    monkeypatch.setattr("proxy.commands.confirming.time", clock)
    assert list(confirm([fake.url], "new")) == [(True, f"broker 101 ({fake.url}): in force, hash new")]
    assert clock.steps == 3


def test_a_sidecar_that_reads_another_file_is_a_failure(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says("old")
    assert list(confirm([fake.url], "new")) == [
        (False, f"broker 101 ({fake.url}): not in force after 5 s: it has hash old; does it read this file?")
    ]
    assert clock.now == pytest.approx(5, abs=0.2)


def test_why_it_refuses_is_said(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says("old", last_reload_successful=False, last_error="quotas.toml: x: expected y")
    ((good, line),) = confirm([fake.url], "new")
    assert not good
    assert line.endswith("it refuses its file: quotas.toml: x: expected y")


def test_one_that_cannot_be_asked_is_no_failure(fake: FakeSidecar, clock: Clock) -> None:
    fake.content = says("new")
    (first, line), (second, _) = confirm(["http://127.0.0.1:1", fake.url], "new")
    assert first
    assert second
    assert line.startswith("could not ask: http://127.0.0.1:1/throttle: no answer from a sidecar: ")
    assert line.endswith("a sidecar that runs takes the file within 250 ms")
