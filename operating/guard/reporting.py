"""Reports a guard's state: a JSON line for each change, and a file for node_exporter's textfile collector.

Blocking. Invariant: a reader of the file sees the whole new or the whole old content.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .probing import Proof

_METRICS = """\
# HELP replication_throttle_guard_around 1 while iptables leads this broker's traffic around its sidecar, unthrottled.
# TYPE replication_throttle_guard_around gauge
replication_throttle_guard_around{{broker="{broker}"}} {around}
# HELP replication_throttle_guard_refused 1 while iptables refuses the guard's last change.
# TYPE replication_throttle_guard_refused gauge
replication_throttle_guard_refused{{broker="{broker}"}} {refused}
{ways}# HELP replication_throttle_guard_changes_total Times the guard led traffic around the sidecar or back.
# TYPE replication_throttle_guard_changes_total counter
replication_throttle_guard_changes_total{{broker="{broker}"}} {changes}
# HELP replication_throttle_guard_last_look_timestamp_seconds When the guard last asked the sidecar, Unix seconds.
# TYPE replication_throttle_guard_last_look_timestamp_seconds gauge
replication_throttle_guard_last_look_timestamp_seconds{{broker="{broker}"}} {now:.0f}
"""
_WAYS = """\
# HELP replication_throttle_guard_ways Ways around the sidecar at the last try, by result.
# TYPE replication_throttle_guard_ways gauge
replication_throttle_guard_ways{{broker="{broker}",state="verified"}} {verified}
replication_throttle_guard_ways{{broker="{broker}",state="unreachable"}} {unreachable}
replication_throttle_guard_ways{{broker="{broker}",state="blocked"}} {blocked}
"""
"""The metrics that are left out until the ways in force have been tried."""


def say(event: str, **facts: object) -> None:
    """Write a line to standard output; if its reader is gone, the line is lost."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"timestamp": stamp, "event": event, **facts})
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        return


def write_metrics(path: Path, changes: int, broker: int, *, around: bool, refused: bool, proof: Proof | None) -> None:
    """Write the metrics. `changes`: how often `around` has changed; `around` and `refused`: the state of iptables;
    `proof`: the last probe, if any.

    Raises OSError.
    """
    ways = (
        ""
        if proof is None
        else _WAYS.format(
            broker=broker, verified=proof.verified, unreachable=len(proof.unreachable), blocked=len(proof.blocked)
        )
    )
    text = _METRICS.format(
        broker=broker, around=int(around), refused=int(refused), ways=ways, changes=changes, now=time.time()
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, "utf-8")
    beside.chmod(0o644)
    beside.replace(path)
