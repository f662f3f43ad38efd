"""The demo's own ends, with the real sidecar between them."""

from __future__ import annotations

import io

import pytest
import trio
from rich.console import Console

from lab.demo import own
from lab.demo.own import own_stage
from lab.demo.story import MIB
from lab.errors import LabError


def silent() -> Console:
    return Console(file=io.StringIO())


async def test_any_rate_comes_into_force_as_it_is_written() -> None:
    """Not every rate is a whole number of bytes, or is itself when it is written with six digits."""
    with trio.fail_after(40):
        async with own_stage(6 * MIB, silent()) as stage:
            for mib in (0.3, 1.1, 10.7, 1.23456789, 1e6):
                written = await stage.set_quota(mib * MIB)
                assert f"leader.replication.throttled.rate = {int(mib * MIB)}" in written
                (throttle,) = await stage.throttles()
                assert throttle["roles"]["leader"]["quota_bytes_per_second"] == int(mib * MIB)


async def test_a_quota_that_does_not_come_into_force_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with own_stage(6 * MIB, silent()) as stage:
        monkeypatch.setattr(own, "START_SECONDS", 0.2)
        monkeypatch.setattr(stage, "_quota", lambda: 5.0)
        with pytest.raises(LabError, match=r"expected 1048576 bytes/s in force, found 5.0 after 0.2 s"):
            await stage.set_quota(MIB)


async def test_two_demos_run_side_by_side() -> None:
    """Both sidecars are of broker 101; each has private sockets of its own."""
    with trio.fail_after(40):
        async with own_stage(MIB, silent()) as one, own_stage(MIB, silent()) as other:
            for stage in (one, other):
                await stage.set_quota(MIB)
