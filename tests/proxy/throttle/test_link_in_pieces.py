"""A decision that is taken a few partitions at a time, while others have their turn, is the one taken at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config.settings import Policy
from proxy.quotas import Quotas, RoleQuota
from proxy.throttle.decision import Answer, Decision, Forward, Hold
from tests.protocol.pieces import every_item_a_step, in_pieces
from tests.proxy.conversation import MIB, quotas, throttle
from tests.proxy.session_conversation import SessionConversation, SessionLeader, only, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

FLIPS: dict[str, Callable[[], Quotas]] = {
    "unlimited": lambda: quotas(float("inf")),
    "nothing": lambda: quotas(0),
    "much": lambda: quotas(400 * MIB),
    "only t": lambda: only("t"),
    "only u": lambda: only("u"),
    "none": lambda: Quotas(leader=RoleQuota(4 * MIB), follower=RoleQuota(4 * MIB)),
    "observe": lambda: quotas(4 * MIB, enforce=False),
}
END = 3000


class Told(NamedTuple):
    """All that a decision says, but for how long a leader may wait: that is told by the quota there is by then."""

    kind: type[Decision]
    asked: object = None
    forgotten: object = None
    session: object = None
    grants: object = None
    replays: object = None
    confirms: object = None
    observed: object = None
    frame: bytes | None = None


class Story:
    """A conversation up to its last request, which is decided in pieces, or at once where `pauses` is 0.

    `steps`: what is produced, by the number of the partition, before each of the fetches until then. `flip`: the quotas
    that are put in force, `before` the request comes, between its `begin` and its `decide`, or at that pause.
    """

    def __init__(self, version: int, policy: Policy, steps: list[int], first: str) -> None:
        keys = [(topic_of(version, name), number) for name in ("t", "u") for number in range(3)]
        self.keys = keys
        leader = SessionLeader(dict.fromkeys(keys, END))
        wants = {key: END if number % 3 == 0 else 0 for number, key in enumerate(keys)}
        self.talk = SessionConversation(throttle(4 * MIB, policy=policy), wants, leader, version)
        if version >= 13:
            self.talk.throttle.selection.names.learn({key[0]: bytes(key[0]).decode()[0] for key in keys})
        self.flip(first)
        for number in steps:
            leader.ends[keys[number]] += 40
            self.talk.fetch()
            self.talk.now += 0.003

    def flip(self, name: str) -> None:
        self.talk.throttle.apply(FLIPS[name](), self.talk.now)

    def at_once(self, flip: str, when: str) -> Told:
        """`when`: before, between, after; or never."""
        talk = self.talk
        if when == "before":
            self.flip(flip)
        if when == "between":
            talk.between = partial(self.flip, flip)
        told = self.told(talk.ask())
        if when == "after":
            self.flip(flip)
        return told

    def in_pieces(self, flip: str, pause: int) -> tuple[Told, int]:
        """With the number of pauses there were."""
        seen = 0

        def between(number: int) -> None:
            nonlocal seen
            seen = number
            if number == pause:
                self.flip(flip)

        with every_item_a_step():
            return self.told(in_pieces(self.talk.ask_in_steps(), between)), seen

    def told(self, decision: Decision) -> Told:
        if isinstance(decision, Hold):
            return Told(Hold)
        if isinstance(decision, Answer):
            return Told(Answer, frame=decision.frame)
        sent, pending = self.talk.sent_on(decision), decision.pending
        asked = [(e.topic, e.partition, e.fetch_offset, e.partition_max_bytes) for e in sent.entries]
        told = Told(Forward, asked, sent.forgotten, (sent.session_id, sent.session_epoch))
        if pending is None:
            return told
        return told._replace(
            grants=dict(pending.grants), replays=list(pending.replays), confirms=set(pending.confirms),
            observed=set(pending.observed),
        )  # fmt: skip


STORIES = {
    "version": st.sampled_from([3, 6, 7, 12, 17]),
    "policy": st.sampled_from([Policy.STRICT, Policy.KIP73]),
    "steps": st.lists(st.integers(0, 5), min_size=1, max_size=6),
    "first": st.sampled_from(list(FLIPS)),
}


@settings(max_examples=150)
@given(**STORIES)
def test_in_pieces_it_is_what_it_is_at_once(version: int, policy: Policy, steps: list[int], first: str) -> None:
    story = partial(Story, version, policy, steps, first)
    told, _ = story().in_pieces(first, 0)
    assert told == story().at_once(first, "never")


@settings(max_examples=300)
@given(**STORIES, flip=st.sampled_from(list(FLIPS)), pause=st.integers(1, 60))
def test_quotas_that_change_meanwhile_have_changed_before_or_after_it(
    version: int, policy: Policy, steps: list[int], first: str, flip: str, pause: int
) -> None:
    story = partial(Story, version, policy, steps, first)
    in_pieces_, pauses = story().in_pieces(flip, pause)
    expected = [story().at_once(flip, when) for when in ("before", "between", "after")]
    if pauses < pause:
        expected = [story().at_once(flip, "after")]
    assert in_pieces_ in expected


@pytest.mark.parametrize("version", [3, 12])
def test_whose_connection_ends_in_between_gives_back_what_it_was_granted(version: int) -> None:
    """Wherever it was: nothing stays reserved, and a session that was being worked on is over."""

    class Gone(Exception):
        """The connection has ended."""

    def ends(at: int, number: int) -> None:
        if number == at:
            raise Gone

    for at in range(1, 80):
        story = Story(version, Policy.STRICT, [1, 2, 4], "much")
        story.talk.now += 10
        with every_item_a_step():
            try:
                in_pieces(story.talk.ask_in_steps(), partial(ends, at))
            except Gone:
                pass
            else:
                assert at > 8
                return
        story.talk.link.close()
        assert story.talk.throttle.budget._bucket._reserved == 0
        assert all(not place.busy for place in story.talk.throttle.sessions.at("101"))
    pytest.fail("it is never through")
