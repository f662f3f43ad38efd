"""The settings of a leg's keys, in Kafka's own words where it has some; ssl.enabled.protocols and ssl.cipher.suites,
from Java's words to OpenSSL's.

Knows no file's content. Python's interface to OpenSSL can choose only among the suites of TLS 1.2; TLS 1.3 has three,
all of them sound. Invariants: a choice that cannot be had exactly is an error, never replaced by something weaker; a
leg is either here, and encrypted, or it is plaintext because that was written down, or because both of its ends are on
this host.
"""

from __future__ import annotations

import enum
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import InvalidValueError
from ..quotas.units import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KEY_AGREEMENT = "prime256v1"
"""The only group by which keys are agreed on with a peer that dials us: P-256, which every client has. OpenSSL also
offers finite fields, and the peer chooses among them. A hello of 1.2 KB for ffdhe8192 takes 120 ms of a core
(measured), and Python cannot name more than one group."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OF_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
_OF_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
"""The suites of TLS 1.2 that Java and OpenSSL both have, with forward secrecy and an AEAD. Security scanners complain
of all others."""


class ClientAuth(enum.StrEnum):
    """The values of Kafka's ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class StoreType(enum.StrEnum):
    """ssl.keystore.type, ssl.truststore.type; JKS is Java's own and not supported."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, by itself or in a file that is read whenever it is needed; never shown."""

    value: str | None = field(default=None, repr=False)
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The store of keys or authorities. `key`: the file of a PEM key that is not in `location` itself."""

    location: Path
    type: StoreType = StoreType.PEM
    password: Secret | None = None
    """The password of the store, or of the key in it."""
    key: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        secret = None if self.password is None else self.password.file
        return tuple(path for path in (self.location, self.key, secret) if path is not None)


@dataclass(frozen=True, slots=True)
class LegSettings:
    """The settings of a leg. `name` is its key path without `tls`, such as `ingress.listen`."""

    name: str
    keystores: tuple[StoreSettings, ...] = ()
    truststore: StoreSettings | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    """The demand of a listening leg for client certificates."""
    allowed_names: tuple[str, ...] = ()
    """Globs of a listening leg: a client's certificate must have a name that one of them matches. Empty: any name will
    do."""
    verifies_names: bool = True
    """True if a leg that dials verifies names: ssl.endpoint.identification.algorithm is not empty."""
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str | None = None
    """The suites of TLS 1.2, in OpenSSL's words; None: OpenSSL's own choice."""

    @property
    def listens(self) -> bool:
        return self.name.endswith(".listen")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read again when they change."""
        stores = (*self.keystores, *(() if self.truststore is None else (self.truststore,)))
        return tuple(dict.fromkeys(path for store in stores for path in store.files))


@dataclass(frozen=True, slots=True)
class RoleTls:
    """Both legs of a role; None: plaintext."""

    listen: LegSettings | None = None
    upstream: LegSettings | None = None
    server_name: str | None = None
    """The name that the certificate of the broker beside us must have; None: the host of `upstream`."""

    @property
    def lends_its_name(self) -> bool:
        """True if the broker behind this leg takes any peer that dials for the owner of the upstream leg's certificate,
        since the listening leg does not require a certificate."""
        required = self.listen is not None and self.listen.client_auth is ClientAuth.REQUIRED
        return self.upstream is not None and bool(self.upstream.keystores) and not required

    @property
    def legs(self) -> tuple[LegSettings, ...]:
        return tuple(leg for leg in (self.listen, self.upstream) if leg is not None)


PLAINTEXT = RoleTls()


def allowed(
    protocols: Sequence[str], suites: Sequence[str]
) -> tuple[tuple[ssl.TLSVersion, ssl.TLSVersion], str | None]:
    """Return (lowest and highest version, OpenSSL's list of suites or None for its own choice); empty lists choose
    nothing.

    Raises InvalidValueError.
    """
    for protocol in protocols:
        if protocol not in _VERSIONS:
            raise InvalidValueError(f"expected TLSv1.2 or TLSv1.3, found {shown(protocol)}")
    versions = sorted({_VERSIONS[each] for each in protocols} or _VERSIONS.values())
    if not suites:
        return (versions[0], versions[-1]), None
    for suite in suites:
        if suite not in _OF_1_2 and suite not in _OF_1_3:
            raise InvalidValueError(f"expected suites of {', '.join((*_OF_1_3, *_OF_1_2))}, found {shown(suite)}")
    newer, older = [s for s in suites if s in _OF_1_3], [_OF_1_2[s] for s in suites if s in _OF_1_2]
    if not newer:
        versions = [each for each in versions if each < ssl.TLSVersion.TLSv1_3]
    if not older:
        versions = [each for each in versions if each > ssl.TLSVersion.TLSv1_2]
    if not versions:
        raise InvalidValueError("expected suites of a version that ssl.enabled.protocols has, found none")
    if newer and versions[-1] == ssl.TLSVersion.TLSv1_3 and set(newer) != set(_OF_1_3):
        raise InvalidValueError(
            f"the suites of TLS 1.3 cannot be chosen singly: expected all of {', '.join(_OF_1_3)}, or none of them"
        )
    return (versions[0], versions[-1]), ":".join(older) or None
