"""Reads `[ingress.tls]` and `[egress.tls]`: nested tables, whose keys are those of Kafka's own properties.

Reads no file of keys itself. Invariant: a key that is not understood is a problem; if it were ignored, a connection
could be less secure than the file says.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from ..quotas.names import flattened
from ..quotas.units import shown
from .settings_values import parse_server_name
from .tls_settings import ClientAuth, LegSettings, RoleTls, Secret, StoreSettings, StoreType, allowed

if TYPE_CHECKING:
    import enum
    from collections.abc import Mapping
    from pathlib import Path

    from .tables import Problems

_STORES = ("location", "type", "password", "password.file")
KEYS = (
    "security.protocol",
    *(f"ssl.keystore.{key}" for key in _STORES),
    *(f"ssl.truststore.{key}" for key in _STORES),
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.password.file",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
)
OF_LISTEN = ("ssl.client.auth", "allowed_names")
OF_UPSTREAM = ("ssl.endpoint.identification.algorithm",)
_PROTOCOLS = ("SSL", "PLAINTEXT")


class Ends(NamedTuple):
    """The hosts at the other ends of a role's legs; None for a host that is not known."""

    listen: tuple[str | None, ...]
    upstream: tuple[str | None, ...]


def read_role(role: str, tables: object, ends: Ends, *, base: Path, problems: Problems) -> RoleTls:
    """Read a role's table `[<role>.tls]`. Errors go to `problems`.

    Args:
        role: `ingress` or `egress`.
        tables: the tables written there; an empty table if none is.
        ends: of the role's legs.
        base: the folder of relative paths.
        problems: where to put them.
    """
    if not isinstance(tables, dict):
        problems.add(f"{role}.tls", f"expected a table, found {shown(tables)}")
        return RoleTls()
    for key in tables.keys() - {"listen", "upstream"}:
        known = f"expected one of listen, upstream{did_you_mean(key, ('listen', 'upstream'))}"
        problems.add(f"{role}.tls.{key}", f"unknown key; {known}")
    legs = {side: _Leg(f"{role}.tls.{side}", tables.get(side), base, problems) for side in ("listen", "upstream")}
    if tables:
        for side, other in (("listen", "upstream"), ("upstream", "listen")):
            outside = [host for host in getattr(ends, side) if not is_loopback(host)]
            if legs[side].written is None and legs[other].encrypts and outside:
                where = "any client" if side == "listen" else outside[0] or "remote leaders"
                problems.add(
                    f"{role}.tls.{side}",
                    f"missing, and plaintext with {where} is not on loopback; expected keys, or "
                    'security.protocol = "PLAINTEXT" where that is meant',
                )
    found = RoleTls(legs["listen"].read(), legs["upstream"].read(), legs["upstream"].server_name())
    silent = legs["listen"].encrypts and "ssl.client.auth" not in (legs["listen"].written or {})
    if found.lends_its_name and silent and not all(is_loopback(host) for host in ends.listen):
        problems.add(
            f"{role}.tls.listen.ssl.client.auth",
            f"missing, so any client would become the principal of {role}.tls.upstream's certificate; "
            'expected "required", or "none" if clients authenticate by SASL',
        )
    return found


def is_loopback(host: str | None) -> bool:
    """Return True if a connection to this host stays on this machine, as far as its name tells."""
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_listener(path: str, name: str, table: object, *, base: Path, problems: Problems) -> LegSettings | None:
    """Read the table of a listener that belongs to no role; `name` is its leg's name. Return None if the table is not
    there."""
    return _Leg(path, None if table == {} else table, base, problems, name=name).read()


