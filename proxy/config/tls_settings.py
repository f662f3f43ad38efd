"""The settings of one leg's keys, in Kafka's own words where it has some.

Knows no file's content. Invariant: a leg is either here, and encrypted, or it is plaintext because that was written
down, or because both of its ends are on this host.
"""

from __future__ import annotations

import enum
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ClientAuth(enum.StrEnum):
    """The values of Kafka's ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class StoreType(enum.StrEnum):
    """ssl.keystore.type, ssl.truststore.type; JKS is Java's own and read by nobody else."""

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
    """Of the store, or of the key in it."""
    key: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        secret = None if self.password is None else self.password.file
        return tuple(path for path in (self.location, self.key, secret) if path is not None)


@dataclass(frozen=True, slots=True)
class LegSettings:
    """The settings of one leg. `name` is its key path without `tls`, such as `ingress.listen`."""

    name: str
    keystores: tuple[StoreSettings, ...] = ()
    truststore: StoreSettings | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    """Of a listening leg."""
    allowed_names: tuple[str, ...] = ()
    """Globs, of a listening leg: a client's certificate has a name that one of them matches. Empty: any name does."""
    verifies_names: bool = True
    """Of a leg that dials: ssl.endpoint.identification.algorithm is not empty."""
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str | None = None
    """Of TLS 1.2, in OpenSSL's words; None: OpenSSL's own choice."""

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
