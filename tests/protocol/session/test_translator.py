"""A follower's sessions and the leader's, line by line; see conversations.py for how to read them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from protocol.session.registry import FetchSessions
from protocol.session.requests import MAX_EPOCH, LocalAnswer, SessionRequest
from protocol.session.translator import SessionTranslator, Translation
from protocol.work_in_steps import run_through
from tests.protocol.session.conversations import Conversation, Entry, choice, key

NOT_FOUND = 70


class Row(NamedTuple):
    """A row of the reference's table: what the follower sends, what is omitted, what the leader is asked."""

    follower: str
    omitted: str
    leader: str


REFERENCE = (
    Row("(0, 0) A@0 B@0 C@5", "", "(0, 0) A@0 B@0 C@5"),
    Row("(77, 1) A@100 B@80", "A B", "(77, 1) -A -B"),
    Row("(77, 2)", "A B", "(77, 2)"),
    Row("(77, 3) B@80", "A B", "(77, 3)"),  # B's log start offset moved: B is stored, not sent
    Row("(77, 4) A@100/e6", "B", "(77, 4) A@100/e6"),
    Row("(77, 5) -C", "A B", "here"),
    Row("(77, 6)", "", "(77, 5) B@80 -C"),  # A is in the session already, as it is
    Row("(77, 7) B@90", "", "(77, 6) B@90"),
)


def test_the_reference_s_example() -> None:
    follower = Conversation()
    said = []
    for row in REFERENCE:
        said.append(follower.says(row.follower, choice(row.omitted)))
        if said[-1] != "here":
            follower.hears(77)
    assert said == [row.leader for row in REFERENCE]


def test_what_is_answered_here_carries_the_session_s_id() -> None:
    follower = Conversation()
    follower.opens()
    taken = follower.takes("(77, 1)")
    assert isinstance(taken, Translation)
    assert run_through(taken.decide(choice("A B C"))) == LocalAnswer(0, 77)
    again = follower.takes("(77, 2)")
    assert isinstance(again, Translation)
    assert again.answer_here() == LocalAnswer(0, 77)
    assert follower.says("(77, 3)") == "(77, 1)"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param("(0, 0) A@1 B@2", "(0, 0) A@1 B@2", id="create"),
        pytest.param("(77, 0) A@1 B@2", "(77, 0) A@1 B@2", id="close and create"),
        pytest.param("(77, -1) A@1 B@2", "(77, -1) A@1 B@2", id="close"),
        pytest.param("(0, -1) A@1 B@2", "(0, -1) A@1 B@2", id="no session"),
    ],
)
def test_a_full_request_goes_on_with_everything_and_ends_the_session_it_names(first: str, then: str) -> None:
    follower = Conversation()
    follower.opens()
    assert follower.says(first) == then
    follower.hears(0)
    survives = "(0," in first
    assert len(follower.sessions) == survives
    assert follower.says("(77, 1)") == ("(77, 1)" if survives else NOT_FOUND)


@pytest.mark.parametrize("line", ["(0, -1) A@0", "(77, -1) A@0"])
def test_a_sessionless_request_opens_nothing_whatever_is_answered(line: str) -> None:
    follower = Conversation()
    follower.says(line)
    follower.hears(78)
    assert len(follower.sessions) == 0


@pytest.mark.parametrize(("error", "session_id"), [(0, 0), (70, 0), (71, 0), (71, 77), (106, 0), (31, 77), (0, 78)])
def test_an_error_or_another_id_ends_the_session(error: int, session_id: int) -> None:
    follower = Conversation()
    follower.opens()
    assert follower.says("(77, 1)") == "(77, 1)"
    follower.hears(session_id, error)
    assert len(follower.sessions) == 0
    assert follower.says("(77, 2)") == NOT_FOUND


def test_a_leader_that_has_no_room_opens_no_session_and_an_error_none_either() -> None:
    follower = Conversation()
    follower.says("(0, 0) A@0")
    follower.hears(0)
    follower.says("(0, 0) A@0")
    follower.hears(77, 31)
    assert len(follower.sessions) == 0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("(77, 2)", id="a later epoch"),
        pytest.param("(77, -2)", id="no epoch"),
        pytest.param("(78, 1)", id="unknown: the sidecar has restarted, or the session was relayed unseen"),
        pytest.param("(0, 1)", id="no id"),
    ],
)
def test_what_does_not_go_on_with_a_session_is_refused(line: str) -> None:
    follower = Conversation()
    follower.opens()
    assert follower.says(line) == NOT_FOUND


