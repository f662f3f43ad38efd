"""``plan --write`` and ``--per-broker``: the throttle of a move in one quotas file, or in one for each broker.

Blocking. What a throttle does to one file is `moves.settling`. Invariant: all files are written or none, as far as the
disk allows. If one cannot be written, those before it are put back, unless somebody else has changed them meanwhile;
one that could not be put back is named.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.files.reading import is_there, read_bytes
from proxy.files.replacement import create_file, edit_file, remove_file
from proxy.quotas.whole_file import parse_to_write
from reassignment import quotas_toml

from ..fleet.stores import FileStore
from ..moves.in_force import WrittenFile
from ..moves.settling import settled
from .fleet_plan import Written, until_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reassignment import Throttle

    Parts = Mapping[Path, Throttle]


class _Done(NamedTuple):
    """`before`: None if there was no such file."""

    path: Path
    before: bytes | None
    after: bytes
    lines: list[str]


class _Writing(NamedTuple):
    """What is the same for every file."""

    comment: str
    now: datetime
    until: datetime | None

    def check(self, path: Path, part: Throttle) -> None:
        """Raise ConfigurationError for what is known to be wrong before anything is written."""
        if is_there(path):
            settled(read_bytes(path), part, self.now, until=self.until, source=str(path))
            FileStore(path).check_writable()

    def write(self, path: Path, part: Throttle) -> _Done:
        """Make a new file, or change one that exists."""
        source = str(path)
        if not is_there(path):
            content = quotas_toml(part, comment=self.comment, until=self.until).encode()
            parse_to_write(content, source=source)
            if create_file(path, content):
                return _Done(path, None, content, [f"{path}: written"])

        def change(before: bytes) -> tuple[bytes, tuple[bytes, list[str]]]:
            after, lines = settled(before, part, self.now, until=self.until, source=source)
            return after, (before, lines)

        after, (before, lines) = edit_file(path, change)
        return _Done(path, before, after, lines)


def write_files(
    found: Throttle, reassignment: Path, write: Path | None, per_broker: Path | None, lasting: float | None
) -> Written:
    """Nothing if nothing is to be written. Raises ConfigurationError: the files are as they were, or it names them."""
    now = datetime.now(UTC).replace(microsecond=0)
    until = until_of(lasting, now)
    if not found.rates:
        return Written([], {})
    if write is not None:
        places, parts = dict.fromkeys(found.brokers(), write), {write: found}
    elif per_broker is not None:
        _make_directory(per_broker)
        places = {broker: per_broker / f"quotas-{broker}.toml" for broker in found.brokers()}
        parts = {path: found.of_broker(broker) for broker, path in places.items()}
    else:
        return Written([], {})
    done = _all_or_none(parts, _Writing(f"Written by throttle-sidecar plan for {reassignment.name}.", now, until))
    files = {each.path: WrittenFile.of(str(each.path), each.before, each.after) for each in done}
    return Written(
        [line for each in done for line in each.lines], {broker: files[path] for broker, path in places.items()}
    )


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path}: expected a directory: {error.strerror or error}") from error


def _all_or_none(parts: Parts, writing: _Writing) -> list[_Done]:
    problems: list[str] = []
    for path, part in parts.items():
        try:
            writing.check(path, part)
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError([*problems, *_untouched(parts, [])])
    done: list[_Done] = []
    try:
        for path, part in parts.items():
            done.append(writing.write(path, part))
    except ConfigurationError as error:
        left = _put_back(done)
        raise ConfigurationError([*error.problems, *(left or _untouched(parts, done))]) from error
    except BaseException:
        _put_back(done)
        raise
    return done


def _untouched(parts: Parts, done: Sequence[_Done]) -> list[str]:
    """What is told of the other files, if there are others."""
    if len(parts) == 1:
        return []
    return [
        f"{len(done)} that had been written are put back"
        if done
        else f"nothing is written, in none of {len(parts)} files"
    ]


def _put_back(done: Sequence[_Done]) -> list[str]:
    """Return what could not be put back, and why."""
    left: list[str] = []
    for each in reversed(done):
        try:
            if each.before is None:
                remove_file(each.path, each.after)
            else:
                FileStore(each.path).replace(each.after, each.before)
        except ConfigurationError as error:
            left += [f"could not be put back, the change stays there: {problem}" for problem in error.problems]
    return left
