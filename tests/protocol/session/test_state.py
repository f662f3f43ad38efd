"""How the leader's session follows the follower's: what is listed, forgotten, queued."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from protocol.session.requests import Choice, LocalAnswer, SessionRequest, Upstream
from protocol.session.state import FetchSession
from protocol.work_in_steps import run_through
from tests.protocol.pieces import every_item_a_step
from tests.protocol.session.conversations import Conversation, Entry, choice, key, keys, request, text

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from protocol.session.requests import PartitionKey

ALL = "A B C"


def session_of(asked: SessionRequest[Entry], chosen: Choice) -> FetchSession[Entry]:
    """The session that the leader's answer to this request has opened."""
    session: FetchSession[Entry] = FetchSession(asked.version, asked.session_id, asked.session_epoch)
    run_through(session.merge_request(asked))
    run_through(session.forward(asked, chosen))
    session.opened(77)
    return session


def opened(line: str = "(0, 0) A@0 B@0 C@5") -> Conversation:
    follower = Conversation()
    follower.opens(line)
    return follower


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        pytest.param(
            [("(77, 1) A@9", choice("A"), "(77, 1) -A"), ("(77, 2)", choice(), "(77, 2) A@9")],
            "re-added with current values",
            id="changed while omitted",
        ),
        pytest.param(
            [("(77, 1)", choice("A"), "(77, 1) -A"), ("(77, 2) -A", choice("A"), "(77, 2)"),
             ("(77, 3) A@7", choice(), "(77, 3) A@7")],
            "the leader does not hear of a forget it has heard already",
            id="forgotten while omitted",
        ),
        pytest.param(
            [("(77, 1) D@1", choice("D"), "(77, 1)"), ("(77, 2)", choice(), "(77, 2) D@1")],
            "not listed before it may be fetched",
            id="new while omitted",
        ),
        pytest.param(
            [("(77, 1) D@1 -D", choice(), "(77, 1)"), ("(77, 2) A@1 -A", choice(), "(77, 2) -A")],
            "as at the leader: what is both listed and forgotten is forgotten",
            id="listed and forgotten",
        ),
        pytest.param(
            [("(77, 1) -D", choice(), "(77, 1)")], "the leader has not got it", id="an unknown one forgotten"
        ),
        pytest.param(
            [("(77, 1)", choice(grants={"A": 40}), "(77, 1) A@0/b40"),
             ("(77, 2)", choice(grants={"A": 40}), "(77, 2)"),
             ("(77, 3) A@8", choice(grants={"A": 40}), "(77, 3) A@8/b40"),
             ("(77, 4)", choice(grants={"A": 30}), "(77, 4) A@8/b30"),
             ("(77, 5)", choice(), "(77, 5) A@8")],
            "a limit is a change of the entry, and so is its end",
            id="lowered and put back",
        ),
        pytest.param(
            [("(77, 1)", choice(grants={"A": 100, "B": 5000}), "(77, 1)")], "nothing differs", id="limits above its own"
        ),
        pytest.param(
            [("(77, 1)", choice(grants={"A": 40}), "(77, 1) A@0/b40"),
             ("(77, 2)", choice("A"), "(77, 2) -A"),
             ("(77, 3)", choice(), "(77, 3) A@0")],
            "a limit ends with its partition",
            id="lowered, then omitted",
        ),
        pytest.param(
            [("(77, 1)", choice("A B"), "(77, 1) -A -B"),
             ("(77, 2) C@6", choice("A", grants={"B": 40}, probes={"C": 1}), "(77, 2) B@0/b40 C@6/b1")],
            "granted first, probed last",
            id="order",
        ),
        pytest.param(
            [("(77, 1) A@9", choice(ALL), "here"), ("(77, 2)", choice("B C"), "(77, 1) A@9 -B -C")],
            "what changed while the leader was not asked is listed later",
            id="changed while skipped",
        ),
        pytest.param(
            [("(77, 1) -A", choice("B C"), "here"), ("(77, 2) A@9", choice("B C"), "(77, 1) A@9 -B -C")],
            "forgotten and listed before the leader heard of either: only listed",
            id="back before the leader heard",
        ),
        pytest.param(
            [("(77, 1) -A", choice("B C"), "here"), ("(77, 2) A@9", choice(ALL), "here"),
             ("(77, 3) -B", choice("A"), "(77, 1) -B -A")],
            "back, and omitted itself",
            id="back but omitted",
        ),
        pytest.param(
            [("(77, 1) -A -B -C", choice("B C"), "(77, 1) -A -B -C")],
            "the follower empties its session itself: the leader shall end it",
            id="emptied by the follower",
        ),
        pytest.param(
            [("(77, 1)", choice("A"), "(77, 1) -A"), ("(77, 2) -B -C", choice("A"), "here"),
             ("(77, 3) -A", choice("A"), "(77, 2) -B -C")],
            "forgets are queued, even to the last",
            id="emptied while omitted",
        ),
        pytest.param(
            [("(77, 1)", choice("Z"), "(77, 1)"), ("(77, 2)", choice(grants={"Z": 1}, probes={"Y": 1}), "(77, 2)")],
            "not of this session",
            id="choices for others",
        ),
    ],
)  # fmt: skip
def test_what_the_leader_is_asked(rows: list[tuple[str, Choice, str]], why: str) -> None:
    follower = opened()
    assert [follower.goes_on(line, chosen) for line, chosen, _ in rows] == [asked for *_, asked in rows], why
    with every_item_a_step():
        follower = opened()
        assert [follower.goes_on(line, chosen) for line, chosen, _ in rows] == [asked for *_, asked in rows]


