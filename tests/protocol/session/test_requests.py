"""The values of a fetch session."""

from __future__ import annotations

import pytest

from protocol.session.requests import MAX_EPOCH, Choice, SessionRequest, in_wire_order, next_epoch
from protocol.work_in_steps import run_through
from tests.protocol.session.conversations import Entry, choice, request


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), (MAX_EPOCH - 1, MAX_EPOCH), (MAX_EPOCH, 1)])
def test_epochs(epoch: int, after: int) -> None:
    assert next_epoch(epoch) == after


@pytest.mark.parametrize(("line", "full"), [("(0, 0)", True), ("(7, 0)", True), ("(7, -1)", True), ("(7, 1)", False)])
def test_full_requests(line: str, full: bool) -> None:
    assert request(line).is_full is full


def test_before_v7_every_request_is_full() -> None:
    assert SessionRequest[Entry](6, {}).is_full


def test_names_and_ids_are_ordered_by_topic() -> None:
    assert run_through(in_wire_order([("b", 1), ("a", 2), ("b", 0)])) == [("a", 2), ("b", 0), ("b", 1)]
    assert run_through(in_wire_order([(b"\2", 1), (b"\1", 2)])) == [(b"\1", 2), (b"\2", 1)]


def test_a_grant_counts_more_than_a_probe() -> None:
    assert choice(grants={"A": 40}, probes={"A": 1, "B": 1}).limits() == {("A", 0): 40, ("B", 0): 1}
    assert Choice().limits() == {}
