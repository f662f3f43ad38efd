"""Whatever is dropped and wherever files begin: readers, who order by time, end with the quota that holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal_schema import Kind
from proxy.journal.encoding import Event, event
from proxy.journal.writer import KnownQuotas, PendingQuotas


def quota(role: str, tick: int, rate: float) -> Event:
    return event(
        Kind.QUOTA,
        tick,
        role=role,
        bytes_per_second=rate,
        policy="strict",
        enforce=True,
        selection="*",
        reason="change",
    )


def as_read(lines: list[Event], role: str) -> tuple[object, ...] | None:
    """The last word on a role's quota: the latest, and within a second what happened, after what a file begins with."""
    said = [(line.tick, line.values[-1] != "file", at, line) for at, line in enumerate(lines) if line.values[0] == role]
    return max(said)[-1].values[:-1] if said else None


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["leader", "follower"]), max_size=3),
            st.booleans(),
            st.sampled_from(["written", "refused"]),
        )
    )
)
def test_the_last_word_on_a_quota_is_the_one_that_holds(batches: list[tuple[list[str], bool, str]]) -> None:
    standing, waiting = KnownQuotas(), PendingQuotas()
    written: list[Event] = []
    holds: dict[str, tuple[object, ...]] = {}
    for tick, (roles, opens, fate) in enumerate(batches):
        changes = [quota(role, tick, 10.0 * tick + n) for n, role in enumerate(roles)]
        holds |= {str(line.values[0]): line.values[:-1] for line in changes}
        events = waiting.take_before(changes)
        if fate == "refused":
            waiting.keep(events)
            continue
        head = standing.head(tick + 1, events) if opens else []
        standing.written(events)
        written += [*head, *events]
        assert {role: as_read(written, role) for role in holds} == holds


def test_what_waits_is_the_last_quota_of_each_role_alone() -> None:
    waiting = PendingQuotas()
    refused = [quota("leader", 1, 1.0), event(Kind.STOP, 1), quota("follower", 2, 2.0), quota("leader", 3, 3.0)]
    assert waiting.keep(waiting.take_before(refused)) == 2
    assert waiting.take_before([]) == [refused[3], refused[2]]
    assert waiting.take_before([]) == []
