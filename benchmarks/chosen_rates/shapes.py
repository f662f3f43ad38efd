"""Shapes of producers' load, by the seconds since the beginning: `auto` has to follow them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

FLAT = 0.3
"""The usual load, of the link."""
PERIOD_SECONDS = 10.0
BURST_SECONDS = 3.0
STEP_AT_SECONDS, LATER_SECONDS = 3.0, 4.0
IDLE = 0.01


class Part(NamedTuple):
    """The load of one topic."""

    load: Callable[[float], float]
    """The load of the link."""
    batch_bytes: int = 40_000
    connection: int = 0
    """The fetcher's connection that brings it. Only the simulation has more than one."""


class Load(NamedTuple):
    parts: tuple[Part, ...]
    moves_on: int = 0
    """The connection that brings what catches up."""


def _flat(_: float) -> float:
    return FLAT


def _step(at: float) -> float:
    return FLAT if at < STEP_AT_SECONDS else 2 * FLAT


def _sawtooth(at: float) -> float:
    return FLAT * (1 + at % PERIOD_SECONDS / PERIOD_SECONDS)


def _burst(at: float) -> float:
    return 2 * FLAT if at % PERIOD_SECONDS >= PERIOD_SECONDS - BURST_SECONDS else FLAT


def _later(at: float) -> float:
    return FLAT if at >= LATER_SECONDS else IDLE


def _doubles(at: float) -> float:
    return 0.2 * (1.0, 2.0, 1.0, 0.5)[int(at / PERIOD_SECONDS) % 4]


LOADS = {
    "doubles and halves": Load((Part(_doubles),)),
    "flat": Load((Part(_flat),)),
    "step": Load((Part(_step),)),
    "sawtooth": Load((Part(_sawtooth),)),
    "burst": Load((Part(_burst),)),
    "second topic": Load((Part(_flat), Part(_later, 12_000))),
    "two connections": Load((Part(_flat),), moves_on=1),
    "two connections, burst": Load((Part(_burst),), moves_on=1),
}


def free_share(load: Load, seconds: float) -> float:
    """Return what a load leaves of the link until then, in seconds of the whole link."""
    step = 0.01
    times = (step * number for number in range(int(seconds / step)))
    return sum(max(1 - sum(part.load(at) for part in load.parts), 0.0) * step for at in times)
