"""The value types of proxy.toml: addresses, host names and durations.

Knows no key and no file. Invariant: an `Address` always has a host and a port of 0..65535.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import InvalidValueError
from ..quotas.units import shown

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^\s:\[\]/]+)):([0-9]{1,5})", re.ASCII)
_HOST_NAME = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) *(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_PORT = 65535
_ANY = {"0.0.0.0": False, "::": True}
"""The wildcard hosts, and whether each is IPv6."""


class Address(NamedTuple):
    host: str
    """A name or an IP address, without brackets."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def collides_with(self, other: Address) -> bool:
        """Return True if both cannot be listened on at once; port 0 (any free one) never collides."""
        return self == other and self.port != 0

    def overlaps(self, other: Address) -> bool:
        """Return True if one is every interface and the other one of them: the more specific gets its connections."""
        return self.port == other.port != 0 and (self.covers(other) or other.covers(self))

    @property
    def is_any(self) -> bool:
        """True if it stands for every interface."""
        return self.host in _ANY

    def covers(self, other: Address) -> bool:
        """Return True if it is every interface of the other's family, whatever the ports."""
        return self.is_any and _ANY[self.host] == (":" in other.host)


def parse_address(value: object) -> Address:
    """Parse ``"host:port"`` or ``"[::1]:9092"``. Raises InvalidValueError."""
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidValueError(f"expected host:port, found {shown(value)}")
    port = int(match[3])
    if port > MAX_PORT:
        raise InvalidValueError(f"expected a port of at most {MAX_PORT}, found {shown(value)}")
    if match[2] is not None and not can_be_looked_up(match[2]):
        raise InvalidValueError(f"expected a host name whose parts have 1 to 63 characters, found {shown(value)}")
    return Address(match[1] or match[2], port)


def can_be_looked_up(host: str) -> bool:
    """Return True if Python's name lookups and TLS accept the name: others end in UnicodeError there."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def parse_host_name(value: object) -> str:
    """Parse ``"kafka-101"``, ``"*.example.com"`` or ``"*"``. Raises InvalidValueError."""
    if not (isinstance(value, str) and _HOST_NAME.fullmatch(value)):
        expected = 'a host name without scheme and port, "*.example.com", or "*"'
        raise InvalidValueError(f"expected {expected}, found {shown(value)}")
    return value


def parse_distinguished_name(value: object) -> str:
    """Parse ``"CN=kafka-operator,O=Example"``, most specific part first, as in RFC 4514. Raises InvalidValueError."""
    # Loaded where it is needed: most sidecars have no use for it.
    from cryptography import x509

    try:
        name = x509.Name.from_rfc4514_string(value) if isinstance(value, str) else x509.Name([])
    except ValueError:
        name = x509.Name([])
    if not name.rdns:
        expected = 'the distinguished name of a certificate, such as "CN=kafka-operator,O=Example"'
        raise InvalidValueError(f"expected {expected}, found {shown(value)}")
    return name.rfc4514_string()


def parse_server_name(value: object) -> str:
    """Parse one host name or IP address that a certificate must have. Raises InvalidValueError."""
    if isinstance(value, str) and ":" in value and _ADDRESS.fullmatch(f"[{value}]:0"):
        return value
    name = parse_host_name(value)
    if "*" in name or not can_be_looked_up(name):
        raise InvalidValueError(f"expected one host name, found {shown(value)}")
    return name


def parse_target(value: object) -> Address:
    """Parse an address that can be connected to, so its port is not 0. Raises InvalidValueError."""
    address = parse_address(value)
    if address.port == 0:
        raise InvalidValueError(f"expected a port to connect to, found {shown(value)}")
    return address


def parse_duration_seconds(value: object) -> float:
    """Parse ``"250ms"``, ``"10s"``, ``"2m"``, ``"1h"``; a bare number has no unit and is refused.

    Raises InvalidValueError.
    """
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidValueError(f'expected a duration like "250ms" or "10s", found {shown(value)}')
    return float(match[1]) * _SECONDS[match[2]]


def parse_seconds(value: object) -> float:
    """Parse a duration above 0. Raises InvalidValueError."""
    seconds = parse_duration_seconds(value)
    if seconds <= 0:
        raise InvalidValueError(f"expected a duration above 0, found {shown(value)}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the text that `parse_duration_seconds` parses, in the largest unit that gives a whole number:
    ``250ms``."""
    milliseconds = round(seconds * 1000)
    unit = next(unit for unit in ("h", "m", "s", "ms") if milliseconds % round(_SECONDS[unit] * 1000) == 0)
    return f"{milliseconds // round(_SECONDS[unit] * 1000)}{unit}"