def test_a_request_that_is_sent_again_ends_the_session() -> None:
    follower = Conversation()
    follower.opens()
    follower.goes_on("(77, 1)")
    assert follower.says("(77, 1)") == NOT_FOUND
    assert follower.says("(77, 2)") == NOT_FOUND


def test_two_requests_under_way_end_the_session_and_the_answer_to_the_first_changes_nothing() -> None:
    first, second = (follower := Conversation()), Conversation(follower.sessions)
    first.opens()
    assert first.says("(77, 1)") == "(77, 1)"
    assert second.says("(77, 2)") == NOT_FOUND
    assert first.hears(77, answered="A") == [True]
    assert second.says("(77, 2)") == NOT_FOUND


def test_a_held_request_whose_session_is_gone_is_refused() -> None:
    held, other = (follower := Conversation()), Conversation(follower.sessions)
    held.opens()
    held.takes("(77, 1) A@9")
    assert other.says("(77, 0) A@0 B@0 C@5") == "(77, 0) A@0 B@0 C@5"
    assert held.decides(choice("A")) == NOT_FOUND


def test_an_entry_that_was_not_asked_for_ends_the_session() -> None:
    follower = Conversation()
    follower.opens()
    follower.says("(77, 1)", choice("A"))
    assert follower.hears(77, answered="B C A D") == [True, True, False, False]
    assert follower.says("(77, 2)") == NOT_FOUND


@pytest.mark.parametrize("heard", [False, True])
def test_an_answer_that_is_lost_ends_the_session(heard: bool) -> None:
    """Whether or not its head had come: the follower has not got all of it."""
    follower = Conversation()
    follower.opens()
    follower.says("(77, 1)")
    if heard:
        follower.hears(77)
    assert follower.translation
    follower.translation.lost()
    assert follower.says("(77, 1)") == NOT_FOUND


def test_the_answer_that_opens_a_session_may_be_lost_too() -> None:
    follower = Conversation()
    follower.opens()
    assert follower.translation
    follower.translation.lost()
    assert len(follower.sessions) == 0


def test_a_session_goes_on_on_another_connection() -> None:
    follower = Conversation()
    follower.opens()
    follower.goes_on("(77, 1) A@9", choice("B"))
    follower.reconnects()
    assert follower.goes_on("(77, 2)", choice()) == "(77, 2) B@0"


def test_a_connection_that_ends_with_a_request_under_way_ends_its_session_and_no_other() -> None:
    one = Conversation()
    one.opens()
    other = Conversation(one.sessions)
    other.opens("(0, 0) D@0", 78)
    one.says("(77, 1)")
    one.reconnects()
    assert one.says("(77, 1)") == NOT_FOUND
    assert other.says("(78, 1)") == "(78, 1)"


def test_leaders_number_their_sessions_by_themselves() -> None:
    one = Conversation()
    one.opens()
    two = Conversation(one.sessions, leader="102")
    assert two.says("(77, 1)") == NOT_FOUND
    two.opens("(0, 0) D@0")
    assert one.says("(77, 1) A@9") == "(77, 1) A@9"
    assert two.says("(77, 1) D@9") == "(77, 1) D@9"


def test_an_id_given_out_again_is_another_session() -> None:
    """The leader has restarted, and its random numbers are the same."""
    follower = Conversation()
    follower.opens()
    follower.opens("(0, 0) D@0")
    assert follower.goes_on("(77, 1) D@5") == "(77, 1) D@5"
    assert follower.sessions.partitions == 1


def test_another_version_ends_the_session_since_entries_are_kept_as_they_were_encoded() -> None:
    follower = Conversation()
    follower.opens()
    assert follower.says("(77, 1)", version=12) == NOT_FOUND


def test_topic_ids_are_keys_as_good_as_names() -> None:
    translator = SessionTranslator(FetchSessions[Entry](), "101")
    old, new = (b"\1" * 16, 0), (b"\2" * 16, 0)
    opening = run_through(translator.translate(SessionRequest(13, {old: Entry(0)}, 0, 0), 0.0))
    assert isinstance(opening, Translation)
    run_through(opening.decide(choice()))
    opening.answered(0, 77)
    replaced = run_through(translator.translate(SessionRequest(13, {new: Entry(0)}, 77, 1, [old]), 0.0))
    assert isinstance(replaced, Translation)
    upstream = run_through(replaced.decide(choice()))
    assert not isinstance(upstream, LocalAnswer)
    assert (upstream.listed, upstream.forgotten) == ([(new, Entry(0), 100)], [old])


