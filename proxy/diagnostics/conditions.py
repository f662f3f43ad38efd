"""The list of all that can be wrong with a running sidecar, and of what is wrong now, since when.

Status and its exit status, /readyz, a metric, the log, `check`, the alerts and docs/runbooks.md render it. Pure: time
is an argument. Invariant: a condition ends at the first look that does not find it; a single event is none.
"""

from __future__ import annotations

import enum
from datetime import datetime  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..logs.log import Log
    from ..roles import Role


class Severity(enum.StrEnum):
    CRITICAL = "critical"
    """A cut in replication, or traffic that passes unthrottled."""
    WARNING = "warning"
    """A thing that is not as it was meant, or will not be after a restart."""
    NOTE = "note"
    """The state that an operator has set: no reason for an alert, or for an exit status."""


class Kind(enum.Enum):
    """A kind of condition: its name, its severity, and its remedy."""

    UPSTREAM_UNREACHABLE = (
        "upstream_unreachable",
        Severity.CRITICAL,
        "is the broker up, and does the `upstream` of proxy.toml lead to it?",
    )
    TLS_HANDSHAKES_FAIL = (
        "tls_handshakes_fail",
        Severity.CRITICAL,
        "compare keys, authorities and names at both ends",
    )
    REDIRECT_REFUSED = (
        "redirect_refused",
        Severity.CRITICAL,
        "see the rules that redirect to egress.listen",
    )
    ACCEPTING_PAUSED = (
        "accepting_paused",
        Severity.CRITICAL,
        "raise `[limits]` or the limit of open files, or find who opens so many connections",
    )
    NO_QUOTAS = (
        "no_quotas",
        Severity.CRITICAL,
        "mend quotas.toml: it is read again at once",
    )
    UNDECODED = (
        "undecoded",
        Severity.CRITICAL,
        "see which frames are not understood: it passes unthrottled",
    )
    BYPASSED = (
        "bypassed",
        Severity.CRITICAL,
        "lead the brokers through the sidecar, and have them connect anew",
    )
    FETCHES_REFUSED = (
        "fetches_refused",
        Severity.WARNING,
        "grant the peer's principal ClusterAction on the cluster, or stop what fetches there",
    )
    OVER_QUOTA = (
        "over_quota",
        Severity.WARNING,
        "compare both ends; if it goes on, report it",
    )
    QUOTAS_FILE_WRONG = (
        "quotas_file_wrong",
        Severity.WARNING,
        "mend quotas.toml (throttle-sidecar check): it is read again at once",
    )
    QUOTAS_FILE_MOUNTED_ALONE = (
        "quotas_file_mounted_alone",
        Severity.WARNING,
        "mount the directory of quotas.toml, not the file (subPath)",
    )
    LAST_GOOD_NOT_KEPT = (
        "last_good_not_kept",
        Severity.WARNING,
        "make `[quotas] state` writable: a start with a wrong quotas.toml would throttle nothing",
    )
    OVERRIDES_NOT_STORED = (
        "overrides_not_stored",
        Severity.WARNING,
        "make room: what was set or undone holds now, and not after a restart",
    )
    OVERRIDES_DAMAGED = (
        "overrides_damaged",
        Severity.WARNING,
        "compare `overrides` with the .damaged file beside the store, and remove that",
    )
    KEYS_NOT_CURRENT = (
        "keys_not_current",
        Severity.WARNING,
        "mend the files of `[tls]`: they are read again at once",
    )
    FEW_OPEN_FILES = (
        "few_open_files",
        Severity.WARNING,
        "raise the limit of open files (LimitNOFILE)",
    )
    JOURNAL_NOT_WRITTEN = (
        "journal_not_written",
        Severity.WARNING,
        "give the journal's disk room, and the sidecar the right to write there",
    )
    HISTORY_NOT_WRITTEN = (
        "history_not_written",
        Severity.WARNING,
        "give the directory of `[quotas] state` room, and the sidecar the right to write there",
    )
    CONTROL_LOST = (
        "control_lost",
        Severity.WARNING,
        "restart the sidecar: commands and the guard on this host cannot reach it",
    )
    QUOTA_WARNING = (
        "quota_warning",
        Severity.WARNING,
        "correct quotas.toml or the override; `throttle-sidecar check` shows both",
    )
    DEADLINE_LATE = (
        "deadline_late",
        Severity.WARNING,
        "raise `max`, or move the deadline",
    )
    OBSERVE_ONLY = (
        "observe_only",
        Severity.NOTE,
        "set mode.enforce true to enforce",
    )
    CATCH_UP_STOPPED = (
        "catch_up_stopped",
        Severity.NOTE,
        "raise the rate to go on",
    )
    KAFKA_THROTTLE_LOWER = (
        "kafka_throttle_lower",
        Severity.NOTE,
        "if nobody needs it any more, remove it with the `kafka-configs` that it says",
    )
    OVERRIDE_FORGOTTEN = (
        "override_forgotten",
        Severity.NOTE,
        "undo it, or move it into quotas.toml",
    )

    def __init__(self, label: str, severity: Severity, remedy: str) -> None:
        self.label = label
        """The name in status, metrics, the log, and as the anchor in docs/runbooks.md."""
        self.severity = severity
        self.remedy = remedy


