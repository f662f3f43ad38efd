"""Protocols between the brokers of a cluster, plaintext, TLS or SASL, and the files that they need.

Clients of the lab (its administrator, its producers) use a listener of their own, in plaintext: what is tried here is
the traffic between brokers. Pure but for the files of `Keys`.
Invariant: if a broker's replication traffic is secured, no other broker is told of a plaintext listener for it.
"""

from __future__ import annotations

import base64
import enum
import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..host.addresses import KAFKA_PORT, SECURED_PORT
from .authority import Authority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ..host.addresses import Addresses

_PLAINTEXT = 'security.protocol = "PLAINTEXT"'
FIRST_PEM_FILES = (2, 7)
# Of clusters that live for minutes, on loopback.
USER, PASSWORD = "broker", "brokers-secret"
_MODULES = {
    "PLAIN": f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}"'
    f' password="{PASSWORD}" user_{USER}="{PASSWORD}";',
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="{USER}" password="{PASSWORD}";',
    # Kafka's unsecured tokens: their length is what is tried here, not who has signed them.
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    f' unsecuredLoginStringClaim_sub="{USER}" unsecuredLoginStringClaim_padding="{"x" * 40_000}";',
}


class Security(enum.StrEnum):
    """The security of replication between brokers; the value is what users type."""

    PLAINTEXT = "plaintext"
    MTLS = "mtls"
    """TLS in which both ends present a certificate of the cluster's authority, and hostnames are verified."""
    SASL_SSL = "sasl_ssl"
    """SCRAM-SHA-512 inside TLS."""
    SASL_PLAINTEXT = "sasl_plaintext"
    """PLAIN."""
    OAUTHBEARER = "oauthbearer"
    """The protocol SASL_PLAINTEXT with tokens of 40 KB (KIP-255)."""
    TLS_BETWEEN = "tls_between"
    """Brokers speak plaintext to the sidecars beside them, those speak TLS to each other, both with certificates."""

    @property
    def protocol(self) -> str:
        """`security.inter.broker.protocol`."""
        return _PROTOCOLS[self][0]

    @property
    def mechanism(self) -> str | None:
        """`sasl.mechanism.inter.broker.protocol`."""
        return _PROTOCOLS[self][1]

    @property
    def port(self) -> int:
        """The port at which brokers advertise themselves to each other."""
        return KAFKA_PORT if self.protocol == "PLAINTEXT" else SECURED_PORT

    @property
    def brokers_encrypt(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """Options for brokers that encrypt: they may use all of the JVM's compilers. The lab's other brokers stop at
        the first one, which starts them sooner. But it has no AES instructions: AES-GCM had 3 MB/s in its first second
        on a busy machine, and 13 at best. That is less than moves need, and a broker that answers late misses the
        quota, whatever throttles."""
        return ("-XX:TieredStopAtLevel=4",) if self.brokers_encrypt else ()

    @property
    def network_encrypts(self) -> bool:
        """Whether the traffic between two hosts is encrypted. Then a tap needs keys."""
        return self.brokers_encrypt or self is Security.TLS_BETWEEN

    @property
    def scram(self) -> tuple[str, str, str] | None:
        """(mechanism, user, password) that the cluster must know before its brokers meet; None if it needs none."""
        return (self.mechanism, USER, PASSWORD) if self.mechanism == "SCRAM-SHA-512" else None


_PROTOCOLS: Mapping[Security, tuple[str, str | None]] = {
    Security.PLAINTEXT: ("PLAINTEXT", None),
    Security.MTLS: ("SSL", None),
    Security.SASL_SSL: ("SASL_SSL", "SCRAM-SHA-512"),
    Security.SASL_PLAINTEXT: ("SASL_PLAINTEXT", "PLAIN"),
    Security.OAUTHBEARER: ("SASL_PLAINTEXT", "OAUTHBEARER"),
    Security.TLS_BETWEEN: ("PLAINTEXT", None),
}


def secured(properties: Mapping[str, str], security: Security, *, name: str, keys: Keys, broker: int) -> dict[str, str]:
    """Return server.properties of a broker with these plaintext listeners and a secured one for replication."""
    protocol = security.protocol
    if protocol == "PLAINTEXT":
        return dict(properties)
    # Below protocol 1.0 a listener must carry the name of its security protocol (UpdateMetadata v0-v3).
    listener = f"{protocol}://{name}:{SECURED_PORT}"
    found = {
        **properties,
        "listeners": f"{listener},{properties['listeners']}",
        "advertised.listeners": f"{listener},{properties['advertised.listeners']}",
        "security.inter.broker.protocol": protocol,
    }
    known = properties.get("listener.security.protocol.map")
    if known is not None:
        found["listener.security.protocol.map"] = f"{protocol}:{protocol},{known}"
    if security.brokers_encrypt:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys.broker(broker)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(keys.authority.certificate),
            "ssl.client.auth": "required" if security is Security.MTLS else "none",
        }
    if security.mechanism is not None:
        listener_key = f"listener.name.{protocol.lower()}.{security.mechanism.lower()}"
        found |= {
            "sasl.enabled.mechanisms": security.mechanism,
            "sasl.mechanism.inter.broker.protocol": security.mechanism,
            f"{listener_key}.sasl.jaas.config": _MODULES[security.mechanism],
        }
    return found


