"""Which replicas partitions have, or shall have: the JSON of kafka-reassign-partitions as values.

Reads what ``--reassignment-json-file`` takes, and also the whole output of ``--generate`` or ``--execute``, in which
the current assignment and the proposed one follow each other under a heading. Knows no cluster and no file.
Invariant: what Kafka's own tool refuses (ReassignPartitionsCommand.parseExecuteAssignmentArgs) is refused here, with
the place.
"""

from __future__ import annotations

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
    """What Kafka's tool prints above each of its two assignments."""

    CURRENT = "Current partition replica assignment"
    PROPOSED = "Proposed partition reassignment configuration"


class Document(NamedTuple):
    """One JSON document.

    log_dirs: partitions for which it also names directories. Those are moves between the disks of one broker; they
        never use the network.
    """

    assignment: Assignment
    log_dirs: tuple[TopicPartition, ...] = ()


def read_assignment(text: str, source: str, *, wanted: Heading = Heading.PROPOSED) -> Document:
    """The replicas that one document gives.

    Args:
        text: plain JSON, or the output of kafka-reassign-partitions.
        source: leads every message, such as the file's name.
        wanted: which of the tool's assignments to read; plain JSON may be either.

    Raises:
        ReassignmentError: with every problem found.
    """
    document, line = _document(text, wanted)
    if document is None:
        raise ReassignmentError(f'{source}: no JSON below "{wanted.value}"')
    try:
        parsed = json.loads(document)
    except json.JSONDecodeError as error:
        raise ReassignmentError(f"{source}: line {line + error.lineno - 1}: not JSON: {error.msg}") from error
    except ValueError as error:
        raise ReassignmentError(f"{source}: expected numbers from 0 to {_MAX_INT32}, found one far beyond") from error
    except RecursionError as error:
        raise ReassignmentError(f"{source}: nested too deeply") from error
    return _Reader(source).read(parsed)


def has_heading(text: str, wanted: Heading) -> bool:
    """Whether this is the tool's output with such an assignment in it."""
    return any(line.strip() == wanted.value for line in text.splitlines())


def _document(text: str, wanted: Heading) -> tuple[str | None, int]:
    """The JSON, and the number of its first line."""
    headings = {heading.value for heading in Heading}
    lines = text.splitlines()
    if not any(line.strip() in headings for line in lines):
        return text, 1
    below = False
    for number, line in enumerate(lines, 1):
        if line.strip() in headings:
            below = line.strip() == wanted.value
        elif below and line.lstrip().startswith("{"):
            return line, number
    return None, 0


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
        log_dirs = []
        for position, row in enumerate(rows):
            place = f"partitions[{position}]"
            found = self._row(row, place)
            if found is None:
                continue
            if found[0] in assignment:
                self._refuse(place, f"{found[0]} is listed twice")
            assignment[found[0]] = found[1]
            if self._names_directories(row, place):
                log_dirs.append(found[0])
        if self._problems:
            raise ReassignmentError(self._problems)
        return Document(assignment, tuple(log_dirs))

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

    def _names_directories(self, row: dict[str, Any], place: str) -> bool:
        directories = row.get("log_dirs")
        if directories is None:
            return False
        if not isinstance(directories, list) or len(directories) != len(row["replicas"]):
            self._refuse(f"{place}.log_dirs", f"expected one for each of {_shown(row['replicas'])}")
            return False
        return any(directory != _ANY_LOG_DIR for directory in directories)


def _is_name(value: Any) -> bool:
    """Half of a character, which JSON can name, can stand in no file and be told to no broker."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= each <= "\udfff" for each in value)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT32


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
