"""A plan of a cluster of the lab, made before anything of it runs. Invariant: a plan that cannot be is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..brokers.jars import version_numbers
from ..brokers.releases import RELEASES, Release
from ..brokers.security import FIRST_PEM_FILES, Security
from ..errors import LabError
from ..host.addresses import Addresses, Route

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..host.namespaces import Rooms
    from ..sidecars.sidecars import SidecarPlan


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Everything that is chosen about a cluster.

    Args:
        brokers: ids.
        release: binaries and what they speak, see `python -m lab versions`.
        num_replica_fetchers: fetcher threads per (follower, leader).
        broker_overrides: server.properties of every broker, last word, such as
            `{"max.incremental.fetch.session.cache.slots": "1"}`.
        racks: broker.rack by broker id; of others none is said.
        sidecars: None for brokers that speak to each other directly.
        around: followers that reach every leader directly, past taps and sidecars, for comparison.
        taps: whether Fetch traffic is measured, between the two sidecars of a link.
        taps_at_brokers: whether traffic is also measured between each broker and its own sidecar; for two brokers only.
            These taps can garble a request, when the file `garble-follower` or `garble-leader` is made in the cluster's
            `home`.
        rooms: a network namespace for each broker and its sidecar; None: all on one loopback network.
        jmx: whether `lab.brokers.jmx` can ask the brokers for their own metrics.
        exporter: a configuration of Prometheus' JMX exporter, which then serves them (`lab.brokers.jmx_exporter`).
        security: of the replication between brokers; the lab's clients have a plaintext listener.
        keep: leave the files when done.
    """

    brokers: tuple[int, ...] = (101, 102, 103)
    release: Release = RELEASES[0]
    num_replica_fetchers: int = 1
    broker_overrides: Mapping[str, str] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)
    sidecars: SidecarPlan | None = None
    around: frozenset[int] = frozenset()
    taps: bool = True
    taps_at_brokers: bool = False
    rooms: Rooms | None = None
    jmx: bool = False
    exporter: Path | None = None
    security: Security = Security.PLAINTEXT
    keep: bool = False

    def __post_init__(self) -> None:
        try:
            Addresses("127.0.0", self.brokers)  # in which subnet does not matter here
        except ValueError as error:
            raise LabError(str(error)) from error
        # A broker's tap stands before the one egress that its only follower has.
        if self.taps_at_brokers and (len(self.brokers) != 2 or self.sidecars is None or self.sidecars.transparent):
            raise LabError("taps at brokers are for two brokers with sidecars that are dialled")
        if self.security.protocol != "PLAINTEXT" and version_numbers(self.release.kafka) < FIRST_PEM_FILES:
            raise LabError(f"Kafka {self.release.kafka} reads no keys of PEM files (KIP-651): it speaks plaintext here")
        if self.security is Security.TLS_BETWEEN and self.sidecars is None:
            raise LabError("TLS between sidecars takes sidecars")

    def route(self, *, follower: int, leader: int) -> Route:
        """Return the processes that the bytes of this pair pass."""
        if follower in self.around:
            return Route(egress=False, tap=False, ingress=False)
        plan = self.sidecars
        return Route(
            egress=plan is not None and plan.has_egress(follower) and not plan.transparent,
            tap=self.taps,
            ingress=plan is not None and plan.has_ingress(leader),
        )
