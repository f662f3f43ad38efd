"""What is loaded once traffic is served, on a machine that has no descriptor left to read a module with."""

from __future__ import annotations

import errno
from typing import NoReturn

import pytest

from proxy.observing import lazy_imports as late


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), ImportError("no such module")])
async def test_what_cannot_be_loaded_now_keeps_nothing_else_from_it_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A crowd that dialled a sidecar in its first tenth of a second ended it: importing prometheus_client raised."""
    loaded = []

    def fail() -> NoReturn:
        raise error

    for name in ("own_version", "load_prometheus"):
        monkeypatch.setattr(late, name, fail)
    monkeypatch.setattr(late, "load_notifier", lambda: loaded.append("notifier"))
    await late.load_lazily()
    assert loaded == ["notifier"]


async def test_where_no_thread_can_be_started_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a cgroup's pids.max is used up."""

    asked = []

    async def start(load: object, **_: object) -> NoReturn:
        asked.append(load)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(late, "in_thread", start)
    await late.load_lazily()
    assert asked == [late.load_late]
