"""Every contender, by name."""

from __future__ import annotations

from .envoy import ENVOY
from .kroxylicious import KROXYLICIOUS
from .peer import Peer
from .proxies import PROXIES
from .sidecars import SIDECARS

DIRECT = Peer("direct", "nothing in between", None, lambda: "", quick=True)
PEERS = {peer.name: peer for peer in (DIRECT, *PROXIES, ENVOY, *KROXYLICIOUS, *SIDECARS)}
ANCHOR = "haproxy"
"""The contender that every ratio is to."""
