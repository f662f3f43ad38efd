"""Epochs of a fetch session where requests are answered here: a model broker never sees a wrong one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.session.requests import MAX_EPOCH
from proxy.clients.session_epochs import SessionEpochs


@dataclass
class Broker:
    """`FetchSession` as a broker has it: the epoch it expects next."""

    session_id: int = 0
    epoch: int = 0
    made: int = 0

    def answer(self, session_id: int, epoch: int) -> int:
        """The session id of the answer."""
        if epoch in (0, -1):
            self.made += epoch == 0
            self.session_id, self.epoch = (self.made, 1) if epoch == 0 else (0, 0)
            return self.session_id
        assert (session_id, epoch) == (self.session_id, self.epoch)
        self.epoch = epoch % MAX_EPOCH + 1
        return session_id


@dataclass
class Consumer:
    """`FetchSessionHandler`: what its next request says."""

    session_id: int = 0
    epoch: int = 0

    def take(self, session_id: int, *, was_full: bool) -> None:
        if session_id == 0:
            self.session_id, self.epoch = 0, 0
        elif was_full:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = self.epoch % MAX_EPOCH + 1


STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["go on", "go on", "go on", "anew", "close"])))


@given(steps=STEPS, start=st.sampled_from([1, MAX_EPOCH - 2]))
def test_the_broker_sees_every_epoch_once_in_order(steps: list[tuple[bool, bool, str]], start: int) -> None:
    broker, consumer, epochs = Broker(1, start, 1), Consumer(1, start), SessionEpochs()
    for over_quota, lists_nothing, what in steps:
        if what == "anew":
            consumer.epoch = 0  # with the id of the session that it closes
        elif what == "close":
            consumer.epoch = -1
        was_full = consumer.epoch in (0, -1)
        answered = None
        if over_quota:
            answered = epochs.answers_here(consumer.session_id, consumer.epoch, lists_nothing=lists_nothing)
        if answered is None:
            answered = broker.answer(consumer.session_id, epochs.forwarded(consumer.session_id, consumer.epoch))
        consumer.take(answered, was_full=was_full)


@pytest.mark.parametrize(
    ("request_", "lists_nothing", "answered"),
    [
        ((0, 0), False, 0),  # wants a session: as a throttling broker does, there is none yet
        ((0, -1), False, 0),
        ((7, 0), False, None),  # closes one
        ((7, -1), False, None),
        ((7, 1), False, None),  # tells the broker something
        ((7, 1), True, 7),
    ],
)
def test_what_may_be_answered_here(request_: tuple[int, int], lists_nothing: bool, answered: int | None) -> None:
    assert SessionEpochs().answers_here(*request_, lists_nothing=lists_nothing) == answered


def test_epochs_wrap_as_kafkas_do() -> None:
    epochs = SessionEpochs()
    assert epochs.answers_here(7, MAX_EPOCH, lists_nothing=True) == 7
    assert epochs.forwarded(7, 1) == MAX_EPOCH
    assert epochs.forwarded(7, 2) == 1
