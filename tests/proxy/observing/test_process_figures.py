from __future__ import annotations

import resource
import threading
from typing import TYPE_CHECKING

import trio
from prometheus_client.core import GaugeMetricFamily

from proxy.observing import process_figures
from proxy.observing.process_figures import FRESH_SECONDS, ProcessFigures

if TYPE_CHECKING:
    import pytest
    from prometheus_client import Metric as Family
    from trio.testing import MockClock


async def test_what_the_kernel_says_of_this_process() -> None:
    families = {family.name: family for family in await ProcessFigures().read()}
    assert families.keys() == {
        "process_cpu_seconds",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
    }
    assert families["process_open_fds"].samples[0].value > 0


async def test_it_is_read_once_a_second_for_all() -> None:
    read = 0

    def collect() -> tuple[Family, ...]:
        nonlocal read
        read += 1
        return (GaugeMetricFamily("reads", "x", value=read),)

    figures = ProcessFigures(collect)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(figures.read)
    assert read == 1


async def test_what_hangs_is_not_waited_for(autojump_clock: MockClock) -> None:
    goes_on = threading.Event()

    def collect() -> tuple[Family, ...]:
        goes_on.wait()
        return ()

    figures = ProcessFigures(collect)
    began = trio.current_time()
    assert await figures.read() == ()
    assert trio.current_time() - began == FRESH_SECONDS
    goes_on.set()


async def test_without_a_descriptor_or_a_thread_the_figures_are_those_of_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scrape failed, and with it the only metrics that tell what is wanting."""
    figures = ProcessFigures()
    while not (before := await figures.read()):
        pass  # the first one loads prometheus_client, which takes a busy machine longer than it is waited for
    monkeypatch.setattr(process_figures, "FRESH_SECONDS", 0.2)
    await trio.sleep(0.3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        without_descriptor = await figures.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    await trio.sleep(0.3)
    monkeypatch.setattr(process_figures, "in_thread", no_thread)
    assert [list(without_descriptor), list(await figures.read())] == [list(before)] * 2
    assert before