def test_epochs_wrap_at_both_ends_by_themselves() -> None:
    follower = Conversation()
    follower.opens()
    place = follower.sessions.find("101", 77)
    assert place is not None
    place.session.follower_epoch = MAX_EPOCH
    place.session.leader_epoch = MAX_EPOCH - 1
    assert follower.goes_on(f"(77, {MAX_EPOCH})") == f"(77, {MAX_EPOCH - 1})"
    assert follower.goes_on("(77, 1)") == f"(77, {MAX_EPOCH})"
    assert follower.goes_on("(77, 2)") == "(77, 1)"


class TestWhatTheLeaderMayStillHold:
    """A session that ended here is closed there by the next full request: its cache may be as small as one slot."""

    def test_it_is_closed_by_the_next_full_request(self) -> None:
        follower = Conversation()
        assert follower.says("(77, 5)") == NOT_FOUND
        assert follower.says("(0, 0) A@0") == "(77, 0) A@0"
        assert follower.says("(0, 0) A@0") == "(0, 0) A@0"

    def test_unless_the_follower_does_it(self) -> None:
        follower = Conversation()
        follower.says("(77, 5)")
        assert follower.says("(77, 0) A@0") == "(77, 0) A@0"
        assert follower.says("(0, 0) A@0") == "(0, 0) A@0"

    def test_or_the_leader_has_given_its_id_to_another(self) -> None:
        follower = Conversation()
        follower.says("(77, 5)")
        follower.says("(78, 5)")
        assert follower.says("(0, 0) A@0") == "(77, 0) A@0"
        follower.hears(78)
        assert follower.says("(0, 0) A@0") == "(0, 0) A@0"

    def test_not_by_a_request_of_before_there_were_sessions(self) -> None:
        follower = Conversation()
        follower.says("(77, 5)")
        assert follower.says("(0, -1) A@0", version=6) == "(0, -1) A@0"

    def test_a_full_request_that_is_answered_here_leaves_its_closing_to_the_next(self) -> None:
        follower = Conversation()
        follower.opens()
        assert follower.says("(77, 0) A@0", choice("A")) == "here"
        assert follower.says("(0, 0) A@0") == "(77, 0) A@0"


class TestFullRequests:
    """The same decisions serve requests that list everything: before v7 all, since then those that open a session."""

    def test_what_is_omitted_is_left_out_and_the_session_lacks_it(self) -> None:
        follower = Conversation()
        assert follower.says("(0, 0) A@0 B@0 C@5", choice("B")) == "(0, 0) A@0 C@5"
        assert follower.hears(77, answered="A C B") == [True, True, False]

    def test_it_is_listed_when_it_is_omitted_no_longer(self) -> None:
        follower = Conversation()
        follower.opens(chosen=choice("B"))
        assert follower.goes_on("(77, 1) A@9", choice("B")) == "(77, 1) A@9"
        assert follower.goes_on("(77, 2)") == "(77, 2) B@0"

    def test_everything_omitted_is_answered_here_without_a_session(self) -> None:
        follower = Conversation()
        taken = follower.takes("(0, 0) A@0")
        assert isinstance(taken, Translation)
        assert run_through(taken.decide(choice("A"))) == LocalAnswer(0, 0)

    def test_grants_come_first_probes_last(self) -> None:
        follower = Conversation()
        chosen = choice(grants={"C": 40, "B": 60}, probes={"A": 1})
        assert follower.says("(0, -1) A@0 B@0 C@5 D@7", chosen, version=3) == "(0, -1) C@5/b40 B@0/b60 D@7 A@0/b1"

    def test_limits_are_lowered_never_raised_and_put_back(self) -> None:
        follower = Conversation()
        follower.opens(chosen=choice(probes={"A": 1, "B": 1}, grants={"C": 1000}))
        assert follower.goes_on("(77, 1) B@3", choice(probes={"A": 1})) == "(77, 1) B@3"
        assert follower.goes_on("(77, 2)") == "(77, 2) A@0"

    def test_a_limit_above_its_own_changes_nothing(self) -> None:
        assert (
            Conversation().says("(0, -1) A@0 B@0", choice(grants={"A": 5000}, probes={"B": 5000})) == "(0, -1) A@0 B@0"
        )

    def test_an_untouched_one_may_go_on_as_it_came(self) -> None:
        taken = Conversation().takes("(0, 0) A@0 B@0")
        assert isinstance(taken, Translation)
        upstream = run_through(taken.decide(choice("C", grants={"A": 100})))
        assert not isinstance(upstream, LocalAnswer)
        assert upstream.as_it_came

    def test_a_follower_that_wants_nothing_is_asked_for(self) -> None:
        assert Conversation().says("(0, 0)") == "(0, 0)"