@dataclass(frozen=True)
class Secured:
    """The keys and tables that the sidecars of a cluster are configured with."""

    security: Security
    keys: Keys

    def sidecar_tables(self, broker: int, roles: Iterable[str]) -> dict[str, str]:
        """Return the lines of proxy.toml's tables beside those of these roles, by table name."""
        found = {} if self.security.mechanism is None else {"names": self._names(self.security.mechanism)}
        for role in roles if self.security.network_encrypts else ():
            own = self.keys.ingress(broker) if role == "ingress" else self.keys.egress(broker)
            store = f'ssl.keystore.location = "{own}"'
            trusted = f'ssl.truststore.location = "{self.keys.authority.certificate}"'
            required = 'ssl.client.auth = "required"'
            presents = self.security.mechanism is None
            listen = [store, trusted, required] if presents else [store]
            upstream = [store, trusted] if presents else [trusted]
            if self.security is Security.TLS_BETWEEN:
                # Towards the broker beside it, plaintext: the lab's loopback addresses stand for those of one host.
                listen = listen if role == "ingress" else [_PLAINTEXT]
                upstream = upstream if role == "egress" else [_PLAINTEXT]
            if role == "ingress" and self.security is not Security.TLS_BETWEEN:
                upstream.append(f'server_name = "{self.keys.addresses.name(broker)}"')
            found[f"{role}.tls.listen"] = "\n".join(listen)
            found[f"{role}.tls.upstream"] = "\n".join(upstream)
        return found

    def _names(self, mechanism: str) -> str:
        self.keys.home.mkdir(parents=True, exist_ok=True)
        lines = [f'security.protocol = "{self.security.protocol}"', f'sasl.mechanism = "{mechanism}"']
        if mechanism == "OAUTHBEARER":
            token = self.keys.home / "token"
            token.write_text(unsecured_token(), encoding="ascii")
            return "\n".join([*lines, f'sasl.oauthbearer.token.file = "{token}"'])
        password = self.keys.home / "password"
        password.write_text(PASSWORD, encoding="ascii")
        return "\n".join([*lines, f'sasl.username = "{USER}"', f'sasl.password.file = "{password}"'])


def unsecured_token() -> str:
    """Return an unsigned token (RFC 7515, appendix A.5), valid for an hour. The lab's brokers show such
    tokens to each other, too."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + 3600, "padding": "x" * 40_000})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join(encoded) + "."


@dataclass
class Keys:
    """The certificates of a cluster, and which process presents which.

    The authority is made with the first file that is asked for.
    """

    home: Path
    addresses: Addresses
    _names: dict[str, list[str]] = field(default_factory=dict)
    """The names in each issued certificate, by its file."""

    @cached_property
    def authority(self) -> Authority:
        return Authority(self.home)

    def broker(self, broker: int) -> Path:
        """Return the certificate of the broker itself, in the name by which others dial it."""
        return self._issued(f"broker-{broker}.pem", broker)

    def ingress(self, broker: int) -> Path:
        """Return the certificate of the sidecar that others dial instead of the broker: the broker's name, and its own
        key."""
        return self._issued(f"ingress-{broker}.pem", broker)

    def egress(self, broker: int) -> Path:
        """Return the certificate of the sidecar that the broker dials instead of the other brokers: it has all their
        names."""
        return self._issued(f"egress-{broker}.pem", *(other for other in self.addresses.brokers if other != broker))

    def tap(self) -> Path:
        """Return the certificate of taps, which stand before every broker."""
        return self._issued("tap.pem", *self.addresses.brokers)

    def renew(self) -> None:
        """Renew every certificate, in the same files; the authority stays."""
        for file, names in self._names.items():
            self.authority.issue(file, names, common_name=file.removesuffix(".pem"))

    def _issued(self, file: str, *brokers: int) -> Path:
        if file not in self._names:
            self._names[file] = [self.addresses.name(broker) for broker in brokers] or ["nobody"]
            self.authority.issue(file, self._names[file], common_name=file.removesuffix(".pem"))
        return self.home / file
