"""Every kind of line and its fields.

    common fields, then those of the kind:
      traffic     what one second brought of one partition over one link
      quota       a role's quota as it holds from here on
      reload      quotas.toml was read again
      connection  a replica fetcher's connection ended
      start, stop, file_opened, file_closed, dropped, clock

Knows nothing of how lines are collected, written or read. Invariant: a name means the same, with the same type, in
every kind that has it.
"""

from __future__ import annotations

import enum

from .fields import Field, FieldType

VERSION = 1
"""Of the schema. Readers take every version up to theirs and set newer lines aside."""

_INTEGER, _NUMBER, _BOOLEAN, _STRING = FieldType.INTEGER, FieldType.NUMBER, FieldType.BOOLEAN, FieldType.STRING


class Kind(enum.StrEnum):
    TRAFFIC = "traffic"
    QUOTA = "quota"
    RELOAD = "reload"
    CONNECTION = "connection"
    START = "start"
    STOP = "stop"
    FILE_OPENED = "file_opened"
    FILE_CLOSED = "file_closed"
    DROPPED = "dropped"
    CLOCK = "clock"


EVENT_KINDS = tuple(kind for kind in Kind if kind is not Kind.TRAFFIC)

COMMON = (
    Field("v", _INTEGER, "Version of this schema, 1."),
    Field("kind", _STRING, "Which line this is."),
    Field("time", _INTEGER, "Seconds since 1970 (UTC): the second that a traffic line is about, or when it happened."),
    Field("broker", _INTEGER, "Id of the broker beside the sidecar."),
    Field("run", _STRING, "One run of the sidecar; a new one with each start."),
    Field("tick", _INTEGER, "Seconds since the start of the run, by a clock that is never set."),
)
"""First in every line. `run` and `tick` tell seconds apart that a clock set back calls by the same `time`."""

_ROLE = Field(
    "role", _STRING, "`leader`: sent by this broker to a follower; `follower`: fetched by this broker from a leader."
)
_PEER = Field("peer", _STRING, "The other broker's id; its address while it has not said its id.")
_LINES = Field("lines", _INTEGER, "Lines written to this file before this one.")

KINDS: dict[Kind, tuple[Field, ...]] = {
    Kind.TRAFFIC: (
        _ROLE,
        _PEER,
        Field("topic", _STRING, "Topic name."),
        Field("partition", _INTEGER, "Partition of the topic."),
        Field("throttled", _BOOLEAN, "Whether the quotas select this partition on this broker in this role."),
        Field("in_sync", _BOOLEAN, "Whether the replica had caught up when it asked (KIP-73: never throttled)."),
        Field("record_bytes", _INTEGER, "Record bytes forwarded: what the follower role's quota counts."),
        Field("wire_bytes", _INTEGER, "Bytes of its entries with records: what the leader role's quota counts."),
        Field("fetches", _INTEGER, "Responses forwarded that carried an entry for it, with or without records."),
        Field("omitted", _INTEGER, "Times it was left out, answered without records, or held, because of the quota."),
        Field("fetch_offset", _INTEGER, "Offset that the replica asked for last."),
        Field("high_watermark", _INTEGER, "Leader's high watermark, as answered last; -1 if unknown."),
        Field("log_start_offset", _INTEGER, "Leader's log start offset, as answered last; -1 if unknown."),
    ),
    Kind.QUOTA: (
        _ROLE,
        Field("bytes_per_second", _NUMBER, "The quota; null if unlimited.", required=False),
        Field("policy", _STRING, "`strict` or `kip73`."),
        Field("enforce", _BOOLEAN, "Whether it is enforced, or only observed."),
        Field("selection", _STRING, 'What it selects: `*`, or JSON like `{"orders":"0-3"}`.'),
        Field("reason", _STRING, "`start`, `change`, or `file` (said again at the head of each file)."),
    ),
    Kind.RELOAD: (
        Field("outcome", _STRING, "`changed`, `unchanged` or `failed`."),
        Field("error", _STRING, "What was wrong with it.", required=False),
    ),
    Kind.CONNECTION: (
        _ROLE,
        _PEER,
        Field("cause", _STRING, "Why it ended; docs/logging.md has the list."),
        Field("seconds", _NUMBER, "How long it lasted."),
        Field("replica_fetches", _INTEGER, "Replica Fetch requests on it."),
        Field("held_seconds", _NUMBER, "How long its requests were held in all."),
    ),
    Kind.START: (Field("version", _STRING, "The sidecar's version."),),
    Kind.STOP: (),
    Kind.FILE_OPENED: (Field("file", _STRING, "Name of the file, once it is closed."),),
    Kind.FILE_CLOSED: (Field("file", _STRING, "Name of the file."), _LINES),
    Kind.DROPPED: (Field("lines", _INTEGER, "Lines dropped since the last such line: the queue was full."),),
    Kind.CLOCK: (Field("seconds", _NUMBER, "How far the wall clock was set; negative: back."),),
}

TRAFFIC_IDENTITY = (
    "broker",
    "run",
    "tick",
    "role",
    "peer",
    "topic",
    "partition",
    "throttled",
    "in_sync",
)
"""Two traffic lines that agree in these are one line read twice."""


def all_fields() -> tuple[Field, ...]:
    """Every field once, common ones first; one not common is optional, since not every kind has it."""
    found = {field.name: field for field in COMMON}
    for fields in KINDS.values():
        for field in fields:
            found.setdefault(field.name, field._replace(required=False))
    return tuple(found.values())
