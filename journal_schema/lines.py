"""Every kind of line and its fields.

    common fields, then those of the kind:
      traffic     what one link carried in some seconds, second by second and partition by partition
      quota       a role's quota as it holds from here on
      reload      quotas.toml was read again
      override    a command set or undid an override, or one ended
      connection  a replica fetcher's connection ended
      client      what clients with one quota carried in some seconds
      start, stop, file_opened, file_closed, dropped, clock

Knows nothing of how lines are collected, written or read. Invariant: a name means the same, with the same type, in
every kind that has it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class FieldType(enum.Enum):
    """JSON types, narrowed to what a table can hold."""

    INTEGER = "integer"
    """A signed integer of 64 bits."""
    NUMBER = "number"
    BOOLEAN = "boolean"
    STRING = "string"
    INTEGERS = "integers"
    """A list of integers."""
    STRINGS = "strings"
    """A list of strings."""


class Field(NamedTuple):
    name: str
    type: FieldType
    meaning: str
    """The text for docs/journal.md; with its unit, if the name does not say it."""
    required: bool = True
    """Whether every line of the kind has it, and not as null."""
    since: int = 1
    """The schema version it came with."""


VERSION = 2
"""The version of the schema. Readers set lines of other versions aside. Version 1 had one traffic line for each second
and partition, which took five times the space."""
LINE_SECONDS = 15
"""The most seconds that one traffic line is about, and therefore what is lost when the sidecar is killed."""
SHAPE_SILENT = "#"
"""The character of a shape that stands for a second of which there is nothing to say. The character after it, `$`,
stands for a second with news but no bytes; the characters after that stand for 1, 2, … parts."""
SHAPE_PARTS = 55
"""The second with the most bytes of its line has so many parts, written `[`. None of the characters from `#` to `[` is
one that JSON escapes."""

_INTEGER, _NUMBER, _BOOLEAN, _STRING = FieldType.INTEGER, FieldType.NUMBER, FieldType.BOOLEAN, FieldType.STRING
_INTEGERS, _STRINGS = FieldType.INTEGERS, FieldType.STRINGS


class Kind(enum.StrEnum):
    TRAFFIC = "traffic"
    QUOTA = "quota"
    RELOAD = "reload"
    OVERRIDE = "override"
    CONNECTION = "connection"
    CLIENT = "client"
    START = "start"
    STOP = "stop"
    FILE_OPENED = "file_opened"
    FILE_CLOSED = "file_closed"
    DROPPED = "dropped"
    CLOCK = "clock"


COMMON = (
    Field("v", _INTEGER, "Version of this schema, 2."),
    Field("kind", _STRING, "Which line this is."),
    Field(
        "time",
        _INTEGER,
        "Seconds since 1970 (UTC): the first second that a traffic line is about, or when it happened.",
    ),
    Field("broker", _INTEGER, "Id of the broker beside the sidecar."),
    Field("run", _STRING, "One run of the sidecar; a new one with each start."),
    Field("tick", _INTEGER, "Seconds since the start of the run, by a clock that is never set."),
)
"""The first fields of every line. A clock that is set back gives two seconds the same `time`; `run` and `tick` tell
them apart."""

_ROLE = Field(
    "role", _STRING, "`leader`: sent by this broker to a follower; `follower`: fetched by this broker from a leader."
)
_PEER = Field("peer", _STRING, "The other broker's id; its address while it has not said its id.")
_ENFORCE = Field("enforce", _BOOLEAN, "Whether it is enforced, or only observed.")
_LINES = Field("lines", _INTEGER, "Lines written to this file before this one.")

SECONDS = (
    Field("second_record_bytes", _INTEGERS, "Of each second: record bytes forwarded, what a follower's quota counts."),
    Field(
        "second_wire_bytes", _INTEGERS, "Of each second: bytes of entries with records, what a leader's quota counts."
    ),
    Field("second_fetches", _INTEGERS, "Of each second: entries forwarded, with or without records."),
    Field("second_omitted", _INTEGERS, "Of each second: how often a partition was kept out by the quota."),
)
"""The fields that are lists with one element for each second of the line, each the exact sum over the line's
partitions."""

REPLICAS = (
    Field("topics", _STRINGS, "Of each partition: its topic's name."),
    Field("partitions", _INTEGERS, "Its number in the topic."),
    Field("shapes", _STRINGS, "Its bytes by the second, one character each; docs/journal.md says which."),
    Field("record_bytes", _INTEGERS, "Its record bytes in all these seconds."),
    Field(
        "header_bytes",
        _INTEGERS,
        "What its entries with records had besides them: its wire bytes less its record bytes.",
    ),
    Field("fetches", _INTEGERS, "Responses forwarded that carried an entry for it, with or without records."),
    Field("omitted", _INTEGERS, "Times it was left out, answered without records, or held, because of the quota."),
    Field(
        "fetch_offset_before",
        _INTEGERS,
        "`fetch_offset` as it was before the first of these seconds; at first sight that of its first fetch in them.",
    ),
    Field("fetch_offset", _INTEGERS, "Offset that the replica asked for last."),
    Field(
        "high_watermark_before",
        _INTEGERS,
        "`high_watermark` as it was before the first of these seconds; at first sight likewise.",
    ),
    Field("high_watermark", _INTEGERS, "Leader's high watermark, as answered last; -1 if unknown."),
    Field("log_start_offset", _INTEGERS, "Leader's log start offset, as answered last; -1 if unknown."),
)
"""The fields that are lists with one element for each partition of the line."""

KINDS: dict[Kind, tuple[Field, ...]] = {
    Kind.TRAFFIC: (
        _ROLE,
        _PEER,
        Field("throttled", _BOOLEAN, "Whether the quotas select these partitions on this broker in this role."),
        Field("in_sync", _BOOLEAN, "Whether the replicas had caught up when they asked (KIP-73: never throttled)."),
        *SECONDS,
        *REPLICAS,
    ),
    Kind.QUOTA: (
        _ROLE,
        Field("bytes_per_second", _NUMBER, "The quota; null if unlimited.", required=False),
        Field("policy", _STRING, "`strict` or `kip73`."),
        _ENFORCE,
        Field("selection", _STRING, 'What it selects: `*`, or JSON like `{"orders":"0-3"}`.'),
        Field(
            "bounds",
            _STRING,
            'Rates inside it, in bytes per second, as JSON: `{"peers":{"102":1048576},"racks":{"b":{"bytes_per_second":'
            '4194304,"brokers":[102,103]}},"topics":{"clicks-*":5242880}}`; `brokers`: those known to be in the rack. '
            "Null if there are none.",
            required=False,
        ),
        Field(
            "priorities",
            _STRING,
            "Who goes first, by commas: the entries of `order` in quotas.toml. Null if nobody does, or from a sidecar "
            "that did not say.",
            required=False,
        ),
        Field(
            "reason",
            _STRING,
            "`start`, `change`, `rate` (a rate that sets itself was chosen), `pressed` (the same, less than a second "
            "after the last time, because in-sync followers were too late), `racks` (brokers' racks became known), or "
            "`file` (said again at the head of each file).",
        ),
    ),
    Kind.RELOAD: (
        Field("outcome", _STRING, "`changed`, `unchanged` or `failed`."),
        Field("error", _STRING, "What was wrong with it.", required=False),
        Field("reason", _STRING, "`watch`, `SIGHUP` or `http`.", required=False),
    ),
    Kind.OVERRIDE: (
        Field("override", _STRING, "Id of the override."),
        Field("action", _STRING, "`set`, `undone` or `ended`."),
        Field("label", _STRING, "What it belongs to, such as a move.", required=False),
        Field("by", _STRING, "Who set or undid it; null if it ended by itself.", required=False),
        Field("because", _STRING, "The reason that its author gave.", required=False),
        Field("until", _INTEGER, "Seconds since 1970 (UTC): when it ends; null if it has no end.", required=False),
        Field("changes", _STRING, 'What it changes, as JSON: `[{"place":"broker","key":"…","value":"…"}]`.'),
    ),
    Kind.CONNECTION: (
        _ROLE,
        _PEER,
        Field("cause", _STRING, "Why it ended; docs/logging.md has the list."),
        Field("seconds", _NUMBER, "How long it lasted."),
        Field("replica_fetches", _INTEGER, "Replica Fetch requests on it."),
        Field("held_seconds", _NUMBER, "How long its requests were held in all."),
    ),
    Kind.CLIENT: (
        Field("entity", _STRING, "A client id, a user or a glob of them, as metrics call it; `other`: all the rest."),
        Field("traffic", _STRING, "`producer`: its Produce requests; `consumer`: its Fetch responses."),
        _ENFORCE,
        Field("client_bytes", _INTEGER, "Bytes that passed in up to 15 seconds before."),
        Field(
            "muted_seconds", _NUMBER, "The seconds of throttle time that its connections passed in that time, summed."
        ),
    ),
    Kind.START: (Field("version", _STRING, "The sidecar's version."),),
    Kind.STOP: (),
    Kind.FILE_OPENED: (
        Field("file", _STRING, "Name of the file, once it is closed."),
        Field("cluster", _STRING, "Id of the cluster; null while no broker has told it.", required=False),
        Field("rack", _STRING, "Rack of the broker; null if it is in none, and likewise.", required=False),
    ),
    Kind.FILE_CLOSED: (Field("file", _STRING, "Name of the file."), _LINES),
    Kind.DROPPED: (
        Field(
            "lines",
            _INTEGER,
            "Lines dropped since the last such line: queue full, disk at fault, or too many partitions.",
        ),
    ),
    Kind.CLOCK: (Field("seconds", _NUMBER, "How far the wall clock was set; negative: back."),),
}

TRAFFIC_IDENTITY = ("broker", "run", "tick", "role", "peer", "throttled", "in_sync")
"""The fields that identify a traffic line: two that agree in them are the same line, read twice."""


def all_fields() -> tuple[Field, ...]:
    """Return every field once, the common ones first. All others are optional, since no kind has all of them."""
    found = {field.name: field for field in COMMON}
    for fields in KINDS.values():
        for field in fields:
            found.setdefault(field.name, field._replace(required=False))
    return tuple(found.values())
