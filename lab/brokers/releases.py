"""Releases and protocols of a cluster: one row per version of Fetch that real followers send.

A follower never negotiates its Fetch version: that follows from the inter-broker protocol (ZooKeeper mode) or from the
metadata version (KRaft). Knows no process. Invariant: every row's Fetch version was seen on the wire of a cluster with
these binaries, and tests/system/test_versions.py checks it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..errors import LabError
from .jars import version_numbers
from .log_lines import CREATED_BEFORE_THE_LOG, FENCED_BY_NEW_EPOCH, NOT_YET_KNOWN, Noise

if TYPE_CHECKING:
    from ..wire.records import MessageFormat

Mode = Literal["zookeeper", "kraft"]
_KRAFT_NOISE = (FENCED_BY_NEW_EPOCH, CREATED_BEFORE_THE_LOG, NOT_YET_KNOWN)


@dataclass(frozen=True, slots=True)
class Release:
    """Binaries, and what they are told to speak.

    Args:
        kafka: version of the binaries.
        protocol: `inter.broker.protocol.version` in ZooKeeper mode, the release whose `metadata.version` the storage
            is formatted with in KRaft.
        fetch_version: what its followers send.
        mode: who keeps the cluster's metadata.
        records: format of its logs.
        metadata_level: feature level of its `metadata.version`; 0 in ZooKeeper mode.
        noise: what its brokers log without anybody's interference.
    """

    kafka: str
    protocol: str
    fetch_version: int
    mode: Mode = "zookeeper"
    records: MessageFormat = "v2"
    metadata_level: int = 0
    noise: tuple[Noise, ...] = ()

    @property
    def name(self) -> str:
        """The protocol's common name: 0.10.1 for 0.10.1-IV2."""
        return self.protocol.partition("-")[0]

    @property
    def id(self) -> str:
        """Tells rows apart: v12-2.8-on-3.9.1."""
        return f"v{self.fetch_version}-{self.name}-on-{self.kafka}"

    @property
    def through_zookeeper(self) -> bool:
        """True if only ZooKeeper can be told to move partitions: brokers take no such requests before 2.4 (KIP-455)."""
        return version_numbers(self.kafka) < (2, 4)

    @property
    def message_format(self) -> str:
        """`log.message.format.version`: the newest one the protocol allows."""
        return self.name


RELEASES: tuple[Release, ...] = (
    Release("3.9.1", "0.10.1-IV2", 3, records="v1"),
    Release("3.9.1", "0.11.0", 5),
    Release("3.9.1", "1.1", 7),
    Release("3.9.1", "2.0", 8),
    Release("3.9.1", "2.2", 10, noise=(FENCED_BY_NEW_EPOCH,)),
    Release("3.9.1", "2.4", 11, noise=(FENCED_BY_NEW_EPOCH,)),
    Release("3.9.1", "2.8", 12, noise=(FENCED_BY_NEW_EPOCH,)),
    Release("3.9.1", "3.3", 13, "kraft", metadata_level=7, noise=_KRAFT_NOISE),
    Release("3.9.1", "3.5", 15, "kraft", metadata_level=11, noise=_KRAFT_NOISE),
    Release("3.9.1", "3.7", 16, "kraft", metadata_level=19, noise=_KRAFT_NOISE),
    Release("3.9.1", "3.9", 17, "kraft", metadata_level=21, noise=_KRAFT_NOISE),
    Release("4.1.0", "4.1", 18, "kraft", metadata_level=27, noise=_KRAFT_NOISE),
    Release("4.2.0", "4.2", 18, "kraft", metadata_level=29, noise=_KRAFT_NOISE),
    Release("4.3.0", "4.3", 18, "kraft", metadata_level=30, noise=_KRAFT_NOISE),
    Release("4.4.0", "4.4", 18, "kraft", metadata_level=33, noise=_KRAFT_NOISE),
)
"""The releases, oldest first; the first is the reference: Fetch v3, as KIP-73 met it."""
OWN_BINARIES: tuple[Release, ...] = (
    Release("0.10.1.1", "0.10.1-IV2", 3, records="v1"),
    Release("1.0.2", "1.0", 5),
    Release("1.1.1", "1.1", 7),
    Release("2.4.1", "2.4", 11, noise=(FENCED_BY_NEW_EPOCH,)),
    Release("2.8.2", "2.8", 12, noise=(FENCED_BY_NEW_EPOCH,)),
    Release("3.3.2", "3.3", 13, "kraft", metadata_level=7, noise=_KRAFT_NOISE),
    Release("3.5.2", "3.5", 15, "kraft", metadata_level=11, noise=_KRAFT_NOISE),
    Release("3.7.2", "3.7", 16, "kraft", metadata_level=19, noise=_KRAFT_NOISE),
)
"""The releases that run as their own old binaries. Those before 1.1 have no fetch sessions (KIP-227) in their code, so
they accept answers that a newer follower refuses, and refuse others that it accepts. Those before 3.0 know fewer
versions of what a sidecar asks. They run on Java 17, although some were made for Java 8; 2.0 to 2.3 do not, because of
their ZooKeeper client (ZOOKEEPER-3779)."""
EVERY_RELEASE = RELEASES + OWN_BINARIES


def release(*, kafka: str | None = None, protocol: str | None = None) -> Release:
    """Return the first row of `EVERY_RELEASE` with these binaries and this protocol; None matches any.

    Args:
        kafka: such as 4.1.0.
        protocol: such as 2.4, or in full, such as 0.10.1-IV2.

    Raises:
        LabError: there is none; the message lists what there is.
    """
    for row in EVERY_RELEASE:
        if kafka in (None, row.kafka) and protocol in (None, row.name, row.protocol):
            return row
    wanted = " with ".join(filter(None, [kafka and f"Kafka {kafka}", protocol and f"protocol {protocol}"]))
    known = ", ".join(f"{row.protocol} ({row.kafka})" for row in EVERY_RELEASE)
    raise LabError(f"the lab has no {wanted}; it has the protocols {known}")