class Found(NamedTuple):
    """A condition at a look."""

    kind: Kind
    text: str
    """A sentence, with ``{count}`` for `number`, which may be added up over several sidecars."""
    role: Role | None = None
    number: int = 0
    subject: str = ""
    """Tells conditions of one kind and role apart; it stays the same while `text` may change."""


class Condition(msgspec.Struct, frozen=True):
    """A condition as it is shown."""

    name: str
    severity: str
    since: datetime
    text: str
    do: str
    role: str | None = None
    count: int = 0

    @property
    def sentence(self) -> str:
        return self.text.replace("{count}", str(self.count))


class Conditions:
    """The conditions of a process. `record` is called with each that begins (True) or ends (False)."""

    def __init__(self, log: Log, record: Callable[[Condition, bool], None] = lambda *_: None) -> None:
        self._log = log
        self._record = record
        self._now: dict[tuple[Kind, Role | None, str], Condition] = {}

    @property
    def current(self) -> tuple[Condition, ...]:
        """The conditions of the last look, the worst and oldest first."""
        order = list(Severity)
        return tuple(sorted(self._now.values(), key=lambda each: (order.index(Severity(each.severity)), each.since)))

    def look(self, found: Iterable[Found], now: datetime) -> None:
        """Replace the list by the present findings."""
        before, self._now = self._now, {}
        for each in found:
            key = each.kind, each.role, each.subject
            since = before[key].since if key in before else now
            role = None if each.role is None else each.role.value
            self._now[key] = condition = Condition(
                each.kind.label, each.kind.severity.value, since, each.text, each.kind.remedy, role, each.number
            )
            if key not in before:
                self._tell(condition, began=True)
        for key, condition in before.items():
            if key not in self._now:
                self._tell(condition, began=False)

    def _tell(self, condition: Condition, *, began: bool) -> None:
        facts = {"name": condition.name, "severity": condition.severity, "role": condition.role}
        if began:
            self._log.warning("condition_raised", **facts, text=condition.sentence, do=condition.do)
        else:
            self._log.info("condition_cleared", **facts, since=condition.since, text=condition.sentence)
        self._record(condition, began)


class GoingOn:
    """Distinguishes lasting trouble from single events: counters that have grown within the last seconds."""

    def __init__(self) -> None:
        self._seen: dict[object, tuple[float, float]] = {}
        """The last value of each counter, and when it grew last; it may have grown before the first look."""

    def is_growing(self, key: object, value: float, now: float) -> bool:
        """Note a counter's value; return whether it has grown within `GOES_ON_SECONDS`."""
        last, grew_at = self._seen.get(key, (0.0, now - 2 * GOES_ON_SECONDS))
        if value > last:
            grew_at = now
        self._seen[key] = value, grew_at
        return now - grew_at < GOES_ON_SECONDS


GOES_ON_SECONDS = 20.0
"""The time after which a thing that is tried every second or so, as brokers do, counts as over."""
