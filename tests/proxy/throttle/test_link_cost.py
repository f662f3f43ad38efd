"""In a fetch session a fetch costs what has changed and what is granted, however much is known; and no step of one that
goes through all takes longer than another.

Counted are the interpreter's instructions in the sidecar's own code and its looks at replicas, for a request and its
answer: these counts are the same on every machine. What is looked through once a second or less often is not in them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from proxy.throttle import replicas
from proxy.throttle.link import REFRESH_SECONDS, Link
from proxy.throttle.replica import Replica
from tests.proxy.conversation import MIB, throttle
from tests.proxy.session_conversation import LEADER, SessionConversation, SessionLeader, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from protocol.work_in_steps import Steps

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(f"{ROOT / folder}/" for folder in ("admission", "protocol", "proxy"))
CHANGED, AT_EDGE = 5, 3
looks = 0


class WatchedReplica(Replica):
    """Counts each look at an attribute, by `sorted` and `map` too."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        global looks
        looks += 1
        return super().__getattribute__(name)


def cost(version: int, known: int, *, in_sync: bool) -> int:
    """Return what a fetch takes of which ten partitions are granted, or `CHANGED` have news."""
    keys = [(topic_of(version, f"t{number % 8}"), number) for number in range(known)]
    leader = SessionLeader(dict.fromkeys(keys, 1000))
    talk = SessionConversation(throttle(8 * MIB), dict.fromkeys(keys, 1000 if in_sync else 0), leader, version)
    talk.link.close()
    talk.link = Link(talk.throttle, "peer", leader=LEADER)
    found = []
    for _ in range(5):
        talk.now += 0.1
        for key in keys[:CHANGED] if in_sync else ():
            leader.ends[key] += 1
        with Instructions() as ran:
            talk.fetch()
        found.append(ran.count)
    return min(found)


class Instructions:
    """Counts what is run and looked at inside the block."""

    count = 0

    def __enter__(self) -> Instructions:
        self._looks = looks
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self.count += looks - self._looks

    def _trace(self, frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        self.count += event == "opcode"
        return self._trace


@pytest.mark.parametrize("in_sync", [False, True])
@pytest.mark.parametrize("version", [12, 17])
def test_two_thousand_known_cost_what_a_hundred_do(
    version: int, in_sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "Replica", WatchedReplica)
    few, many = (cost(version, known, in_sync=in_sync) for known in (100, 2000))
    assert many <= 1.1 * few


def longest_steps(version: int, known: int, *, in_sync: bool) -> list[int]:
    """Return the most that one step takes of each fetch; the first one meets all partitions, the last but one asks for
    some that were long left out."""
    keys = [(topic_of(version, f"t{number % 8}"), number) for number in range(known)]
    leader = SessionLeader(dict.fromkeys(keys, 1000))
    talk = SessionConversation(throttle(8 * MIB), dict.fromkeys(keys, 1000 if in_sync else 0), leader, version)
    longest, found = 0, []

    def counted(of: Callable[..., Steps[T]]) -> Callable[..., Steps[T]]:
        def steps(*args: object) -> Steps[T]:
            nonlocal longest
            work = of(*args)
            while True:
                try:
                    with Instructions() as ran:
                        next(work)
                except StopIteration as done:
                    result: T = done.value
                    return result
                finally:
                    longest = max(longest, ran.count)
                yield

        return steps

    talk.link.begin = counted(talk.link.begin)
    talk.link.decide = counted(talk.link.decide)
    for pause in (0.1, 0.1, 0.1, 0.1, REFRESH_SECONDS, 0.1):
        talk.now += pause
        for key in keys[AT_EDGE : AT_EDGE + CHANGED] if in_sync else ():
            leader.ends[key] += 1
        longest = 0
        talk.fetch()
        found.append(longest)
    return found


@pytest.mark.parametrize("in_sync", [False, True])
@pytest.mark.parametrize("version", [3, 12, 17])
def test_a_step_takes_as_long_where_much_is_known(version: int, in_sync: bool) -> None:
    some, many = (longest_steps(version, known, in_sync=in_sync) for known in (400, 1600))
    assert all(one <= 1.2 * least for one, least in zip(many, some, strict=True))
