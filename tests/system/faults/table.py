"""Every fault by its name."""

from __future__ import annotations

import re

from lab.moves.move import MIB

from .clock import clock_stepped
from .files import journals_disk_full, quota_flipped, quota_zero, quotas_file_spoilt
from .network import network_cut, peer_half_open, receives_at_most
from .processes import (
    both_sidecars_handed_over,
    broker_restarted,
    descriptors_used_up,
    followers_sidecar_killed,
    leaders_sidecar_killed,
    nobody_reads_the_log,
    stopped_for,
)
from .scene import FOLLOWER, LEADER, QUOTA, Fault
from .topics import deleted_and_created, leader_moved, records_deleted, segments_rolled, unclean_election

SLOW = 1024
"""Bytes per second that a follower at the end of its strength receives."""
KEEPALIVE_SECONDS = 150.0
"""TCP's keepalive finds out after two minutes that a peer has gone without a word."""

_EMPTY_LOG = r"\(offset=(\d+), segment=\[\{}:0\]\)"
_BEGINS_A_LITTLE_BEFORE = re.compile(
    f"Non-monotonic update of high watermark from {_EMPTY_LOG.format(1)} to {_EMPTY_LOG.format(2)}"
)
"""DeleteRecords lets a leader's log begin in the middle of a batch, and a follower begins anew there. The first batch
that it is sent begins before that, and Kafka's Partition empties the follower's log once more, to begin where the batch
does. Both high watermarks are ends of an empty log; one that is anything else is not excused."""


FAULTS: dict[str, Fault] = {
    "leader's sidecar killed": Fault(leaders_sidecar_killed),
    "follower's sidecar killed": Fault(followers_sidecar_killed),
    "both sidecars handed over": Fault(both_sidecars_handed_over),
    "leader's sidecar stopped for 10 s": Fault(stopped_for(LEADER, 10)),
    "follower's sidecar stopped for 10 s": Fault(stopped_for(FOLLOWER, 10)),
    "follower killed": Fault(broker_restarted(FOLLOWER, kill=True), shrinks=True),
    "leader killed": Fault(broker_restarted(LEADER, kill=True), shrinks=True, produces=False),
    "leader restarted": Fault(broker_restarted(LEADER, kill=False), shrinks=True, produces=False),
    "network cut for 5 s": Fault(network_cut(5)),
    "network cut for 35 s": Fault(network_cut(35), shrinks=True, settles_seconds=KEEPALIVE_SECONDS),
    "network cut for 120 s": Fault(network_cut(120), shrinks=True, settles_seconds=KEEPALIVE_SECONDS),
    "follower's sidecar killed behind a cut": Fault(peer_half_open, settles_seconds=KEEPALIVE_SECONDS),
    "follower receives 1 KB/s for 10 s": Fault(receives_at_most(SLOW, 10)),
    "link of half the quota for 10 s": Fault(receives_at_most(QUOTA // 2, 10)),
    "quota flipped at 20 Hz": Fault(quota_flipped),
    "quota 0 for 12 s": Fault(quota_zero),
    "quotas file spoilt in five ways": Fault(quotas_file_spoilt),
    "journals' disk full": Fault(journals_disk_full, mebibytes=160),
    "descriptors used up": Fault(descriptors_used_up),
    "wall clock stepped": Fault(clock_stepped),
    "nobody reads the log": Fault(nobody_reads_the_log),
    "records deleted": Fault(records_deleted, excused=_BEGINS_A_LITTLE_BEFORE),
    "segments rolled": Fault(segments_rolled, topic_configs={"segment.bytes": str(MIB)}),
    "leader moved beside": Fault(leader_moved, mebibytes=64),
    # A replica whose offset goes back may be in the ISR, so it is sent once what it asks for: 1 MiB each.
    "topic deleted and created": Fault(deleted_and_created, beyond_bytes=8 * MIB),
    # The old leader truncates its log to what the new one has, and its high watermark goes back with it.
    "unclean election": Fault(
        unclean_election, shrinks=True, produces=False, leader=FOLLOWER,
        excused=re.compile(f"OffsetOutOfRange|Error due to|broker-{FOLLOWER}/data\\] Non-monotonic update"),
    ),
}  # fmt: skip
