"""The table [http] of proxy.toml as values: where the pages are, and who may ask for them.

Knows no file and no key's spelling. Invariant: paths are resolved against the directory of proxy.toml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .settings_values import Address
    from .tls_settings import LegSettings


@dataclass(frozen=True, slots=True)
class HttpSettings:
    listen: Address
    allowed_hosts: tuple[str, ...] = ()
    """Names it may be asked by, beside the machine's own; ``*.example.com`` is all below it, ``*`` any."""
    token_file: Path | None = None
    """Resolved against the directory of proxy.toml. None: no token lets anybody read or write quotas."""
    writers: tuple[str, ...] = ()
    """Distinguished names in client certificates whose owners may read and replace quotas, spelt canonically."""
    partition_rates: bool = False
    """PartitionBytesInRate is exposed: a series per throttled partition."""
    require_token: bool = False
    """Every page wants the token, but for probes."""
    reload: bool = True
    """POST /-/reload is there."""
    tls: LegSettings | None = None
