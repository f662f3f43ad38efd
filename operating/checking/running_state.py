"""Asks the running sidecar of a proxy.toml for its state at control.sock: no path is guessed where it answers."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads the annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from proxy.control.override_routes import PATH
from proxy.errors import ConfigurationError, UnreachableError
from proxy.quotas.override import Override, PlacedValue

from ..asking import ask
from ..configuration import control_url
from ..presence import sign_at
from ..status.rows import decode

if TYPE_CHECKING:
    from proxy.config.settings import Settings
    from proxy.diagnostics.conditions import Condition


class _Paths(msgspec.Struct, frozen=True):
    state: str


class _Config(msgspec.Struct, frozen=True):
    quotas: _Paths


class _Change(msgspec.Struct, frozen=True):
    place: str
    key: str
    value: Any


class _Written(msgspec.Struct, frozen=True):
    id: str
    by: str
    since: datetime
    changes: tuple[_Change, ...]
    label: str | None = None
    until: datetime | None = None
    reason: str | None = None


class _Overrides(msgspec.Struct, frozen=True):
    overrides: tuple[_Written, ...]


_CONFIG = msgspec.json.Decoder(_Config)
_OVERRIDES = msgspec.json.Decoder(_Overrides)


class RunningState(NamedTuple):
    """The state that a running sidecar reports."""

    url: str
    state: Path
    """The path of its last good quotas; its overrides are stored beside them."""
    overrides: tuple[Override, ...]
    """The overrides that it goes by, in the order in which they were made."""
    conditions: tuple[Condition, ...]


class SilentSidecar(NamedTuple):
    """A sidecar that may run, and does not report its state to this user."""

    error: str


def ask_running(settings: Settings) -> RunningState | SilentSidecar | None:
    """Return the state of the sidecar of these settings; None if nobody listens at its control.sock."""
    url = control_url(settings)
    try:
        config, overrides, page = (ask(url, each) for each in ("/config", PATH, "/throttle"))
        found = _OVERRIDES.decode(overrides).overrides
        state, conditions = Path(_CONFIG.decode(config).quotas.state), decode(url, page).conditions
    except msgspec.MsgspecError as error:
        return SilentSidecar(f"{url}: expected the answer of a sidecar of this release: {error}")
    except (UnreachableError, ConfigurationError) as error:
        return None if sign_at(url) is None else SilentSidecar(str(error))
    return RunningState(url, state, tuple(map(_override, found)), conditions or ())


def _override(page: _Written) -> Override:
    values = msgspec.structs.asdict(page)
    return Override(**values | {"changes": tuple(PlacedValue(*msgspec.structs.astuple(each)) for each in page.changes)})
