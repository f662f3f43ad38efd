"""A sidecar without sockets, files and threads: the product's parts, wired as `proxy.serving` does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from protocol.work_in_steps import run_through
from proxy.changes import Changes
from proxy.clients.frames import attach_clients
from proxy.clients.throttle import ClientThrottle
from proxy.config.settings import LimitSettings, Policy, QuotaSettings
from proxy.diagnostics.replica_stats import ReplicaStats, replica_stats
from proxy.ledger.ledger import Ledger as Journal
from proxy.quota_files.effective_quotas import work_out
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import Quotas
from proxy.relay.connection import Draining, relay
from proxy.relay.in_flight import Buffers
from proxy.relay.reaper import Reaper
from proxy.roles import Role
from proxy.statistics.counters import Statistics
from proxy.throttle.replicas import ReplicaCountLimit
from proxy.throttle.role_throttle import RoleThrottle
from proxy.topology.partition_urgency import PartitionUrgency
from proxy.topology.racks import Racks
from proxy.topology.topic_names import TopicNames

from .pipes import WorldPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from proxy.config.settings import Address
    from proxy.ledger.blocks import Traffic
    from proxy.quotas.sections import QuotaFile
    from proxy.relay.connection import Connection, Dial

    from .clock import Network
    from .ledger import Ledger
    from .pipes import End

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


class SidecarSpec(NamedTuple):
    """`quotas`: the text of quotas.toml. Without `ingress` or `egress` connections of that role pass by the sidecar."""

    quotas: str
    ingress: bool = True
    egress: bool = True
    policy: str = "strict"
    journal: bool = True


class WorldSidecar:
    """`at_turn` is the relay's clock of turns."""

    def __init__(
        self,
        network: Network,
        broker_id: int,
        spec: SidecarSpec,
        *,
        ledger: Ledger,
        racks: Mapping[int, str],
        topics: Iterable[str],
        turn_clock: Callable[[], float],
    ) -> None:
        self.network, self.broker_id, self.spec, self.ledger = network, broker_id, spec, ledger
        settings = QuotaSettings(file=Path("quotas.toml"), policy=Policy(spec.policy))
        self._date_offset = 0.0
        self.file: QuotaFile = parse_quotas(spec.quotas.encode())
        self.quotas: Quotas = work_out(self.file, broker_id, Quotas(), self._date()).quotas
        self.statistics, self.changes, self.draining = Statistics(), Changes(), Draining()
        self._names = TopicNames()
        self._names.learn({name.encode().ljust(16, b"-"): name for name in topics})
        self.urgency, self.racks = PartitionUrgency(self._names), Racks(broker_id)
        self.racks.learn(dict(racks))
        now = network.now
        self.journal = Journal(now)
        self._lines: list[Traffic] | None = None
        self.replica_stats: dict[Role, ReplicaStats] = {}
        """What `/throttle` said of replicas while everybody was there."""
        self.clients = ClientThrottle(settings, self.quotas, now, self.statistics.leader)
        self.throttles = {role: self._throttle(role, settings, now) for role in Role}
        for throttle in self.throttles.values():
            throttle.racks_changed()
        limits = LimitSettings()
        self.buffers = Buffers(limits.max_held_bytes)
        self.reaper = Reaper(
            limits,
            self.buffers,
            (*self.throttles.values(), self.clients),
            _Log(self),
            resident=lambda: 0,
            container=lambda: 0,
        )
        self.relayed = partial(
            relay,
            limits=limits,
            changes=self.changes,
            draining=self.draining,
            poller=WorldPoller(network),
            log=_Log(self),
            reaper=self.reaper,
            turn_clock=turn_clock,
        )
        self.history: list[tuple[float, Quotas]] = [(now, self.quotas)]
        """The quotas in force, each since when."""
        self.before: list[WorldSidecar] = []
        """The sidecars that it took over from, the first one first."""

    def _throttle(self, role: Role, settings: QuotaSettings, now: float) -> RoleThrottle:
        return RoleThrottle(
            role,
            settings,
            quotas=self.quotas,
            statistics=self.statistics.of(role),
            now=now,
            ledger=self.journal if self.spec.journal else None,
            names=self._names,
            remembered=ReplicaCountLimit(),
            urgency=self.urgency,
            racks=self.racks,
            above=self.clients.uplink if role is Role.LEADER else None,
        )

    def _date(self) -> datetime:
        return BEGAN + timedelta(seconds=self.network.now + self._date_offset)

    @property
    def journal_lines(self) -> list[Traffic]:
        """Everything that its journal has, once."""
        if self._lines is None:
            blocks = self.journal.cut(self.network.now)
            self._lines = [line for block in blocks for line in block.traffic_lines()]
        return self._lines

    def look_at_replicas(self) -> None:
        self.replica_stats = {
            role: run_through(replica_stats(throttle, self.network.now)) for role, throttle in self.throttles.items()
        }

    def step_clock(self, seconds: float) -> None:
        """Have the wall clock jump, which decides what sections with `until` still count."""
        self._date_offset += seconds
        self._work_out()

    def change(self, quotas: str) -> None:
        """Put another quotas.toml in force, in the order in which `serving` does it."""
        self.file = parse_quotas(quotas.encode())
        self._work_out()

    def _work_out(self) -> None:
        now = self.network.now
        self.quotas = work_out(self.file, self.broker_id, self.quotas, self._date()).quotas
        self.history.append((now, self.quotas))
        for throttle in self.throttles.values():
            throttle.apply(self.quotas, now)
            self.clients.apply(self.quotas, now)
            self.changes.notify()
            self.network.owes_trio = True

    async def serve(
        self,
        end: End,
        role: Role,
        *,
        peer: str,
        upstream: Address,
        dial: Dial,
        restored: Callable[[Connection], object] | None = None,
    ) -> None:
        """Relay one accepted connection, or one of another sidecar, whose state it is given."""
        clients = partial(attach_clients, self.clients) if role is Role.LEADER else None
        await self.relayed(
            end, upstream, peer=peer, throttle=self.throttles[role], dial=dial, clients=clients, restore=restored
        )


class _Log:
    """Complains of what no sidecar may log, whatever its peers do."""

    def __init__(self, sidecar: WorldSidecar) -> None:
        self._sidecar = sidecar

    def debug(self, event: str, **keys: object) -> None:
        pass

    info = warning = debug

    def error(self, event: str, **keys: object) -> None:
        of = self._sidecar
        of.ledger.complain(of.network.now, f"the sidecar of {of.broker_id} logged {event}: {keys}")
