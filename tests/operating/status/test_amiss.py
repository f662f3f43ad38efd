"""What is wrong is what the sidecars say, and nothing else: marked, warned of, and the exit status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operating.fleet.members import Member
from operating.status.rows import Sidecar, is_wrong, rows
from operating.status.words import warnings
from proxy.diagnostics.conditions import Condition, Kind, Severity
from proxy.observing.throttle_page import Page, QuotasState, RoleState

SINCE = datetime(2026, 12, 1, tzinfo=UTC)


def page(broker: int, *conditions: Condition) -> Page:
    roles = {"leader": RoleState(1.0, 0.0, undecoded={"tls": 9}, connections_without_fetches=2)}
    return Page(broker, "strict", enforce=True, quotas=QuotasState("a"), roles=roles, conditions=conditions)


def of(kind: Kind, role: str | None = None, count: int = 0) -> Condition:
    return Condition(kind.label, kind.severity, SINCE, f"it is {kind.label}, {{count}}", kind.remedy, role, count)


def told(*pages: Page) -> tuple[list[bool], list[str]]:
    shown = rows([Sidecar(Member("http://1"), page=each) for each in pages])
    return [row.is_amiss for row in shown.roles], warnings(shown.roles, shown.pages)


@pytest.mark.parametrize("role", [None, "leader"])
@pytest.mark.parametrize("kind", Kind)
def test_each_condition_marks_its_row_and_is_said_below(kind: Kind, role: str | None) -> None:
    found = page(1, of(kind, role, 3))
    remedy = "" if kind.severity is Severity.NOTE else f": {kind.remedy}"
    whose = "broker 1" if role is None else "broker 1, leader"
    assert told(found) == ([True], [f"{whose}: it is {kind.label}, 3{remedy}"])
    assert is_wrong(found) == (kind.severity is not Severity.NOTE)


def test_what_was_counted_once_and_clients_on_a_shared_listener_mark_nothing() -> None:
    """`!` stood there for ever after one frame that was not decoded, and for each client of a listener."""
    assert told(page(1)) == ([False], [])
    assert not is_wrong(page(1))


def test_of_several_sidecars_numbers_are_added_up() -> None:
    pages = [page(n, of(Kind.UNDECODED, "leader", n)) for n in (1, 2)]
    assert told(*pages)[1] == [f"brokers 1, 2, leader: it is undecoded, 3: {Kind.UNDECODED.remedy}"]


def test_an_older_sidecar_is_not_said_to_be_well() -> None:
    old = Page(1, "strict", enforce=True, quotas=QuotasState("a"), roles={"leader": RoleState(1.0, 0.0)})
    assert told(old) == ([True], ["broker 1: an older sidecar, which does not say what is wrong: ask its /readyz"])
    assert is_wrong(old)
