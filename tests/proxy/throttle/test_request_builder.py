"""Outside of fetch sessions a request is asked for as one that opens a session is, whatever is left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.fetch.request import parse_fetch_request
from protocol.fetch.walker import RequestEntry
from protocol.session.requests import Choice, PartitionKey, SessionRequest, Upstream
from protocol.session.state import FetchSession
from protocol.work_in_steps import STEP_ITEMS, run_through
from proxy.throttle.decision import Demand
from proxy.throttle.link import Link
from proxy.throttle.pending_fetch import PendingFetch
from proxy.throttle.request_builder import without_session
from tests.protocol.pieces import every_item_a_step
from tests.proxy.conversation import MIB, throttle
from tests.proxy.session_conversation import Ask, session_frame

if TYPE_CHECKING:
    from collections.abc import Collection

KEYS: list[PartitionKey] = [(topic, number) for topic in "tu" for number in range(4)]
LIMIT = 1000
limits = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 2 * LIMIT), max_size=4)


@given(
    listed=st.lists(st.sampled_from(KEYS), min_size=1, unique=True),
    behind=st.sets(st.sampled_from(KEYS)),
    grants=limits,
    probes=limits,
    in_steps=st.booleans(),
)
@example(listed=KEYS, behind=set(), grants={KEYS[0]: LIMIT}, probes={}, in_steps=True)
@example(listed=KEYS, behind=set(), grants={}, probes={KEYS[-1]: LIMIT}, in_steps=True)
@example(listed=KEYS, behind=set(), grants={KEYS[0]: LIMIT - 1}, probes={}, in_steps=False)
def test_it_is_asked_for_as_in_a_session_that_begins(
    listed: list[PartitionKey],
    behind: set[PartitionKey],
    grants: dict[PartitionKey, int],
    probes: dict[PartitionKey, int],
    in_steps: bool,
) -> None:
    frame = session_frame(3, SessionRequest(3, {key: Ask(7, LIMIT) for key in listed}))
    request = parse_fetch_request(frame)
    asked = grants.keys() | probes.keys()
    left_out = (behind & set(listed)) - asked
    found = _asked(frame, (behind if left_out else set(), asked), (grants, probes), in_steps=in_steps)
    kept = {(e.topic, e.partition): e for e in request.entries if (e.topic, e.partition) not in left_out}
    opening = SessionRequest(3, kept)
    session = FetchSession[RequestEntry](opening.version, opening.session_id, opening.session_epoch)
    run_through(session.merge_request(opening))
    expected = run_through(session.forward(opening, Choice(frozenset(), grants, probes)))
    assert isinstance(expected, Upstream)
    if expected.as_it_came and not left_out:
        assert found is None
    else:
        assert found == [(key, limit) for key, _, limit in expected.listed]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_many_are_asked_for_in_the_order_of_a_few(more: int) -> None:
    keys = [("t", number) for number in range(5 * STEP_ITEMS + more)]
    frame = session_frame(3, SessionRequest(3, {key: Ask(7, LIMIT) for key in keys}))
    grants = dict.fromkeys(keys[-3:], 10)
    found = _asked(frame, (set(keys[::2]), grants.keys()), (grants, {}), in_steps=False)
    kept = [(key, LIMIT) for key in keys[1:-3:2]]
    assert found == [*grants.items(), *(item for item in kept if item[0] not in grants)]


def _asked(
    frame: bytes,
    left_out: tuple[Collection[PartitionKey], Collection[PartitionKey]],
    most: tuple[dict[PartitionKey, int], dict[PartitionKey, int]],
    *,
    in_steps: bool,
) -> list[tuple[PartitionKey, int]] | None:
    """Return what is asked for with which limit; None: the request goes on as it came."""
    link = Link(throttle(4 * MIB), "peer")
    demand = Demand(frame, parse_fetch_request(frame), 0.0, len(most))
    pending = PendingFetch(link.throttle, link.claim, link.replicas, {}, 3, 0.0, None)

    def forwarded() -> bytes | None:
        forward = run_through(without_session(demand, left_out, most, pending, 500))
        return None if forward.building is None else run_through(forward.building)

    if in_steps:
        with every_item_a_step():
            sent = forwarded()
    else:
        sent = forwarded()
    return (
        None
        if sent is None
        else [((e.topic, e.partition), e.partition_max_bytes) for e in parse_fetch_request(sent).entries]
    )
