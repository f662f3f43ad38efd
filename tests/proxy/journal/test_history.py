"""Values of the sidecar to events with the fields of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal_schema import Kind
from proxy.config.reload import ReloadOutcome, ReloadResult
from proxy.config.settings import JournalSettings
from proxy.journal.history import History
from proxy.journal.long_text import Selection
from proxy.journal.recorder import Journal
from proxy.quotas import Quotas, RoleQuota
from proxy.roles import Role
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from proxy.journal.encoding import EventValue


def plain(value: EventValue) -> EventValue:
    return str(value) if isinstance(value, Selection) else value


async def test_events_have_what_the_schema_asks_for(tmp_path: Path) -> None:
    settings = JournalSettings(tmp_path, 600, 1 << 20, 1 << 30)
    journal = Journal(settings, broker=101, log=RecordedLog())
    history = History(journal, "strict")
    history.started(lambda: "1.0")
    for role in Role:
        history.quota(role, Quotas(leader=RoleQuota.of_every_topic(5.0)).of(role), "start", enforce=True)
    history.reloaded(ReloadOutcome(ReloadResult.FAILED, error="bad", reason="put", peer="10.0.0.9"))
    history.stopped()
    told = [(event.kind, tuple(map(plain, event.values))) for event in journal._take_events()]
    assert told == [
        (Kind.START, ("1.0",)),
        (Kind.QUOTA, ("leader", 5.0, "strict", True, "*", "start")),
        (Kind.QUOTA, ("follower", None, "strict", True, "{}", "start")),
        (Kind.RELOAD, ("failed", "bad", "put", "10.0.0.9")),
        (Kind.STOP, ()),
    ]


def test_without_a_journal_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is made, and nothing is written: not even a directory."""
    monkeypatch.chdir(tmp_path)
    made = list[object]()
    monkeypatch.setattr(Journal, "event", lambda *_, **values: made.append(values))
    history = History(None, "strict")
    history.started(lambda: "1.0")
    history.quota(Role.LEADER, RoleQuota(), "start", enforce=True)
    history.reloaded(ReloadOutcome(ReloadResult.UNCHANGED))
    history.stopped()
    assert (made, list(tmp_path.iterdir())) == ([], [])
