"""Asks the sidecar on this host, those named by URL, or the members of a fleet, all at once; and reads fleet.toml:

    token_file = "token"
    [[sidecars]]
    broker = 101
    url = "http://kafka-101:9404"

Blocking. Invariants: a member that does not answer costs its own time-out, and is a result that says so; a `Fleet` that
exists names every broker and URL once; every problem of the file is reported at once, with its key.
"""

from __future__ import annotations

import getpass
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from proxy.config.settings_file import read_document
from proxy.config.tables import BrokerId, Kind, Problems, TableReader
from proxy.control.directory import DEFAULT_BASE, control_path
from proxy.errors import ConfigurationError, InvalidValueError, UnreachableError
from proxy.files.reading import is_there, read_bytes
from proxy.logs.terminal_text import names_user, without_user
from proxy.quotas.units import shown

from ..asking import TOKEN_FILE, RefusedError, send, token_in
from ..configuration import DEFAULT_CONFIG, PACKAGED, control_url, load_configuration
from ..http_client import UNIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from proxy.config.settings import Settings


MAX_AT_ONCE = 64
TIMEOUT_SECONDS = 1.5
"""The time for an answer: a command at a fleet with dead members is over within two seconds."""
_T = TypeVar("_T")
_Answer = TypeVar("_Answer")
MAX_SIDECARS = 1000


class Member(NamedTuple):
    """A sidecar to ask."""

    url: str
    broker: int | None = None
    """The broker's id; None: its answer tells."""
    headers: Mapping[str, str] = {}

    def __str__(self) -> str:
        return self.url if self.broker is None else f"broker {self.broker}"


class Reply(NamedTuple):
    """The answer of a member."""

    member: Member
    answer: Mapping[str, Any] | None = None
    error: str | None = None
    """The reason why there is no answer, or why the sidecar refused; with an answer: it is another broker's."""
    refused: bool = False
    """True if the sidecar answered, and changed nothing."""

    @property
    def broker(self) -> int | None:
        if self.member.broker is not None or self.answer is None:
            return self.member.broker
        found = self.answer.get("broker")
        return found if isinstance(found, int) else None


def members(
    urls: Sequence[str], fleet: Path | None, *, at: Sequence[int] = (), without: Sequence[int] = ()
) -> list[Member]:
    """Return whom to ask: `urls`, or the fleet's members, or the sidecar on this host. Raises ConfigurationError."""
    if fleet is None:
        if at or without:
            raise ConfigurationError("--at and --except choose among the members of a --fleet")
        return [Member(url) for url in urls] or [Member(local_url())]
    if urls:
        raise ConfigurationError(f"expected --url or --fleet, not both: found {urls[0]} and {fleet}")
    found = load_fleet(fleet)
    unknown = sorted({*at, *without} - {*found.brokers})
    if unknown:
        raise ConfigurationError(f"{fleet}: has no broker {', '.join(map(str, unknown))}")
    tokens = {path: _bearer(path) for path in {each.token_file for each in found.members} if path is not None}
    chosen = [each for each in found.members if (not at or each.broker in at) and each.broker not in without]
    if not chosen:
        raise ConfigurationError(f"{fleet}: --at and --except leave no member")
    return [
        Member(each.url, each.broker, {} if each.token_file is None else tokens[each.token_file]) for each in chosen
    ]


def author() -> str:
    """Return who runs this command, for the override's record."""
    return f"{os.environ.get('SUDO_USER') or _user()}@{socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in its passwd
        return f"uid {os.getuid()}"


def _bearer(path: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_in(read_bytes(path), whose=str(path))}"}


def local_settings() -> Settings | None:
    """Return the configuration of this host's sidecar: proxy.toml of this folder, or the packaged one; None if there is
    neither. Raises ConfigurationError if it is wrong."""
    path = next((each for each in (DEFAULT_CONFIG, PACKAGED) if is_there(each)), None)
    return None if path is None else load_configuration(path)


def local_url() -> str:
    """Return the URL of control.sock of the sidecar on this host. Raises ConfigurationError if it is not clear."""
    settings = local_settings()
    if settings is not None:
        return control_url(settings)
    found = private_urls()
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigurationError(f"several sidecars run on this host: name one with --url, of {', '.join(found)}")
    raise ConfigurationError(
        f"no sidecar was found on this host: expected {DEFAULT_CONFIG} in this folder, {PACKAGED}, or a control.sock "
        f"below {DEFAULT_BASE}; --url names a sidecar elsewhere, --fleet several"
    )


