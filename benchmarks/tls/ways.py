"""Ways between the two ends: a function that writes its files, and a command. Knows nothing of measuring.

Invariant: every way verifies the leader's certificate and name, has one thread for traffic, and allows TLS 1.3 alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.host.addresses import free_ports
from lab.sidecars.sidecars import throttle_sidecar_script

from ..byte_path.contenders.envoy import envoy_program
from ..byte_path.contenders.peer import program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "kafka-101"
SIDECAR = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:{port}"
upstream = "127.0.0.1:{leader}"
[ingress.tls.listen]
ssl.keystore.location = "own.pem"
[ingress.tls.upstream]
ssl.truststore.location = "ca.pem"
server_name = "{name}"
[http]
listen = "127.0.0.1:{http}"
"""
EVERYTHING_LISTED = (
    '[brokers.101]\nleader.replication.throttled.rate = "1000GiB/s"\nleader.replication.throttled.replicas = "*"\n'
)
HAPROXY = """
global
  nbthread 1
  ssl-default-bind-options ssl-min-ver TLSv1.3
  ssl-default-bind-ciphersuites TLS_AES_256_GCM_SHA384
  {more}
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen kafka
  bind 127.0.0.1:{port} ssl crt {home}/own.pem
  server leader 127.0.0.1:{leader} ssl verify required ca-file {home}/ca.pem sni str({name}) verifyhost {name}
"""
# With its usual names for types, whose lines are as long as they are.
ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: kafka
          cluster: leader
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_params: {{tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}}
            tls_certificates:
            - certificate_chain: {{filename: {home}/own.pem}}
              private_key: {{filename: {home}/own.pem}}
  clusters:
  - name: leader
    connect_timeout: 5s
    load_assignment:
      cluster_name: leader
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {leader}}}}}}}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: {name}
        common_tls_context:
          tls_params: {{tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}}
          validation_context:
            trusted_ca: {{filename: {home}/ca.pem}}
            match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: {name}}}}}]
"""


@dataclass(frozen=True, slots=True)
class Way:
    """A way for bytes from leader to follower.

    Args:
        name: for tables.
        begin: its command, given its folder (`own.pem`, `ca.pem` are there), its port and the leader's; raises
            MissingError.
        upgraded: another process of it has taken over, while the follower's connection stayed.
    """

    name: str
    begin: Callable[[Path, int, int], list[str]]
    upgraded: bool = False


def haproxy(more: str = "") -> Callable[[Path, int, int], list[str]]:
    def command(home: Path, port: int, leader: int) -> list[str]:
        config = home / "haproxy.cfg"
        config.write_text(HAPROXY.format(home=home, port=port, leader=leader, name=NAME, more=more))
        return [program("haproxy", "haproxy"), "-f", str(config), "-db"]

    return command


def envoy(home: Path, port: int, leader: int) -> list[str]:
    found = envoy_program()
    config = home / "envoy.yaml"
    config.write_text(ENVOY.format(home=home, port=port, leader=leader, name=NAME))
    return [found, "-c", str(config), "-l", "warn", "--use-dynamic-base-id", "--concurrency", "1"]


def sidecar(quotas: str) -> Callable[[Path, int, int], list[str]]:
    def command(home: Path, port: int, leader: int) -> list[str]:
        config = home / "proxy.toml"
        config.write_text(SIDECAR.format(port=port, leader=leader, name=NAME, http=free_ports(1)[0]))
        (home / "quotas.toml").write_text(quotas)
        # Several stand beside one broker here, and each has its own control socket.
        return ["env", f"RUNTIME_DIRECTORY={home}", throttle_sidecar_script(), "run", "--config", str(config)]

    return command


WAYS = (
    Way("haproxy", haproxy()),
    Way("haproxy-256k", haproxy("tune.bufsize 262144")),
    Way("envoy", envoy),
    Way("sidecar", sidecar("# no quotas\n")),
    Way("sidecar, everything listed", sidecar(EVERYTHING_LISTED)),
    Way("sidecar, everything listed, upgraded", sidecar(EVERYTHING_LISTED), upgraded=True),
)
