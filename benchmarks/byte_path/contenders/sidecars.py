"""The sidecar itself, as the leader's ingress, in the states that cost differently.

It is met by command line and files, as a user meets it. Invariant: what is throttled is told by quotas.toml alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from lab.sidecars.sidecars import UNLIMITED, throttle_sidecar_script

from ..loads import BULK, LEADER_ID, REPLICA_ID, TOPIC
from .peer import Peer, Place

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER_REACHED = "1000GiB/s"
LOW = "4MiB/s"
HIGH = "64MiB/s"


def _sidecar(
    quotas: str, *, policy: str = "strict", egress: bool = False, journal: bool = False
) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        config = place.home / "proxy.toml"
        tables = [
            f"[broker]\nid = {REPLICA_ID if egress else LEADER_ID}",
            _egress(place) if egress else f"[ingress]\n{_listen(place.port, place.leader)}",
            f'[quotas]\nfile = "quotas.toml"\npolicy = "{policy}"',
            f'[http]\nlisten = "127.0.0.1:{place.http}"\n',
            '[journal]\ndirectory = "journal"\n' if journal else "",
        ]
        config.write_text("\n".join(tables))
        (place.home / "quotas.toml").write_text(quotas)
        # Several stand beside one broker here, and each has its own control socket.
        return ["env", f"RUNTIME_DIRECTORY={place.home}", throttle_sidecar_script(), "run", "--config", str(config)]

    return command


def _egress(place: Place) -> str:
    """Return a configuration with a peer per port. They all are the same leader, which the sidecar cannot know."""
    peers = (f"[[egress.peers]]\nbroker = {200 + n}\n{_listen(p, place.leader)}" for n, p in enumerate(place.ports))
    return "\n".join(['[egress]\nmode = "peers"', *peers])


def _listen(port: int, leader: int) -> str:
    return f'listen = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{leader}"'


def sidecar_version() -> str:
    command, here = ["git", "describe", "--always", "--dirty"], Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    return f"sidecar at {done.stdout.strip() or 'an unknown commit'}"


def _quotas(rate: str, *, role: str = "leader", enforce: bool = True) -> str:
    return (
        f'[brokers.default]\n{role}.replication.throttled.rate = "{rate}"\n'
        f'{role}.replication.throttled.replicas = "*"\n[mode]\nenforce = {str(enforce).lower()}\n'
    )


def _tenth() -> str:
    """Select a tenth of the partitions of each load; of ten at least one."""
    text = f'[brokers.{LEADER_ID}]\nleader.replication.throttled.rate = "{LOW}"\n'
    for load in BULK:
        listed = ",".join(f"{n}:{LEADER_ID}" for n in range(load.partitions // 10))
        text += f'[topics.{TOPIC}{load.record_bytes}]\nleader.replication.throttled.replicas = "{listed}"\n'
    return text


SIDECARS = (
    Peer("opaque", "nothing listed: frames pass unread", _sidecar(UNLIMITED), sidecar_version, quick=True),
    Peer(
        "decoded",
        f"every partition listed, {NEVER_REACHED}: every frame is walked, nothing is held back",
        _sidecar(_quotas(NEVER_REACHED)),
        sidecar_version,
        quick=True,
    ),
    Peer(
        "observe",
        f"every partition listed, {LOW}, enforce = false",
        _sidecar(_quotas(LOW, enforce=False)),
        sidecar_version,
    ),
    Peer("journal", "nothing listed, a journal is kept", _sidecar(UNLIMITED, journal=True), sidecar_version),
    Peer(
        "decoded-journal",
        f"every partition listed, {NEVER_REACHED}, a journal is kept",
        _sidecar(_quotas(NEVER_REACHED), journal=True),
        sidecar_version,
    ),
    Peer("throttled-10", f"a tenth of the partitions listed, {LOW}", _sidecar(_tenth()), sidecar_version),
    Peer("throttled-100", f"every partition listed, {HIGH}", _sidecar(_quotas(HIGH)), sidecar_version),
    Peer(
        "kip73-10",
        f"a tenth of the partitions listed, {LOW}, policy kip73: records over quota are discarded on the way",
        _sidecar(_tenth(), policy="kip73"),
        sidecar_version,
    ),
)

MANY = 50
EGRESS = Peer(
    f"egress-{MANY}",
    f"egress with {MANY} peers, every partition listed, {NEVER_REACHED}",
    _sidecar(_quotas(NEVER_REACHED, role="follower"), egress=True),
    sidecar_version,
    listeners=MANY,
)
STOPPED = Peer("stopped", "every partition listed, quota 0", _sidecar(_quotas("0")), sidecar_version)