class _Leg:
    """The table of a leg. `written` is None if it is not there. `name`: the leg's name; None: the one that follows from
    the path."""

    def __init__(self, path: str, table: object, base: Path, problems: Problems, *, name: str | None = None) -> None:
        self._path, self._base, self._problems = path, base, problems
        self._name = name or path.replace(".tls.", ".")
        self.written: Mapping[str, Any] | None = None
        if isinstance(table, dict):
            self.written = dict(flattened(table))
        elif table is not None:
            self._add("", f"expected a table, found {shown(table)}")

    @property
    def _listens(self) -> bool:
        return self._name.endswith(".listen")

    @property
    def encrypts(self) -> bool:
        return self.written is not None and self.written.get("security.protocol", "SSL") == "SSL"

    def server_name(self) -> str | None:
        if self.written is None or "server_name" not in self.written:
            return None
        try:
            return parse_server_name(self.written["server_name"])
        except InvalidValueError as error:
            self._add("server_name", str(error))
            return None

    def read(self) -> LegSettings | None:
        if self.written is None:
            return None
        known = (*KEYS, *(OF_LISTEN if self._listens else OF_UPSTREAM))
        if self._path.startswith("ingress") and not self._listens:
            known = (*known, "server_name")
        for key in self.written.keys() - set(known):
            self._add(key, f"unknown key; expected one of {', '.join(known)}{did_you_mean(key, known)}")
        if not self._is_encrypted():
            return None
        keystores, truststore = self._keystores(), self._store("ssl.truststore")
        auth = self._choice("ssl.client.auth", ClientAuth, ClientAuth.NONE)
        if self._listens and not keystores:
            self._add("ssl.keystore.location", "missing: who dials has to be shown a certificate")
        if truststore is None and (not self._listens or auth is not ClientAuth.NONE):
            self._add("ssl.truststore.location", "missing: expected the authorities whose certificates are accepted")
        verifies, allowed_names = self._verifies_names(), self._allowed_names(auth)
        try:
            versions, ciphers = allowed(self._list("ssl.enabled.protocols"), self._list("ssl.cipher.suites"))
        except InvalidValueError as error:
            self._add("ssl.cipher.suites" if "suite" in str(error) else "ssl.enabled.protocols", str(error))
            versions, ciphers = allowed((), ())
        return LegSettings(self._name, keystores, truststore, auth, allowed_names, verifies, *versions, ciphers)

    def _allowed_names(self, auth: ClientAuth) -> tuple[str, ...]:
        names = self._list("allowed_names")
        if names and auth is not ClientAuth.REQUIRED:
            shown = "names are checked only in a certificate that clients have to show"
            self._add("allowed_names", f'{shown}: set ssl.client.auth = "required"')
        elif not names and "allowed_names" in (self.written or {}):
            # A template with an empty variable writes this. It might mean that no client is let in; without the key
            # every client is.
            self._add("allowed_names", "expected one name at least, found none")
        return names

    def _is_encrypted(self) -> bool:
        protocol = self._text("security.protocol", "SSL")
        if protocol not in _PROTOCOLS:
            self._add("security.protocol", f"expected SSL or PLAINTEXT, found {shown(protocol)}")
        if protocol == "PLAINTEXT":
            others = sorted(key for key in self.written or {} if key.startswith("ssl."))
            if others:
                self._add(others[0], 'has no meaning beside security.protocol = "PLAINTEXT"')
        return protocol != "PLAINTEXT"

    def _verifies_names(self) -> bool:
        algorithm = self._text("ssl.endpoint.identification.algorithm", "https").lower()
        if algorithm not in ("https", ""):
            self._add("ssl.endpoint.identification.algorithm", f'expected "https" or "", found {shown(algorithm)}')
        return bool(algorithm)

    def _keystores(self) -> tuple[StoreSettings, ...]:
        """Return a certificate, or several from which to choose by the name that the peer asks for."""
        written = self.written or {}
        locations = written.get("ssl.keystore.location")
        if not isinstance(locations, list):
            found = self._store("ssl.keystore")
            return () if found is None else (found,)
        if "ssl.key.location" in written:
            self._add("ssl.key.location", "expected one ssl.keystore.location beside it, found a list")
        stores = (self._store("ssl.keystore", location) for location in locations)
        return tuple(store for store in stores if store is not None)

    def _store(self, prefix: str, location: object = None) -> StoreSettings | None:
        written = self.written or {}
        found = written.get(f"{prefix}.location") if location is None else location
        kind = self._choice(f"{prefix}.type", StoreType, StoreType.PEM)
        if found is None:
            return None
        if not isinstance(found, str) or not found:
            self._add(f"{prefix}.location", f"expected the path of a file, found {shown(found)}")
            return None
        key, password = None, self._secret(f"{prefix}.password")
        if prefix == "ssl.keystore":
            path = self._text("ssl.key.location", "")
            if path and kind is StoreType.PKCS12:
                self._add("ssl.key.location", 'has no meaning beside ssl.keystore.type = "PKCS12", which has its key')
            key = self._base / path if path else None
            password = password or self._secret("ssl.key.password")
        return StoreSettings(self._base / found, kind, password, key)

    def _secret(self, key: str) -> Secret | None:
        written = self.written or {}
        if f"{key}.file" in written:
            if key in written:
                self._add(key, f"expected either this or {key}.file, found both")
            return Secret(file=self._base / self._text(f"{key}.file", ""))
        return Secret(self._text(key, "", secret=True)) if key in written else None

    def _choice(self, key: str, choices: type[enum.StrEnum], otherwise: Any) -> Any:
        value = self._text(key, otherwise.value)
        found = next((choice for choice in choices if choice.value.lower() == value.lower()), None)
        if found is None:
            expected = " or ".join(choice.value for choice in choices)
            advice = ": keytool -importkeystore converts a JKS store" if value.upper() == "JKS" else ""
            self._add(key, f"expected {expected}, found {shown(value)}{advice}")
        return found or otherwise

    def _text(self, key: str, otherwise: str, *, secret: bool = False) -> str:
        value = (self.written or {}).get(key, otherwise)
        if not isinstance(value, str):
            self._add(key, "expected text" + ("" if secret else f", found {shown(value)}"))
            return otherwise
        return value

    def _list(self, key: str) -> tuple[str, ...]:
        """Split a list, which Kafka writes as one text with commas."""
        value = (self.written or {}).get(key, "")
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        if isinstance(value, str):
            return tuple(each.strip() for each in value.split(",") if each.strip())
        self._add(key, f"expected text with commas, found {shown(value)}")
        return ()

    def _add(self, key: str, reason: str) -> None:
        self._problems.add(f"{self._path}.{key}" if key else self._path, reason)
