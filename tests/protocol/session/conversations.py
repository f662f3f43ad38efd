"""Fetch sessions in short: what a follower asks and what the leader is asked, as one line of text each.

`A@100` lists partition A at fetch_offset 100, `A@100/e6` in leader epoch 6, `A@100/b50` with partition_max_bytes 50 of
100 by default; `-C` forgets C. `(77, 1) A@100 -C` is a request of session 77 at epoch 1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from protocol.session.registry import FetchSessions
from protocol.session.requests import Choice, LocalAnswer, PartitionKey, SessionRequest, Upstream
from protocol.session.translator import SessionTranslator, Translation
from protocol.work_in_steps import run_through

if TYPE_CHECKING:
    from collections.abc import Set

OWN_BYTES = 100
REQUEST = re.compile(r"\((-?\d+), *(-?\d+)\)(.*)")
ENTRY = re.compile(r"(\w+)@(\d+)(?:/e(\d+))?(?:/b(\d+))?")


class Entry(NamedTuple):
    fetch_offset: int
    current_leader_epoch: int = 5
    partition_max_bytes: int = OWN_BYTES


def key(name: str) -> PartitionKey:
    return (name, 0)


def keys(names: str) -> frozenset[PartitionKey]:
    return frozenset(map(key, names.split()))


def request(text: str, version: int = 11) -> SessionRequest[Entry]:
    found = REQUEST.fullmatch(text)
    assert found, text
    listed: dict[PartitionKey, Entry] = {}
    forgotten = []
    for word in found[3].split():
        if word.startswith("-"):
            forgotten.append(key(word[1:]))
        else:
            entry = ENTRY.fullmatch(word)
            assert entry, word
            listed[key(entry[1])] = Entry(int(entry[2]), int(entry[3] or 5), int(entry[4] or OWN_BYTES))
    return SessionRequest(version, listed, int(found[1]), int(found[2]), forgotten)


def choice(omitted: str = "", grants: dict[str, int] | None = None, probes: dict[str, int] | None = None) -> Choice:
    def by_key(limits: dict[str, int] | None) -> dict[PartitionKey, int]:
        return {key(name): size for name, size in (limits or {}).items()}

    return Choice(keys(omitted), by_key(grants), by_key(probes))


def changes_to(absent: Set[PartitionKey], whole: Choice) -> Choice:
    """The choice of which `omitted` is all that is to be left out, as the changes to what is left out already."""
    omitted = whole.omitted
    grants, probes = (
        {key: n for key, n in each.items() if key not in omitted} for each in (whole.grants, whole.probes)
    )
    return Choice(omitted - absent, grants, probes, absent - omitted)


def text(upstream: Upstream[Entry]) -> str:
    words = [f"({upstream.session_id}, {upstream.session_epoch})"]
    for (topic, _), entry, limit in upstream.listed:
        epoch = "" if entry.current_leader_epoch == 5 else f"/e{entry.current_leader_epoch}"
        size = "" if limit == OWN_BYTES else f"/b{limit}"
        words.append(f"{topic!s}@{entry.fetch_offset}{epoch}{size}")
    words += [f"-{topic!s}" for topic, _ in upstream.forgotten]
    return " ".join(words)


class Conversation:
    """One follower's connection. `says` returns what goes to the leader, or the error code or "here"."""

    def __init__(self, sessions: FetchSessions[Entry] | None = None, leader: str = "101") -> None:
        self.sessions = sessions if sessions is not None else FetchSessions[Entry]()
        self.leader = leader
        self.translator = SessionTranslator(self.sessions, leader)
        self.translation: Translation[Entry] | None = None
        self.now = 0.0

    def reconnects(self) -> None:
        self.translator.close()
        self.translator = SessionTranslator(self.sessions, self.leader)

    def says(self, line: str, chosen: Choice | None = None, *, version: int = 11) -> str | int:
        taken = self.takes(line, version=version)
        if isinstance(taken, LocalAnswer):
            return answer_text(taken)
        return self.decides(chosen)

    def takes(self, line: str, *, version: int = 11) -> Translation[Entry] | LocalAnswer:
        taken = run_through(self.translator.translate(request(line, version), self.now))
        self.translation = taken if isinstance(taken, Translation) else None
        return taken

    def decides(self, chosen: Choice | None = None) -> str | int:
        assert self.translation is not None
        decided = run_through(self.translation.decide(changes_to(self.translation.absent, chosen or Choice())))
        return answer_text(decided) if isinstance(decided, LocalAnswer) else text(decided)

    def hears(self, session_id: int, error_code: int = 0, answered: str = "") -> list[bool]:
        assert self.translation is not None
        self.translation.answered(error_code, session_id)
        return [self.translation.expects(key(name)) for name in answered.split()]

    def opens(self, line: str = "(0, 0) A@0 B@0 C@5", session_id: int = 77, chosen: Choice | None = None) -> None:
        assert not isinstance(self.says(line, chosen), int)
        self.hears(session_id)

    def goes_on(self, line: str, chosen: Choice | None = None) -> str | int:
        """The request is forwarded, and answered as if nothing was wrong."""
        said = self.says(line, chosen)
        if isinstance(said, str) and said != "here":
            self.hears(request(line).session_id)
        return said


def answer_text(answer: LocalAnswer) -> str | int:
    return answer.error_code or "here"
