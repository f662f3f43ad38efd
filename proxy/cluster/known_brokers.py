"""Brokers that the sidecar may ask a question, in this order: the one beside us, the configured peers, then brokers
that redirected connections were meant for, with the one met last first.

Invariant: of the brokers met at redirected connections at most `MOST_MET` are kept, however many are dialled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .broker_client import Broker
from .login import Login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config.settings import Settings
    from ..config.settings_values import Address
    from ..tls.legs import Legs

MOST_MET = 8


class KnownBrokers:
    """The brokers that a sidecar may ask. An iteration yields the brokers that were known when it began; `legs` has the
    keys to speak with them."""

    def __init__(self, settings: Settings, legs: Legs) -> None:
        """Open the login, if one is configured. Blocking.

        Raises ConfigurationError if [names] says how to log in, and that is not possible here.
        """
        self._login = None if settings.login is None else Login.open(settings.login)
        ingress, egress = settings.ingress, settings.egress
        beside = () if ingress is None else (ingress.upstream,)
        peers = () if egress is None else egress.peers
        self._beside = None if ingress is None else legs.of(ingress.tls.upstream)
        self._remote = None if egress is None else legs.of(egress.tls.upstream)
        self._names = {peer.upstream: peer.server_name for peer in peers}
        if ingress is not None:
            self._names[ingress.upstream] = ingress.server_name
        self._told = beside + tuple(peer.upstream for peer in peers)
        self._is_beside = beside
        self._met: dict[Address, str] = {}
        """With the name that its certificate must have, and the one met last at the end."""

    def meet(self, broker: Address, name: str | None = None) -> None:
        """Remember a broker that a redirected connection was meant for. `name`: by which the broker beside us knows it;
        None: it has not said so, or not yet."""
        if broker not in self._told:
            before = self._met.pop(broker, broker.host)
            self._met[broker] = name or before
            if len(self._met) > MOST_MET:
                del self._met[next(iter(self._met))]

    def __iter__(self) -> Iterator[Broker]:
        return (self._spoken_to(address) for address in (*self._told, *reversed(tuple(self._met))))

    def _spoken_to(self, address: Address) -> Broker:
        leg = self._beside if address in self._is_beside else self._remote
        if leg is None:
            return Broker(address, login=self._login)
        name = self._names.get(address) or self._met.get(address, address.host)
        return Broker(address, leg.loaded.contexts[0], name, self._login)
