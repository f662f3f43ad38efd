"""Begins a move, goes on with one, or takes one back: asks, lets `next_step` decide, acts, and asks again.

Blocking. Each of the three is a `Proposal`, which has looked and changed nothing; it acts once the operator has agreed.
Invariants: whatever is reported as begun, finished, removed or cancelled was asked for afterwards, of the cluster and
of every member; what a step that failed has left is named, with how to go on and how to take it back.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy.errors import ClusterError, ConfigurationError, UnreachableError
from reassignment import ReassignmentError, throttle

from ..fleet.replies import brokers as named_brokers
from ..quota_words import format_time
from ..status.rows import ask_all
from .applying import apply, unnamed
from .bars import bars, destinations
from .inspection import look, look_until, remove, survey, undo
from .next_step import (
    Step,
    concerned_brokers,
    kept_reassignment,
    next_step,
    obstacles,
    refuse_second,
    remains,
    throttle_as_before,
)
from .planning import named, plan_move, wanted
from .verification import Progress, Stage, Verification, progress, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from reassignment import Document, Throttle, TopicPartition

    from .bars import Bar, Destinations
    from .by_hand import ByHand
    from .cluster import Cluster
    from .cluster_view import ClusterView
    from .inspection import Places
    from .next_step import Held
    from .planning import Ground, MovePlan

    Wait = Callable[[float], bool]
    """Waits so many seconds; True if the operator pressed Ctrl-C meanwhile."""
    Show = Callable[[Sequence[Progress], Sequence[Bar], Sequence[str]], None]

POLL_SECONDS = 1.0
GONE_SECONDS = 10.0
"""The time for which a reassignment is missing, or another, until that is believed: brokers hear of its end later
than the controller, and one that has just started may not know the topic."""
_GONE = frozenset({Stage.NOT_STARTED, Stage.MISSING, Stage.ELSEWHERE})
FINISH_SECONDS = 60.0
"""The time for which brokers may fail to answer once all is in place, as a restarting broker does."""


class Chosen(NamedTuple):
    """The throttle of a move that an operator has chosen."""

    plan: MovePlan
    throttle: Throttle
    until: datetime | None
    lines: Sequence[str] = ()
    rate: str = "--rate RATE"
    """The options that choose it again."""


class Report(Protocol):
    """Prints the progress of a move."""

    def say(self, *lines: str) -> None:
        """Print lines of text."""

    def plan(self, plan: MovePlan) -> None:
        """Print a plan."""

    def watching(self) -> AbstractContextManager[Show]:
        """Yield a function that shows how far the move is, for the length of a block."""


class Outcome(NamedTuple):
    """The result of a command on a move.

    name: finished, in_place, going_on, stopped, cancelled, not_cancelled or not_begun.
    found: by the last look; None if the operator did not wait for it.
    is_complete: everything asked for was done, and seen to be done everywhere.
    """

    name: str
    found: Verification | None = None
    removed: Sequence[str] = ()
    is_complete: bool = False


class Proposal(NamedTuple):
    """An action that awaits consent. question: for the operator; empty if all of it has been agreed to."""

    question: str
    act: Callable[[Wait], Outcome]


@dataclass(frozen=True, slots=True)
class Mover:
    """A move, as a command sees it."""

    cluster: Cluster
    move: Document
    places: Places
    by_hand: ByHand
    report: Report
    measure_seconds: float | None = None

    def begin(self, held: Held, choose: Callable[[Ground], Chosen], ask_again: Callable[[], Held]) -> Proposal:
        """Return a proposal of the whole move. Raises ConfigurationError, ClusterError."""
        view, found = self._refuse_second(held)
        if all(each.stage is Stage.DONE for each in found):
            return Proposal("", lambda _: self._in_place())
        chosen = choose(self._survey())
        self._refuse_unnamed(chosen, held)
        self._show(chosen, view)
        steps = self.by_hand._replace(rate=chosen.rate).steps()
        self._say_steps(steps)

        def act(wait: Wait) -> Outcome:
            self._refuse_second(ask_again())
            return self._go(chosen, wait, is_new=True)

        return Proposal(f"Throttle and start this move, as {self.places.label}?", act)

    def resume(self, held: Held, choose: Callable[[Ground], Chosen] | None) -> Proposal:
        """Return a proposal to go on from the step reached, at another rate if one is chosen. Raises
        ConfigurationError, ClusterError."""
        view, found = self._look()
        if problems := obstacles(found):
            raise ConfigurationError(problems)
        away = {reply.broker for reply in held.silent if reply.broker is not None}
        at = held.of(self.places.label)
        step = next_step(found, concerned_brokers(self.move, view), at, away)
        if step is Step.REMOVE:
            return Proposal("", self._watch)
        self.report.say(f"{self.places.label}: {summary(found)}")
        chosen = None
        if choose is not None or step is Step.THROTTLE:
            chosen = (choose or (lambda ground: self._as_before(ground, held)))(self._survey())
            self._refuse_unnamed(chosen, held)
            self._show(chosen, view)
        starts = [each.partition for each in found if each.stage is Stage.NOT_STARTED]
        todo = [
            *(["throttle it at " + named_brokers(chosen.throttle.brokers())] if chosen is not None else []),
            *([f"start {named(starts)}"] if starts else []),
        ]
        rate = self.by_hand.rate if chosen is None else chosen.rate
        self._say_steps(self.by_hand._replace(rate=rate).steps()[1:])
        return Proposal(_question(todo), lambda wait: self._go(chosen, wait))

    def cancel(self, held: Held) -> Proposal:
        """Return a proposal to take back all that can be. Raises ClusterError."""
        _, found = self._look()
        under_way = [each.partition for each in found if each.stage is Stage.MOVING]
        at = held.of(self.places.label)
        self.report.say(f"{self.places.label}: {summary(found)}")
        stays = Verification(tuple(each for each in found if each.stage is not Stage.MOVING)).needs_throttle
        unless = ", unless it is still of use" if stays else ""
        todo = [
            *([f"cancel the reassignment of {named(under_way)}"] if under_way else []),
            *([f"undo the throttle at {named_brokers(at)}{unless}"] if at else []),
        ]
        self._say_steps(self.by_hand.steps_back())
        return Proposal(_question(todo), lambda _: self._cancel(under_way))

    def _say_steps(self, steps: Sequence[str]) -> None:
        self.report.say("the steps, each by itself:", *(f"  {line}" for line in steps))

    def _look(self) -> tuple[ClusterView, tuple[Progress, ...]]:
        view = self.cluster.look(sorted({partition.topic for partition in self.move.assignment}))
        if view.ongoing is None:
            raise ClusterError(
                "move needs brokers of 2.4 or later (KIP-455): with older ones plan, kafka-reassign-partitions and "
                "verify do it step by step"
            )
        return view, progress(self.move, view)

    def _refuse_second(self, held: Held) -> tuple[ClusterView, tuple[Progress, ...]]:
        view, found = self._look()
        resume, cancel = self.by_hand.resume(), self.by_hand.cancel()
        adopt = f"{resume} {self.by_hand.file} --rate RATE"
        refuse_second(found, held, self.places.label, resume=resume, adopt=adopt, cancel=cancel)
        return view, found

    @staticmethod
    def _refuse_unnamed(chosen: Chosen, held: Held) -> None:
        away = [reply.broker for reply in held.silent]
        unnamed(chosen.throttle.brokers(), [*held.members, *away], held.silent)

    def _survey(self) -> Ground:
        try:
            return survey(self.cluster, self.move, self.measure_seconds)
        except ReassignmentError as error:
            raise ConfigurationError(error.problems) from error

    def _as_before(self, ground: Ground, held: Held) -> Chosen:
        plan = plan_move(ground, wanted(ground, 1, None, None))
        found = throttle_as_before(throttle(ground.moves, plan.rates), held, self.places.label)
        if found is None:
            again = f"{self.by_hand.resume()} --rate RATE"
            raise ConfigurationError(f"{self.places.label}: no sidecar has a rate of this move: name one: {again}")
        until = held.end_of(self.places.label)
        return Chosen(replace(plan, rates=found.rates, warnings=ground.warnings), found, until)

    def _show(self, chosen: Chosen, view: ClusterView) -> None:
        self.report.plan(chosen.plan)
        topics = sorted({partition.topic for partition in view.partitions})
        alive = [broker for broker in chosen.throttle.brokers() if broker in view.brokers]
        native = self.cluster.throttles(topics, alive) if self.places.native else []
        self.report.say(
            *chosen.lines,
            *(f"Kafka's own throttle is set, and the lower rate holds: {each}" for each in native),
        )

    def _go(self, chosen: Chosen | None, wait: Wait, *, is_new: bool = False) -> Outcome:
        """Throttle, start the remaining partitions, and watch them to their end. Failed parts of a new move are taken
        back."""
        with self._what_remains():
            if chosen is not None and chosen.throttle.rates and not self._throttle(chosen):
                why = "not every broker of the move has its throttle: nothing is started"
                return self._give_up(why, undoes=is_new)
            _, found = self._look()
            starts = {each.partition: each.target for each in found if each.stage is Stage.NOT_STARTED}
            if starts and not self._start(starts):
                return self._give_up("the reassignment was refused", undoes=is_new)
            return self._watch(wait)

    @contextmanager
    def _what_remains(self) -> Iterator[None]:
        """Report how to go on if something fails from here on."""
        try:
            yield
        except (ClusterError, ConfigurationError, UnreachableError):
            self.report.say("what became of it is not known:", *self.by_hand.go_on())
            raise

    def _throttle(self, chosen: Chosen) -> bool:
        kept = kept_reassignment(self.move)
        if kept is None:
            self.report.say("too long for the sidecars to keep: --resume and --cancel need the file")
        applied = apply(
            chosen.throttle,
            self.places.members,
            label=self.places.label,
            reason="move",
            until=chosen.until,
            where=self.by_hand.where,
            reassignment=kept,
        )
        self.report.say(*applied.lines)
        return applied.is_complete

    def _start(self, starts: dict[TopicPartition, tuple[int, ...]]) -> bool:
        """Start these; where any is refused, take the others back and report the result of each."""
        refused = self.cluster.reassign(starts)
        if not refused:
            self.report.say(f"started: {named(sorted(starts))}")
            return True
        self.report.say(*(f"refused: {partition}: {reason}" for partition, reason in sorted(refused.items())))
        accepted = sorted(starts.keys() - refused.keys())
        if accepted:
            self.cluster.reassign(dict.fromkeys(accepted))
        return False

    def _give_up(self, why: str, *, undoes: bool) -> Outcome:
        """Report the remains of the move, after its throttle is undone if wanted."""
        if undoes:
            found = self._without_throttle(lambda each: each.is_moving)
        else:
            found = look(self.cluster, self.move, self.places)
        left = remains(found)
        self.report.say(f"{why}: {'nothing of it is left' if not left else 'what is left:'}", *left)
        if left:
            self.report.say(*self.by_hand.go_on())
        return Outcome("not_begun" if undoes else "stopped", found)

    def _without_throttle(self, stays: Callable[[Verification], bool]) -> Verification:
        """Undo the throttle, unless it `stays` after a moment; return what there is then."""
        found = look_until(self.cluster, self.move, self.places, lambda each: not stays(each))
        if stays(found):
            return found
        undone = undo(self.places)
        return look_until(
            self.cluster, self.move, self.places, lambda each: not (each.overrides or each.unsettled), undone
        )

    def _watch(self, wait: Wait) -> Outcome:
        copied: Destinations = {}
        missing_since = failing_since = None
        with self.report.watching() as show:
            while True:
                in_place = False
                try:
                    view, found = self._look()
                    in_place = all(each.stage is Stage.DONE for each in found)
                    if in_place and (outcome := self._finish()) is not None:
                        return outcome
                    failing_since = None
                    is_gone = any(each.stage in _GONE for each in found)
                    missing_since = (missing_since or time.monotonic()) if is_gone else None
                    if missing_since is not None and time.monotonic() - missing_since > GONE_SECONDS:
                        return self._stopped(found)
                    copied = destinations(found, view, copied)
                    show(found, *self._sight(view, found, copied))
                    told = summary(found)
                except (ClusterError, ConfigurationError, UnreachableError) as error:
                    failing_since = (failing_since or time.monotonic()) if in_place else None
                    if failing_since is not None and time.monotonic() - failing_since > FINISH_SECONDS:
                        raise
                    told = str(error)
                    show((), (), (f"{error}: asking again",))
                if wait(POLL_SECONDS):
                    self.report.say(f"this command ends, the move goes on: {told}", *self.by_hand.go_on())
                    return Outcome("going_on")

    def _sight(
        self, view: ClusterView, found: Sequence[Progress], copied: Destinations
    ) -> tuple[tuple[Bar, ...], list[str]]:
        """Return the bars, and notes for the operator."""
        concerned = concerned_brokers(self.move, view)
        answers = ask_all([each for each in self.places.members if each.broker is None or each.broker in concerned])
        pages = {each.page.broker: each.page for each in answers if each.page is not None}
        waiting = [each for each in found if each.stage is not Stage.DONE]
        away = {broker for each in waiting for broker in (*each.target, *each.replicas)} - view.brokers
        lines = [f"{named_brokers(away)}: not in the cluster now"] if away else []
        lines += [f"{each.member}: {each.error}" for each in answers if each.error is not None]
        mine = {
            broker: [each.until for each in page.quotas.overrides if each.label == self.places.label]
            for broker, page in pages.items()
            if broker in concerned
        }
        if bare := [broker for broker, ends in mine.items() if not ends]:
            lines.append(
                f"{named_brokers(bare)}: without the throttle of this move; set it again: "
                f"{self.by_hand.resume()} --rate RATE"
            )
        ends = [until for found_there in mine.values() for until in found_there if until is not None]
        if ends:
            lines.append(f"the throttle ends {format_time(min(ends))}")
        return bars(found, view, copied, pages), lines

    def _stopped(self, found: Sequence[Progress]) -> Outcome:
        if gone := [each.partition for each in found if each.stage is Stage.NOT_STARTED]:
            self.report.say(f"{named(gone)}: no longer under way, as after a cancellation by somebody else")
        self.report.say(*obstacles(found))
        return self._give_up("this command ends", undoes=False)

    def _finish(self) -> Outcome | None:
        """Remove the remains; None if not all is in place any more."""
        found = look(self.cluster, self.move, self.places)
        if not found.done:
            return None
        removed, found = remove(self.cluster, self.move, self.places, found, force=False)
        return Outcome("finished", found, removed, is_complete=found.done and found.clean)

    def _in_place(self) -> Outcome:
        found = look(self.cluster, self.move, self.places)
        return Outcome("in_place", found, is_complete=found.done and found.clean)

    def _cancel(self, under_way: Sequence[TopicPartition]) -> Outcome:
        with self._what_remains():
            if under_way:
                refused = self.cluster.reassign(dict.fromkeys(under_way))
                self.report.say(*(f"refused: {each}: {reason}" for each, reason in sorted(refused.items())))
            found = self._without_throttle(lambda each: each.needs_throttle)
        before = [each.partition for each in found.progress if each.stage is Stage.NOT_STARTED]
        if before:
            self.report.say(f"{named(before)}: with the replicas that they had")
        self.report.say(*remains(found))
        if found.is_unthrottled and not found.needs_throttle:
            return Outcome("cancelled", found, is_complete=True)
        if found.overrides and found.needs_throttle:
            self.report.say(f"the throttle stays while it is of use; to end it all the same: {self.by_hand.undo()}")
        # A label that no sidecar has any more is not known to another --cancel.
        again = self.by_hand.cancel() if found.overrides or found.unknown else self.by_hand.verify("")
        self.report.say(f"not taken back as a whole; again: {again}")
        return Outcome("not_cancelled", found)


def _question(todo: Sequence[str]) -> str:
    text = " and ".join(todo)
    return f"{text[0].upper()}{text[1:]}?" if text else ""
