"""proxy.toml, as every command reads it: the named file, or the file in the current folder.

Knows no command. Invariant: a problem is reported as `load_settings` reports it; where the current folder has none, it
is also said how to name another, since an operator types commands wherever they happen to be.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.config.settings import HttpSettings, Settings

DEFAULT_CONFIG = Path("proxy.toml")
PACKAGED = Path("/etc/kafka-throttle-sidecar/proxy.toml")
"""The place of proxy.toml in the .deb and the .rpm."""
UNIT_STATE = Path("/var/lib/kafka-throttle-sidecar")
"""The StateDirectory= of the packages' unit."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def load_configuration(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Load and validate proxy.toml. Blocking. Raises ConfigurationError with every problem found."""
    # Commands that only name the default file load this module for their options. `run --take-over` is one: what it
    # loads before it gives way, it loads while producers wait for the same cores (0.15 of 0.25 s of CPU).
    from proxy.config.settings import ControlSettings, load_settings
    from proxy.control.directory import default_directory

    try:
        settings = load_settings(path, overrides, os.environ)
    except ConfigurationError as error:
        if path != DEFAULT_CONFIG or os.path.lexists(path):
            raise
        packaged = f": {PACKAGED}" if os.path.lexists(PACKAGED) else ""
        words = f"{error} (--config FILE names one that is not in this folder{packaged})"
        raise ConfigurationError(words) from error
    if settings.control.directory is not None:
        return settings
    return replace(settings, control=ControlSettings(default_directory(settings.broker.id, os.environ)))


def state_of(settings: Settings, overrides: Sequence[str]) -> Path:
    """Return where a sidecar of this configuration that does not answer keeps its starts. The packages' unit says so to
    it by a variable that an operator's shell does not have."""
    from proxy.config.settings import load_settings

    if settings.path.absolute() != PACKAGED or "STATE_DIRECTORY" in os.environ or not UNIT_STATE.is_dir():
        return settings.quotas.state
    environ = {**os.environ, "STATE_DIRECTORY": str(UNIT_STATE)}
    return load_settings(settings.path, overrides, environ).quotas.state


def control_url(settings: Settings) -> str:
    """Return the URL of control.sock of the sidecar of these settings."""
    from proxy.control.directory import default_directory

    from .http_client import UNIX

    return f"{UNIX}{settings.control.directory or default_directory(settings.broker.id, os.environ)}"


def url_of(http: HttpSettings) -> str:
    """Return where a sidecar is met from beside it: a wildcard is met on loopback."""
    from proxy.config.settings_values import Address

    listen, scheme = http.listen, "http" if http.tls is None else "https"
    return f"{scheme}://{Address(_LOOPBACK.get(listen.host, listen.host), listen.port)}"