class TestRelaying:
    """While nothing can be throttled requests pass unseen, if that cannot go wrong."""

    def test_a_session_that_began_unseen_passes(self) -> None:
        follower = Conversation()
        assert follower.translator.may_relay(0, 0)
        assert follower.translator.may_relay(77, 1)

    def test_one_that_began_before_the_connection_does_not(self) -> None:
        """The process before this one may have translated it."""
        follower = Conversation()
        assert not follower.translator.may_relay(77, 5)
        assert follower.says("(77, 5)") == NOT_FOUND

    def test_one_that_is_translated_stays_so(self) -> None:
        follower = Conversation()
        follower.opens(chosen=choice("B"))
        assert not follower.translator.may_relay(77, 1)
        assert follower.goes_on("(77, 1)") == "(77, 1) B@0"

    def test_one_that_passed_is_unknown_when_throttling_begins(self) -> None:
        follower = Conversation()
        follower.translator.may_relay(0, 0)
        follower.translator.may_relay(77, 1)
        assert follower.says("(77, 2)") == NOT_FOUND

    def test_one_that_was_translated_and_has_ended_here_does_not(self) -> None:
        """Both ends' epochs are equal, and at the leader the session lacks B: it would be missing for ever."""
        follower = Conversation()
        follower.opens()
        assert follower.goes_on("(77, 1) A@5", chosen=choice("B")) == "(77, 1) A@5 -B"
        follower.sessions.end(follower.sessions.find(follower.leader, 77))
        assert not follower.translator.may_relay(77, 2)
        assert follower.says("(77, 2)") == NOT_FOUND
        assert follower.translator.may_relay(77, 0)
        assert follower.translator.may_relay(78, 1)

    def test_one_whose_last_answer_was_lost_does_not(self) -> None:
        follower = Conversation()
        follower.opens()
        follower.says("(77, 1)")
        assert follower.translation
        follower.translation.lost()
        assert not follower.translator.may_relay(77, 2)


class TestUndecoded:
    """What is not understood must not go on within a session that is translated."""

    def test_without_sessions_it_may_pass(self) -> None:
        assert not Conversation().translator.undecoded()

    def test_the_connection_s_sessions_end(self) -> None:
        one = Conversation()
        one.opens()
        other = Conversation(one.sessions)
        other.opens("(0, 0) D@0", 78)
        assert one.translator.undecoded()
        assert not one.translator.undecoded()
        assert one.says("(77, 1)") == NOT_FOUND
        assert other.says("(78, 1)") == "(78, 1)"

    def test_so_do_those_that_a_new_connection_may_go_on_with(self) -> None:
        follower = Conversation()
        follower.opens()
        follower.reconnects()
        assert follower.translator.undecoded()
        follower.reconnects()
        assert not follower.translator.undecoded()
        assert follower.says("(77, 1)") == NOT_FOUND

    @pytest.mark.parametrize(("session", "ends"), [((7, 5), True), ((7, 0), False), ((7, -1), False), (None, False)])
    def test_a_connection_must_not_begin_with_it_in_a_session(
        self, session: tuple[int, int] | None, ends: bool
    ) -> None:
        """The process before this one may have translated that."""
        translator = Conversation().translator
        assert translator.undecoded(session) is ends
        assert translator.undecoded((77, 6)) is ends

    def test_nor_go_on_with_it_in_one_that_was_translated_and_has_ended_here(self) -> None:
        follower = Conversation()
        follower.opens(chosen=choice("B"))
        follower.sessions.end(follower.sessions.find(follower.leader, 77))
        assert follower.translator.undecoded((77, 1))
        assert not follower.translator.undecoded((77, 0))
        assert not follower.translator.undecoded((78, 1))

    def test_but_not_one_that_goes_on_with_its_own(self) -> None:
        gone = Conversation()
        gone.opens()
        gone.reconnects()
        other = Conversation(gone.sessions)
        other.opens("(0, 0) D@0", 78)
        assert other.translator.undecoded()
        assert gone.says("(77, 1)") == "(77, 1)"


def test_a_session_tells_itself_apart() -> None:
    """Its connection knows whether it has seen the requests before this one."""
    follower = Conversation()
    follower.opens()
    assert follower.translation
    opened = follower.translation.session
    follower.says("(77, 1)")
    assert follower.translation.session is opened
    assert follower.translation.partitions == {key("A"): Entry(0), key("B"): Entry(0), key("C"): Entry(5)}
