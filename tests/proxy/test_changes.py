"""Nobody who waits is forgotten."""

from __future__ import annotations

import trio

from proxy.changes import Changes


async def test_everybody_who_waits_is_woken_once() -> None:
    changes, woken = Changes(), []

    async def wait(name: str) -> None:
        await changes.wait()
        woken.append(name)

    async with trio.open_nursery() as nursery:
        for name in ("a", "b"):
            nursery.start_soon(wait, name)
        await trio.testing.wait_all_tasks_blocked()
        changes.notify()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        nursery.start_soon(wait, "late")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        changes.notify()
    assert "late" in woken
