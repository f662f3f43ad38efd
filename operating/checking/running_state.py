"""What the running sidecar of a proxy.toml goes by, asked at its control.sock: no path is guessed where it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from proxy.control.directory import control_path
from proxy.control.override_routes import PATH
from proxy.diagnostics.conditions import Condition
from proxy.quotas.override import Override, PlacedValue

from ..fleet.members import Member, get
from ..http_client import UNIX

if TYPE_CHECKING:
    from proxy.config.settings import Settings

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Override))
_CHANGE = tuple(field.name for field in msgspec.structs.fields(PlacedValue))


class RunningState(NamedTuple):
    """What a running sidecar says of itself."""

    url: str
    state: Path
    """The path of its last good quotas; its overrides are stored beside them."""
    overrides: tuple[Override, ...]
    """The overrides that it goes by, in the order in which they were made."""
    conditions: tuple[Condition, ...]


def ask_running(settings: Settings) -> RunningState | None:
    """Return what the sidecar of these settings says; None if none answers this user."""
    directory = settings.control.directory
    if directory is None or not control_path(directory).exists():
        return None
    member = Member(f"{UNIX}{directory}", settings.broker.id)
    config, overrides, page = (get(member, each).answer for each in ("/config", PATH, "/throttle"))
    if config is None or overrides is None or page is None:
        return None
    return RunningState(
        member.url,
        Path(config["quotas"]["state"]),
        tuple(_override(each) for each in overrides["overrides"]),
        msgspec.convert(page.get("conditions", ()), tuple[Condition, ...]),
    )


def _override(page: dict[str, Any]) -> Override:
    changes = [{name: change[name] for name in _CHANGE} for change in page["changes"]]
    return msgspec.convert({name: page[name] for name in _FIELDS} | {"changes": changes}, Override)
