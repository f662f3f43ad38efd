"""fleet.toml: which sidecars there are, where they answer, and the token that they want for changes.

    token_file = "token"
    [[sidecars]]
    broker = 101
    url = "http://kafka-101:9404"

Invariant: a `Fleet` that exists names every broker and URL once; every problem of a file is told at once, with its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the types of a table's fields are looked up when a file is read
from typing import TYPE_CHECKING, Annotated, ClassVar
from urllib.parse import urlsplit

from proxy.config.settings_file import read_document
from proxy.config.tables import BrokerId, Kind, Problems, TableReader
from proxy.errors import InvalidValueError
from proxy.logs.terminal_text import names_user, without_user
from proxy.quotas.units import shown

from ..http_client import UNIX

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SIDECARS = 1000
_NOT_FILES = "commands change sidecars, not their files: take it out (docs/fleet.md)"
"""Advice about keys that said where each sidecar's quotas were."""


def _parse_url(value: object) -> str:
    if not isinstance(value, str) or not _is_url(value):
        raise InvalidValueError(f"expected a URL like http://kafka-101:9404, found {_found(value)}")
    return value.rstrip("/")


def _found(url: object) -> str:
    """Show the URL without a password that may be in it. No sidecar takes a password; its token is read from
    `token_file`."""
    if not isinstance(url, str) or not names_user(url):
        return shown(url)
    return f"a user in {shown(without_user(url))} (a token's file is token_file)"


def _is_url(url: str) -> bool:
    if url.startswith(f"{UNIX}/"):
        return True
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not names_user(url)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class SidecarTable:
    """The table `[[sidecars]]`."""

    REMOVED: ClassVar[dict[str, str]] = dict.fromkeys(("quotas", "configmap", "key"), _NOT_FILES)
    broker: BrokerId
    url: Annotated[str, Kind(_parse_url)]
    token_file: Path | None


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The whole file."""

    REMOVED: ClassVar[dict[str, str]] = {"kubernetes": _NOT_FILES}
    token_file: Path | None
    """Of every sidecar that has none of its own."""
    sidecars: tuple[SidecarTable, ...] = ()

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return what does not fit, by key."""
        if not self.sidecars:
            yield "sidecars", "expected at least one [[sidecars]], found none"
        elif len(self.sidecars) > MOST_SIDECARS:
            yield "sidecars", f"expected at most {MOST_SIDECARS} sidecars, found {len(self.sidecars)}"
        for key in ("broker", "url"):
            firsts: dict[object, int] = {}
            for position, sidecar in enumerate(self.sidecars):
                first = firsts.setdefault(getattr(sidecar, key), position)
                if first != position:
                    yield f"sidecars[{position}].{key}", f"{getattr(sidecar, key)} is sidecars[{first}]'s already"


@dataclass(frozen=True, slots=True)
class Member:
    """One sidecar of a fleet."""

    broker: int
    url: str
    token_file: Path | None = None
    """The file with the token that the sidecar wants for changes; None: none is sent."""


@dataclass(frozen=True, slots=True)
class Fleet:
    path: Path
    members: tuple[Member, ...]

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(member.broker for member in self.members)


def load_fleet(path: Path) -> Fleet:
    """Read fleet.toml; paths in it are relative to it. Blocking. Raises ConfigurationError with every problem."""
    document, text = read_document(path)
    problems = Problems(str(path), text=text)
    file = TableReader(path.parent, problems).table(FleetFile, "", document)
    problems.raise_if_any()
    found = (Member(each.broker, each.url, each.token_file or file.token_file) for each in file.sidecars)
    return Fleet(path, tuple(found))
