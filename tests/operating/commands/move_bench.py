"""A reassignment, a cluster in memory, and real overrides of three sidecars, for tests of ``move``."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from operating.commands import move as move_command
from operating.fleet import members as members_module
from operating.moves import inspection, moving
from operating.moves.cluster import Cluster
from tests.operating.fleet.sidecars import fleet_file, running
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest
    from click.testing import Result

    from tests.operating.fleet.sidecars import OneSidecar

    Sidecar = Callable[..., Result]

MIB = 1 << 20
BROKERS = (101, 102, 104)
LEADER_RATE = "leader.replication.throttled.rate"
ROW = '{{"topic":"orders","partition":{},"replicas":{}}}'
MOVE = f'{{"version":1,"partitions":[{ROW.format(0, [101, 104])},{ROW.format(1, [102, 104])}]}}'
LABEL = "move-b6b144"
"""As it is derived from MOVE."""
BEFORE = {("orders", 0): (101, [101, 102], [101, 102]), ("orders", 1): (102, [102, 101], [102, 101])}
SIZES = {(101, "orders", 0): 8 * MIB, (102, "orders", 1): 8 * MIB}


def all_at(label: str = LABEL) -> set[tuple[int, str | None]]:
    return {(broker, label) for broker in BROKERS}


class Killed(BaseException):
    """As by SIGKILL: nothing that is to be done at the end is done."""


class Bench:
    """A reassignment that replaces a replica by 104 in two partitions, a cluster, three sidecars."""

    def __init__(self, folder: Path, sidecar: Sidecar, sidecars: dict[int, OneSidecar]) -> None:
        self.client = FakeClient(BEFORE, sizes=SIZES)
        self.sidecars = sidecars
        self.fleet = fleet_file(folder, {broker: each.url for broker, each in sidecars.items()})
        self.file = folder / "move.json"
        self.file.write_text(MOVE)
        self.now, self.ends = 100.0, 100_000.0
        self.events: dict[float, Callable[[], None]] = {}
        self.interrupts_at: float | None = None
        self.calls_left: float = float("inf")
        """How many questions it asks until it is killed."""
        self.throttled: list[set[tuple[int, str | None]]] = []
        """The overrides there were whenever something was started, or ended."""
        self._sidecar, self._lock = sidecar, threading.Lock()

    def ask(self) -> None:
        with self._lock:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed

    def reassign(self, targets: dict[tuple[str, int], list[int] | None]) -> object:
        if any(targets.values()):
            self.throttled.append(self.labels)
        return FakeClient.alter_partition_reassignments(self.client, targets)

    def complete(self) -> None:
        if self.client.ongoing:
            self.throttled.append(self.labels)
        self.client.complete()

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        assert self.now < self.ends, "it does not end"
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()
        return self.interrupts_at is not None and self.now >= self.interrupts_at

    def move(self, *arguments: object) -> Result:
        """From a new process that knows nothing of those before."""
        where = ("--bootstrap", "a:9092", "--fleet", self.fleet, "--yes")
        return self._sidecar("move", *where, *arguments)

    def begin(self, *arguments: object) -> Result:
        return self.move(self.file, "--rate", "4MiB/s", *arguments)

    def begin_and_leave(self) -> None:
        self.interrupts_at = 102.0
        assert self.begin().exit_code == 1
        self.interrupts_at = None

    @property
    def labels(self) -> set[tuple[int, str | None]]:
        return {(broker, each.label) for broker, one in self.sidecars.items() for each in one.keeper.current}

    @property
    def replicas(self) -> list[list[int]]:
        return [replicas for _, replicas, _ in self.client.partitions.values()]


@contextmanager
def opened(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Yield a bench whose `move` finds its cluster and its time."""
    with running(tmp_path, BROKERS) as sidecars:
        made = Bench(tmp_path, sidecar, sidecars)

        @contextmanager
        def connected(**_: object) -> Iterator[Cluster]:
            yield Cluster(made.client)

        @contextmanager
        def held_interrupts() -> Iterator[Callable[[float], bool]]:
            yield made.pause

        def send(*args: Any, **named: Any) -> object:
            made.ask()
            return sent(*args, **named)

        sent, asked = members_module.send, made.client._ask
        monkeypatch.setattr(members_module, "send", send)
        monkeypatch.setattr(made.client, "_ask", lambda method: (made.ask(), asked(method)))
        monkeypatch.setattr(made.client, "alter_partition_reassignments", made.reassign)
        monkeypatch.setattr(move_command, "connected", connected)
        monkeypatch.setattr(move_command, "held_interrupts", held_interrupts)
        for module in (move_command, moving, inspection):
            passing = SimpleNamespace(sleep=made.pause, monotonic=lambda: made.now)
            monkeypatch.setattr(module, "time", passing)
        yield made
