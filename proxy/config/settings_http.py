"""The table [http] of proxy.toml: where the pages are, and who may ask for them.

Invariant: paths are resolved against the directory of proxy.toml.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .settings_values import Address, parse_distinguished_name, parse_host_name
from .tables import READ_APART, Kind
from .tls_settings import LegSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


_LOOPBACK = Address("127.0.0.1", 9404)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of ``[http]``: where pages are served, and to whom."""

    listen: Address = _LOOPBACK
    allowed_hosts: tuple[Annotated[str, Kind(parse_host_name)], ...] = ()
    """Names it may be asked by, beside the machine's own; ``*.example.com`` is all below it, ``*`` any."""
    token_file: Path | None = None
    """None: no token lets anybody read or write quotas."""
    writers: tuple[Annotated[str, Kind(parse_distinguished_name)], ...] = ()
    """Distinguished names in client certificates whose owners may read and replace quotas, spelt canonically."""
    partition_rates: bool = False
    """PartitionBytesInRate is exposed: a series per throttled partition."""
    require_token: bool = False
    """Every page wants the token, but for probes."""
    reload: bool = True
    """POST /-/reload is there."""
    tls: Annotated[LegSettings | None, READ_APART] = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return what does not fit, by key."""
        if self.require_token and self.token_file is None:
            yield "token_file", "missing, and http.require_token wants one"