def test_topics_are_listed_and_forgotten_together() -> None:
    """Every block of a topic costs its name on the wire."""
    session = session_of(wide(40), Choice())
    names = {(f"t{i % 4}", i) for i in range(1, 40)}
    away = run_through(session.forward(SessionRequest(11, {}, 77, 1), Choice(names)))
    back = run_through(session.forward(SessionRequest(11, {}, 77, 2), Choice(restored=names)))
    assert isinstance(away, Upstream)
    assert isinstance(back, Upstream)
    assert away.forgotten == sorted(names)
    assert [asked for asked, *_ in back.listed] == sorted(names)


def wide(partitions: int) -> SessionRequest[Entry]:
    return SessionRequest(11, {(f"t{i % 4}", i): Entry(i) for i in range(partitions)}, 0, 0)


@pytest.mark.parametrize(
    ("line", "chosen", "untouched"),
    [
        ("(77, 1) A@9 -B", choice(), True),
        ("(77, 1) -Z", choice(), False),
        ("(77, 1) A@9", choice(grants={"A": 40}), False),
        ("(77, 1) A@9", choice("B"), False),
        ("(77, 1) A@9 C@9", choice(grants={"C": 100}), False),  # in another order
    ],
)
def test_a_request_that_stays_as_it_was_may_go_on_as_it_came(line: str, chosen: Choice, untouched: bool) -> None:
    session = session_of(request("(0, 0) A@0 B@0 C@5"), Choice())
    run_through(session.merge_request(request(line)))
    asks = run_through(session.forward(request(line), chosen))
    assert isinstance(asks, Upstream)
    assert asks.as_it_came is untouched


def test_one_that_the_leader_was_not_asked_before_does_not() -> None:
    """Its epoch is another."""
    session = session_of(request("(0, 0) A@0"), Choice())
    session.skip()
    asks = run_through(session.forward(request("(77, 2)"), Choice()))
    assert isinstance(asks, Upstream)
    assert not asks.as_it_came


def test_a_choice_that_leaves_nothing_is_answered_here() -> None:
    session = session_of(request("(0, 0) A@0 B@0"), choice("A"))
    assert run_through(session.forward(request("(77, 1)"), choice("B"))) == LocalAnswer(0, 77)
    assert (session.leader_epoch, session.follower_epoch) == (1, 2)
    assert session.absent == keys("A")


def test_a_session_goes_on_in_another_process_with_what_the_leader_has_not_heard_of() -> None:
    """C was listed in a request that was answered here; the other process omits all but A."""
    session = session_of(request("(0, 0) A@0 B@0"), choice("B"))
    run_through(session.merge_request(request("(77, 1) C@7")))
    session.skip()
    resumed = FetchSession.from_state(session.state())
    asks = run_through(resumed.forward(request("(77, 2)"), choice("B C")))
    assert isinstance(asks, Upstream)
    assert text(asks) == "(77, 1)"
    assert resumed.absent == keys("B C")


def steps_of_a_fetch(partitions: int) -> int:
    """Lines of Python executed, loops included, for an incremental fetch of 5 changes, 20 omissions, 3 grants and 4
    that return, while most of the session is omitted already."""
    all_keys: list[PartitionKey] = list(wide(partitions).listed)
    session = session_of(wide(partitions), Choice({*all_keys[30:]}))
    asked = SessionRequest(11, {name: Entry(99) for name in all_keys[:5]}, 77, 1, all_keys[5:7])
    chosen = Choice(set(all_keys[10:30]), dict.fromkeys(all_keys[30:33], 40), restored=all_keys[34:38])
    steps = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += event == "line" and frame.f_globals["__name__"].startswith("protocol.")  # not a collector's hooks
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run_through(session.merge_request(asked))
        run_through(session.forward(asked, chosen))
    finally:
        sys.settrace(before)
    return steps


def test_a_fetch_costs_the_same_in_a_large_session() -> None:
    assert steps_of_a_fetch(5000) == steps_of_a_fetch(50)


def test_a_large_session_holds_nothing_but_what_the_follower_listed() -> None:
    request_of_all = wide(1000)
    session = session_of(request_of_all, Choice())
    assert session.partitions == request_of_all.listed
    assert all(session.partitions[name] is entry for name, entry in request_of_all.listed.items())
    assert key("A") not in session.partitions
