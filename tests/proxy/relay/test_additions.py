"""What is added to an answer is what is owed with this answer, whatever was owed with the one before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from protocol.fetch.response import ReplayedEntry
from proxy.relay.additions import Additions
from proxy.relay.edits import NO_REPLAYS

if TYPE_CHECKING:
    from proxy.throttle.outlook import Outlook


def outlook(*replays: ReplayedEntry) -> Outlook:
    return cast("Outlook", SimpleNamespace(version=3, replays=replays))


def test_nothing_is_left_of_the_answer_before() -> None:
    """An answer whose records are taken away is put together with the number of topics that are added."""
    subject = Additions()
    subject.begin(outlook(ReplayedEntry("t", 0, 10, 0)), 100)
    assert subject.owed
    assert (subject.replays.topics, len(subject.replays.encoded) > 0) == (1, True)
    subject.begin(outlook(), 100)
    assert not subject.owed
    assert (subject.replays.topics, subject.replays.encoded) == (NO_REPLAYS.topics, NO_REPLAYS.encoded)
