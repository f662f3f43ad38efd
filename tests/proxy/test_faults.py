"""An error at any await of a running sidecar, or in what its tasks call, costs what was done there, and never the
connections beside it.

Which awaits there are is found out by doing all that a sidecar does, again and again until no new one appears.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio
import trio.testing

from proxy.journal.recorder import Journal
from proxy.observing.exposition import Exposition
from proxy.observing.status_page import StatusPage
from proxy.process import resources, supervision
from proxy.process.supervision import Supervisor, Task
from proxy.process.watchdog import LoopLag
from proxy.quota_files.reload import QuotaWatch
from proxy.relay.poller import Poller
from proxy.relay.reaper import Reaper
from proxy.throttle.role_throttle import RoleThrottle

from .attended import Attended, attended
from .faults import Await, Faults, InjectedFaultError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

IDLE_SECONDS = 0.002
"""So long nothing happens in this process before its clock goes on to what comes next: a busy machine makes nobody
late."""
MAX_TRIES = 4
OCCASIONS = 2
"""The sidecar's uses in which an await is to be met, the second after an error before it: it has been met by then, or
goes on only when it is cancelled."""
PAUSE_SECONDS = 0.05
LONGEST_SECONDS = 600.0
"""Of the clock that goes on by itself: some two minutes of everybody else's, if nothing happens at all."""
MIN_AWAITS = 80
"""There were 90 when this was written; fewer would mean that something is not used any more. For some there is no
occasion: they go on only when they are cancelled."""
KEPT = {task.value for task in Task} - {Task.POLLER, Task.TLS_FILES, Task.HANDOVER}
"""The poller starts again by itself, there is no TLS, and no other process takes over."""

pytestmark = pytest.mark.timeout(600, method="thread")  # the other method's signal is taken by the sidecar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(supervision, "MAX_PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(resources, "FULL_COLLECTION_SECONDS", 2.0)
    return trio.testing.MockClock(autojump_threshold=IDLE_SECONDS)


@contextmanager
def met_by(faults: Faults) -> Iterator[None]:
    trio.lowlevel.add_instrument(faults)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(faults)


async def until_raised(of: Attended, raised: trio.Event, provoke: Callable[[], None] = lambda: None) -> bool:
    """Use the sidecar until it has happened; False if it does not, not even after an error that was provoked."""
    for number in range(OCCASIONS):
        if number:
            provoke()
        async with trio.open_nursery() as nursery:

            async def use() -> None:
                await of.uses.once()
                nursery.cancel_scope.cancel()

            nursery.start_soon(use)
            await raised.wait()
            nursery.cancel_scope.cancel()
        if raised.is_set():
            return True
    return False


async def works_again(of: Attended) -> bool:
    """Use the sidecar until each use has succeeded; on a busy machine one that meets a pause may need another try."""
    of.uses.served.clear()
    for _ in range(MAX_TRIES):
        await of.uses.once()
        if of.uses.served.keys() >= {"_come_and_go", "_visit", "_ask_privately", "_put", "_edit"}:
            return True
    return False


async def raise_everywhere(of: Attended, faults: Faults) -> dict[Await, bool]:
    """Raise at one await after the other, the victims fetching after each, until no new one is met. Whether there was
    an occasion; a task for which there was none has others, since a machine may be busy with something else."""
    done: dict[Await, bool] = {}
    for _ in range(MAX_TRIES):
        await of.uses.once()
        await raise_at_new(of, faults, done)
        missing = KEPT - {at.task for at, raised in done.items() if raised}
        if not missing:
            break
        done = {at: raised for at, raised in done.items() if at.task not in missing}
    return done


async def raise_at_new(of: Attended, faults: Faults, done: dict[Await, bool]) -> None:
    while rest := sorted(faults.met.keys() - done.keys()):
        for at in rest:
            faults.arm(at)
            with trio.move_on_after(LONGEST_SECONDS) as used:
                done[at] = await until_raised(of, faults.raised, partial(faults.provoke, at))
            if used.cancelled_caught:
                pytest.fail(f"after an error here somebody waits for ever: {at}")
            faults.disarm()
            try:
                await of.fetch()
            except (OSError, AssertionError, trio.TooSlowError) as error:
                pytest.fail(f"an error here was noticed by a victim: {at}\n{error!r}")


async def test_an_error_at_any_await_is_noticed_by_no_other_connection(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    faults = Faults()
    with met_by(faults):
        async with attended(tmp_path) as of:
            faults.spare_connections()
            done = await raise_everywhere(of, faults)
            assert await works_again(of)
    raised_at = [at for at, raised in done.items() if raised]
    assert len(raised_at) >= MIN_AWAITS
    assert {at.task for at in raised_at} >= KEPT
    assert [at for at in raised_at if at.lines[0].endswith("Poller.run")] != []


class Call(NamedTuple):
    """What a task calls without waiting."""

    owner: type
    name: str


CALLS = (
    Call(Poller, "_poll"),
    Call(Poller, "_serve_line"),
    Call(RoleThrottle, "apply"),
    Call(Reaper, "look_at_memory"),
    Call(LoopLag, "note"),
    Call(Journal, "_hand_on"),
    Call(QuotaWatch, "_tell"),
    Call(Exposition, "encode"),
    Call(StatusPage, "throttle"),
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.owner.__name__}.{call.name}")
async def test_an_error_in_what_a_task_calls_is_noticed_by_no_other_connection(
    call: Call, tmp_path: Path, clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised, original = trio.Event(), getattr(call.owner, call.name)

    def fails_once(*arguments: Any, **options: Any) -> Any:
        if raised.is_set():
            return original(*arguments, **options)
        raised.set()
        raise InjectedFaultError(call.name)

    async with attended(tmp_path) as of:
        monkeypatch.setattr(call.owner, call.name, fails_once)
        assert await until_raised(of, raised)
        await of.fetch()
        assert await works_again(of)
        await of.fetch()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it ends amid everything
async def test_without_a_supervisor_every_connection_would_notice(
    tmp_path: Path, clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests above would say of a task that nobody keeps."""

    async def keep(_: Supervisor, task: Task, run: Callable[[], Awaitable[object]]) -> None:
        await run()

    monkeypatch.setattr(Supervisor, "keep", keep)
    faults = Faults()

    async def fail() -> None:
        async with attended(tmp_path) as of:
            await of.uses.once()
            at = next(at for at in sorted(faults.met) if at.lines[-1].startswith("relay/reaper.py"))
            faults.arm(at)
            await until_raised(of, faults.raised)
            await of.fetch()

    with met_by(faults), pytest.raises(BaseExceptionGroup) as ended:
        await fail()
    gc.collect()  # what was cut off in the middle says so here, and not in another test
    assert ended.group_contains(InjectedFaultError)
