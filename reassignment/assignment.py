"""Assignments, the replicas that partitions have or shall have: kafka-reassign-partitions' JSON as values.

Reads what ``--reassignment-json-file`` takes, and also the whole output of ``--generate`` or ``--execute``, in which
the current assignment and the proposed one follow each other under a heading, even if a formatter has put it on several
lines. Knows no cluster and no file.
Invariant: what Kafka's own tool refuses (ReassignPartitionsCommand.parseExecuteAssignmentArgs) is refused here, with
the place.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_INT32 = 2**31 - 1
_EXPECTED = 'expected {"version":1,"partitions":[...]} with at least one partition'
_ANY_LOG_DIR = "any"


class ReassignmentError(ValueError):
    """A reassignment that cannot be read or does not fit the cluster; every problem, ready to print."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Assignment = Mapping[TopicPartition, tuple[int, ...]]
"""Replicas by partition, the preferred leader first."""


class Heading(Enum):
    """The heading that Kafka's tool prints above each of its two assignments."""

    CURRENT = "Current partition replica assignment"
    PROPOSED = "Proposed partition reassignment configuration"


class Document(NamedTuple):
    """One JSON document.

    directories: by broker and partition, the log directory that the replica shall be in, where one is named. A replica
        that stays on its broker is copied from disk to disk and never uses the network.
    """

    assignment: Assignment
    directories: Mapping[tuple[int, TopicPartition], str] = {}


def text_of(content: bytes, source: str) -> str:
    """Decode a file: UTF-8, or UTF-16 with a byte order mark, which PowerShell's ``>`` writes.

    Raises ReassignmentError, led by `source`.
    """
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReassignmentError(f"{source}: cannot be read: {error}") from error


def read_assignment(text: str, source: str, *, wanted: Heading = Heading.PROPOSED) -> Document:
    """Return the replicas that one document gives.

    Args:
        text: plain JSON, or the output of kafka-reassign-partitions.
        source: leads every message, such as the file's name.
        wanted: which of the tool's assignments to read; plain JSON may be either.

    Raises:
        ReassignmentError: with every problem found.
    """
    try:
        parsed = _parsed(text, wanted)
    except json.JSONDecodeError as error:
        raise ReassignmentError(f"{source}: line {error.lineno}: not JSON: {error.msg}") from error
    except ValueError as error:
        raise ReassignmentError(f"{source}: expected numbers from 0 to {_MAX_INT32}, found one far beyond") from error
    except RecursionError as error:
        raise ReassignmentError(f"{source}: nested too deeply") from error
    if parsed is None:
        raise ReassignmentError(f'{source}: no JSON below "{wanted.value}"')
    return _Reader(source).read(parsed)


def has_heading(text: str, wanted: Heading) -> bool:
    """True if this is the tool's output with such an assignment in it."""
    return any(line.strip() == wanted.value for line in text.splitlines())


def _parsed(text: str, wanted: Heading) -> Any:
    """Return the JSON; None if it is the tool's output, and has none below that heading.

    Raises what the json module does, with lines of the whole text.
    """
    headings = {heading.value for heading in Heading}
    place, start, end, is_output = 0, -1, len(text), False
    for line in text.splitlines(keepends=True):
        if line.strip() in headings:
            is_output = True
            if start >= 0:
                end = place
                break
            start = place + len(line) if line.strip() == wanted.value else -1
        place += len(line)
    if not is_output:
        return json.loads(text)
    brace = text.find("{", start, end) if start >= 0 else -1
    # What follows the JSON is the tool's advice, or the operator's next prompt.
    return None if brace < 0 else json.JSONDecoder().raw_decode(text[:end], brace)[0]


class _Reader:
    """Reads the rows of a document, and collects every problem instead of stopping at the first."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[str] = []

    def read(self, parsed: Any) -> Document:
        rows = parsed.get("partitions") if isinstance(parsed, dict) else None
        if not isinstance(rows, list) or not rows:
            raise ReassignmentError(f"{self._source}: {_EXPECTED}")
        if parsed.get("version", 1) != 1:
            self._refuse("version", f"expected 1, found {_shown(parsed['version'])}")
        assignment: dict[TopicPartition, tuple[int, ...]] = {}
        directories: dict[tuple[int, TopicPartition], str] = {}
        for position, row in enumerate(rows):
            place = f"partitions[{position}]"
            found = self._row(row, place)
            if found is None:
                continue
            if found[0] in assignment:
                self._refuse(place, f"{found[0]} is listed twice")
            assignment[found[0]] = found[1]
            for broker, directory in zip(found[1], self._directories(row, place), strict=False):
                if directory != _ANY_LOG_DIR:
                    directories[broker, found[0]] = directory
        if self._problems:
            raise ReassignmentError(self._problems)
        return Document(assignment, directories)

    def _refuse(self, place: str, reason: str) -> None:
        self._problems.append(f"{self._source}: {place}: {reason}")

    def _row(self, row: Any, place: str) -> tuple[TopicPartition, tuple[int, ...]] | None:
        if not isinstance(row, dict):
            self._refuse(place, f"expected an object, found {_shown(row)}")
            return None
        topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
        problems = []
        if not _is_name(topic):
            problems.append(f"topic: expected a name, found {_shown(topic)}")
        if not _is_id(partition):
            problems.append(f"partition: expected a number >= 0, found {_shown(partition)}")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
            problems.append(f"replicas: expected broker ids, found {_shown(replicas)}")
        elif len(set(replicas)) < len(replicas):
            problems.append(f"replicas: names a broker twice: {_shown(replicas)}")
        for problem in problems:
            self._problems.append(f"{self._source}: {place}.{problem}")
        return None if problems else (TopicPartition(row["topic"], row["partition"]), tuple(row["replicas"]))

    def _directories(self, row: dict[str, Any], place: str) -> list[str]:
        """Return one directory for each replica; nothing where none is named, or what is there is wrong."""
        directories = row.get("log_dirs")
        if directories is None:
            return []
        fits = isinstance(directories, list) and len(directories) == len(row["replicas"])
        if not fits or not all(map(_is_name, directories)):
            self._refuse(f"{place}.log_dirs", f"expected one for each of {_shown(row['replicas'])}")
            return []
        return list(directories)


def _is_name(value: Any) -> bool:
    """True if this is a text that files and brokers can hold: JSON can also name half of a character."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= each <= "\udfff" for each in value)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT32


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