def private_urls() -> list[str]:
    """Return the URLs of control.sock of the sidecars on this host, as far as this user may see them."""
    return [f"{UNIX}{each.parent}" for each in sorted(DEFAULT_BASE.glob(f"*/{control_path(Path()).name}"))]


def at_all(found: Sequence[_T], ask: Callable[[_T], _Answer]) -> list[_Answer]:
    """Ask all of them at once; return the replies in the same order."""
    if not found:
        return []
    with ThreadPoolExecutor(min(len(found), MAX_AT_ONCE)) as threads:
        return list(threads.map(ask, found))


def post(member: Member, page: str, body: Mapping[str, Any]) -> Reply:
    """Send JSON to a member."""
    return _answered(member, page, "POST", msgspec.json.encode(body))


def get(member: Member, page: str) -> Reply:
    """Ask a member for a page of JSON."""
    return _answered(member, page, "GET", None)


def _answered(member: Member, page: str, method: str, body: bytes | None) -> Reply:
    try:
        content, _ = send(
            member.url, page, method=method, body=body, headers=member.headers, timeout_seconds=TIMEOUT_SECONDS
        )
        answer = msgspec.json.decode(content)
    except RefusedError as error:
        return Reply(member, error=f"{_problems(str(error))}{_token_advice(error)}", refused=True)
    except (UnreachableError, ConfigurationError) as error:
        return Reply(member, error=str(error))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return Reply(member, error=f"{member.url}{page}: the answer is not a sidecar's: {error}")
    if not isinstance(answer, dict):
        return Reply(member, error=f"{member.url}{page}: the answer is not a sidecar's")
    if member.broker is not None and answer.get("broker") != member.broker:
        said = f"{member.url} is the sidecar of broker {answer.get('broker')}, not of {member.broker}"
        changed = ", and has made the change; correct fleet.toml" if method == "POST" else ""
        return Reply(member, answer, error=f"{said}{changed}")
    return Reply(member, answer)


def _token_advice(error: RefusedError) -> str:
    return (
        f" (name it: {TOKEN_FILE}=FILE, or token_file in fleet.toml)" if error.status == HTTPStatus.UNAUTHORIZED else ""
    )


def _problems(error: str) -> str:
    """Return the problems that a refusal's JSON lists, else the refusal as it came."""
    before, brace, rest = error.partition("{")
    try:
        found = msgspec.json.decode((brace + rest).encode())
    except (msgspec.MsgspecError, RecursionError):
        return error
    told = found.get("problems") or [found.get("error")]
    return "; ".join(map(str, told)) if all(told) else f"{before}{brace}{rest}"


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

    broker: BrokerId
    url: Annotated[str, Kind(_parse_url)]
    token_file: Path | None


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The whole file."""

    token_file: Path | None
    """The token file of every sidecar that has none of its own."""
    sidecars: tuple[SidecarTable, ...] = ()

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems of a member, by key."""
        if not self.sidecars:
            yield "sidecars", "expected at least one [[sidecars]], found none"
        elif len(self.sidecars) > MAX_SIDECARS:
            yield "sidecars", f"expected at most {MAX_SIDECARS} sidecars, found {len(self.sidecars)}"
        for key in ("broker", "url"):
            firsts: dict[object, int] = {}
            for position, sidecar in enumerate(self.sidecars):
                first = firsts.setdefault(getattr(sidecar, key), position)
                if first != position:
                    yield f"sidecars[{position}].{key}", f"{getattr(sidecar, key)} is sidecars[{first}]'s already"


@dataclass(frozen=True, slots=True)
class Fleet:
    path: Path
    members: tuple[SidecarTable, ...]
    """The sidecars; `token_file` has the token that one wants for changes, None: none is sent."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(member.broker for member in self.members)


def load_fleet(path: Path) -> Fleet:
    """Read fleet.toml; paths in it are relative to it. Blocking. Raises ConfigurationError with every problem."""
    document, text = read_document(path)
    problems = Problems(str(path), text=text)
    file = TableReader(path.parent, problems).table(FleetFile, "", document)
    problems.raise_if_any()
    return Fleet(path, tuple(replace(each, token_file=each.token_file or file.token_file) for each in file.sidecars))
