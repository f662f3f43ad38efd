"""States in which a sidecar is attacked, as quotas.toml and proxy.toml.

Pure. Invariant: in every mode the victim is in sync, so in none may it be held back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BROKER, VICTIMS_LEADER, STRANGE_LEADER = 101, 102, 103
LOW = "1MiB/s"
_EVERYTHING = "".join(
    f'{role}.replication.throttled.rate = "{LOW}"\n{role}.replication.throttled.replicas = "*"\n'
    for role in ("leader", "follower")
)
_LISTED = (
    "[brokers.default]\n"
    + "".join(f'{role}.replication.throttled.rate = "{LOW}"\n' for role in ("leader", "follower"))
    + "".join(
        f'[topics."{topic}"]\nleader.replication.throttled.replicas = "*"\n'
        f'follower.replication.throttled.replicas = "0:101,1:101,2:101"\n'
        for topic in ("victim", "orders", "t*")
    )
)


@dataclass(frozen=True, slots=True)
class Mode:
    """One state of a sidecar. `versions` are the Fetch versions of the victim, by the role that relays it."""

    name: str
    about: str
    quotas: str
    policy: str = "strict"
    journal: bool = False
    versions: tuple[int, int] = (3, 12)
    """The versions of the victim behind the ingress, and of the one behind the egress."""

    def proxy_toml(self, ports: Mapping[str, int], leaders: Mapping[str, int], *, http: str = "") -> str:
        """Return the sidecar's settings.

        Args:
            ports: `ingress`, `egress`, `strange` (the egress of the attackers) and `http`: where it listens.
            leaders: of the first three, where they lead.
            http: further lines of that table.
        """
        peers = "".join(
            f'[[egress.peers]]\nbroker = {broker}\nlisten = "127.0.0.1:{ports[door]}"\n'
            f'upstream = "127.0.0.1:{leaders[door]}"\n'
            for broker, door in ((VICTIMS_LEADER, "egress"), (STRANGE_LEADER, "strange"))
        )
        return (
            f"[broker]\nid = {BROKER}\n"
            f'[ingress]\nlisten = "127.0.0.1:{ports["ingress"]}"\nupstream = "127.0.0.1:{leaders["ingress"]}"\n'
            f'[egress]\nmode = "peers"\n{peers}'
            f'[quotas]\nfile = "quotas/quotas.toml"\npolicy = "{self.policy}"\n'
            f'[http]\nlisten = "127.0.0.1:{ports["http"]}"\n{http}'
            + ('[journal]\ndirectory = "journal"\nrotate_every = "2s"\n' if self.journal else "")
        )


MODES = {
    mode.name: mode
    for mode in (
        Mode("none", "no quotas: frames pass unread", "# no quotas\n"),
        Mode(
            "quotas",
            f"everything throttled to {LOW}, consumers and followers together too",
            f'[brokers.default]\n{_EVERYTHING}[listener]\nrate = "{LOW}"\n',
            versions=(6, 12),
        ),
        Mode("observe", f"{LOW}, enforce = false", f"[brokers.default]\n{_EVERYTHING}[mode]\nenforce = false\n"),
        Mode("kip73", f"{LOW}, policy kip73: answers are gathered", f"[brokers.default]\n{_EVERYTHING}", "kip73"),
        Mode("journal", "no quotas, a journal is kept", "# no quotas\n", journal=True, versions=(5, 11)),
        Mode("listed", f"{LOW} for lists that name topics, and a journal", _LISTED, journal=True, versions=(11, 4)),
    )
}
