"""A scripted incident: a quota that producers outrun, a bad file on top of it, and a throttle that nobody removes.

What it happens to is a scene, embedded or of real brokers; who watches is a real Prometheus with the real rules,
hurried.
Every step waits until exactly the alerts that belong to it fire, so one that fires too much fails it as well. Only that
the loop lags may be told at any time: on a machine that has more to do than this it is true, and no part of the
incident.
"""

from __future__ import annotations

import re
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import trio

from deploy.grafana.panels import ROWS
from lab.host.processes import kill_all
from lab.measuring.alert_rules import hurried
from lab.measuring.prometheus import Prometheus
from lab.sidecars.sidecars import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from lab.measuring.prometheus import Alert, Target

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = ("recording.rules.yaml", "alerts.rules.yaml")
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.1
PINNED = "ReplicationThrottlePinned"
RELOAD_FAILED = "ReplicationThrottleReloadFailed"
LEFT_BEHIND = "ReplicationThrottleLeftBehind"
LOOP_LAGGING = "ReplicationThrottleLoopLagging"
BAD = '[brokers.default]\nleeder.replication.throttled.rate = "1MiB/s"\n'
_VARIABLES = {"$__rate_interval": "4s", "$cluster": ".*", "$instance": ".+", "$role": ".+"}
EXPRESSIONS = [query.expression for row in ROWS for panel in row.panels for query in panel.queries]


class Scene(Protocol):
    """A sidecar with a follower that is behind, and producers."""

    @property
    def too_little(self) -> float:
        """Bytes per second that producers outrun."""

    @property
    def plenty(self) -> float:
        """Bytes per second with which catch-up ends soon."""

    def quotas(self, bytes_per_second: float) -> str:
        """A quotas.toml for the leader role."""

    def write_quotas(self, text: str) -> None:
        """Replace the file."""

    async def produce(self) -> None:
        """Write more than `too_little`, until cancelled."""


@dataclass
class Watch:
    """What Prometheus saw: when each alert began and ceased to fire, and which expressions had an answer."""

    prometheus: Prometheus
    fired: dict[str, Alert] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    _started: float = field(default_factory=time.monotonic)

    async def until_firing(self, *names: str) -> None:
        """Wait until these alerts fire and no other but that of the loop. Raises AssertionError if they do not in
        time."""
        deadline = trio.current_time() + PATIENCE_SECONDS
        while (firing := await self._firing() - {LOOP_LAGGING}) != set(names):
            assert trio.current_time() < deadline, f"expected {sorted(names)} to fire, found {sorted(firing)}"
            await self._ask_what_is_unanswered()
            await trio.sleep(POLL_SECONDS)
        self.history.append(f"{time.monotonic() - self._started:.1f} s: {sorted(firing)}")

    async def until_fired(self, name: str) -> None:
        """Wait until this alert has fired, whatever others do. Raises AssertionError if it does not in time."""
        deadline = trio.current_time() + PATIENCE_SECONDS
        while name not in self.fired:
            assert trio.current_time() < deadline, f"expected {name} to fire, found {sorted(self.fired)}"
            await self._firing()
            await trio.sleep(POLL_SECONDS)
        self.history.append(f"{time.monotonic() - self._started:.1f} s: {name}")

    @property
    def unanswered(self) -> set[str]:
        """The dashboard's expressions that have never had a result."""
        return set(EXPRESSIONS) - self.answered

    async def _ask_what_is_unanswered(self) -> None:
        for expression in self.unanswered:
            if await trio.to_thread.run_sync(self.prometheus.query, for_all(expression)):
                self.answered.add(expression)

    async def _firing(self) -> set[str]:
        alerts = await trio.to_thread.run_sync(self.prometheus.firing)
        self.fired |= {alert.name: alert for alert in alerts}
        return {alert.name for alert in alerts}


def for_all(expression: str) -> str:
    """A dashboard's expression as Grafana sends it, for all sidecars and both roles; ranges of minutes hurried."""
    for variable, value in _VARIABLES.items():
        expression = expression.replace(variable, value)
    return re.sub(r"\[\d+[mh]\]", "[4s]", expression)


@asynccontextmanager
async def watched(targets: Sequence[Target], home: Path) -> AsyncIterator[Watch]:
    """A Prometheus with hurried copies of our rules."""
    rules = []
    for name in RULES:
        copy = home / name
        copy.write_text(hurried((PROMETHEUS / name).read_text("utf-8")), "utf-8")
        rules.append(copy)
    prometheus = Prometheus(targets, rules, home=home / "prometheus")
    try:
        await prometheus.start()
        yield Watch(prometheus)
        assert await trio.to_thread.run_sync(prometheus.unhealthy_rules) == []
    finally:
        kill_all([prometheus.process])


async def play(scene: Scene, watch: Watch) -> None:
    """The incident from its first quota to its last alert's end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.produce)
        scene.write_quotas(scene.quotas(scene.too_little))
        await watch.until_firing(PINNED)
        scene.write_quotas(BAD)
        await watch.until_firing(PINNED, RELOAD_FAILED)
        scene.write_quotas(scene.quotas(scene.plenty))
        await watch.until_firing()
        nursery.cancel_scope.cancel()
    await watch.until_firing(LEFT_BEHIND)
    scene.write_quotas(UNLIMITED)
    await watch.until_firing()
