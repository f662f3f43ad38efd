"""Where brokers are, for who has a question to one of them: the one beside us, then peers, then those that redirected
connections were meant for, the last met first.

Invariant: at most `MOST_MET` of the latter are kept, whoever dials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config.settings import Settings
    from ..config.settings_values import Address

MOST_MET = 8


class KnownBrokers:
    """Of one sidecar. A pass over it sees those known when it began."""

    def __init__(self, settings: Settings) -> None:
        beside = () if settings.ingress is None else (settings.ingress.upstream,)
        peers = () if settings.egress is None else tuple(peer.upstream for peer in settings.egress.peers)
        self._told = beside + peers
        self._met: tuple[Address, ...] = ()

    def meet(self, broker: Address) -> None:
        """Somebody dialled it."""
        if broker not in self._told:
            others = (each for each in self._met if each != broker)
            self._met = (broker, *others)[:MOST_MET]

    def __iter__(self) -> Iterator[Address]:
        return iter(self._told + self._met)
