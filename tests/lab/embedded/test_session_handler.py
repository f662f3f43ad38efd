"""The follower's end of a fetch session does what Kafka's FetchSessionHandlerTest says of it."""

from __future__ import annotations

import pytest

from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.session.requests import PartitionKey, SessionRequest

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def opened(*keys: PartitionKey, session_id: int = 77) -> FetchSessionHandler:
    handler = FetchSessionHandler(11)
    handler.build({key: Ask(0) for key in keys})
    assert handler.handle(SessionResponse(session_id, {key: Read(10) for key in keys}))
    return handler


def test_it_begins_with_everything() -> None:
    assert FetchSessionHandler(11).build({A: Ask(0), B: Ask(5)}) == SessionRequest(11, {A: Ask(0), B: Ask(5)}, 0, 0)


def test_without_a_session_it_goes_on_with_everything() -> None:
    handler = opened(A, session_id=0)
    assert handler.build({A: Ask(1)}) == SessionRequest(11, {A: Ask(1)}, 0, 0)


def test_in_a_session_it_lists_what_is_new_then_what_has_changed_and_forgets_what_is_gone() -> None:
    handler = opened(A, B)
    assert handler.build({B: Ask(3), C: Ask(0)}) == SessionRequest(11, {C: Ask(0), B: Ask(3)}, 77, 1, [A])
    assert list(handler.build({B: Ask(4), C: Ask(0)}).listed) == [B]
    assert handler.build({B: Ask(4), C: Ask(0)}).listed == {}


@pytest.mark.parametrize(("error", "then"), [(70, (0, 0)), (71, (77, 0)), (106, (77, 0))])
def test_errors(error: int, then: tuple[int, int]) -> None:
    handler = opened(A)
    assert not handler.handle(SessionResponse(0, error_code=error))
    assert (handler.session_id, handler.epoch) == then
    assert handler.errors == [error]


def test_epochs_count_and_wrap() -> None:
    handler = opened(A)
    assert handler.handle(SessionResponse(77))
    assert handler.epoch == 2
    handler.epoch = 2**31 - 1
    assert handler.handle(SessionResponse(77))
    assert handler.epoch == 1


@pytest.mark.parametrize("entries", [{A: Read(1)}, {A: Read(1), B: Read(1), C: Read(1)}], ids=["omitted", "extra"])
def test_a_full_response_holds_exactly_what_was_asked_for(entries: dict[PartitionKey, Read]) -> None:
    handler = FetchSessionHandler(11)
    handler.build({A: Ask(0), B: Ask(0)})
    assert not handler.handle(SessionResponse(77, entries))
    assert (handler.session_id, handler.epoch) == (0, 0)
    assert "an invalid full fetch response" in handler.complaints[0]


def test_an_incremental_response_may_leave_out_anything_but_not_add() -> None:
    handler = opened(A, B)
    assert handler.handle(SessionResponse(77, {B: Read(11)}))
    assert not handler.handle(SessionResponse(77, {C: Read(11)}))
    assert (handler.session_id, handler.epoch) == (77, 0)
    assert "an invalid incremental fetch response" in handler.complaints[0]


def test_a_session_closed_by_its_leader_is_over_but_the_response_counts() -> None:
    handler = opened(A)
    assert handler.handle(SessionResponse(0, {A: Read(11)}))
    assert (handler.session_id, handler.epoch) == (0, 0)


def test_after_a_failure_it_closes_the_session_and_begins_again() -> None:
    handler = opened(A)
    handler.failed()
    assert handler.build({A: Ask(2)}) == SessionRequest(11, {A: Ask(2)}, 77, 0)
