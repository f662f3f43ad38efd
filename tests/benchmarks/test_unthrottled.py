"""A move beside a throttled one was beside it to its end."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from benchmarks import unthrottled
from benchmarks.unthrottled import QUOTA, Stage, beside_a_throttled_one
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Stage, SimpleNamespace]:
    """Topics that nobody made, of which everything has arrived at once; and what happened."""
    happened = SimpleNamespace(moving=True, quotas_over=False)

    @asynccontextmanager
    async def topic(*_: object, prefix: str) -> AsyncGenerator[str]:
        yield prefix

    @asynccontextmanager
    async def quotas(*_: object, **__: object) -> AsyncGenerator[None]:
        yield
        happened.quotas_over = True

    async def nothing(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()

    async def moved(_: object, name: str, *__: object, **___: object) -> None:
        await trio.lowlevel.checkpoint()
        assert name != "slow" or happened.quotas_over, "the rest of it is waited for at the quota's pace"

    for name, fake in {
        "topic": topic, "sidecar_quotas": quotas, "fill_topic": nothing, "until_equal": nothing, "until_moved": moved,
        "bytes_on_disk": lambda *_: 1 << 20,
    }.items():  # fmt: skip
        monkeypatch.setattr(unthrottled, name, fake)
    admin = SimpleNamespace(reassign=lambda *_: None, moving=lambda *_: [0] if happened.moving else [])
    broker = SimpleNamespace(log_dir=tmp_path)
    kafka: Any = SimpleNamespace(admin=admin, brokers={101: broker, 102: broker})
    return Stage(kafka, [], by_sidecars=True), happened


async def test_what_is_left_of_the_throttled_topic_is_not_waited_for(stage: tuple[Stage, Any]) -> None:
    run = await beside_a_throttled_one(stage[0], 1)
    assert run.bytes_per_second > 0
    assert cast("SimpleNamespace", stage[1]).quotas_over


async def test_a_move_that_was_beside_nothing_at_its_end_is_no_figure(stage: tuple[Stage, Any]) -> None:
    stage[1].moving = False
    with pytest.raises(LabError, match=f"expected 64 MiB at {QUOTA / (1 << 20):g} MiB/s to be moving still"):
        await beside_a_throttled_one(stage[0], 1)
