"""A change of quotas at many places: worked out for all of them first, then written everywhere or nowhere.

Blocking. What a change does to one file is `editing.changing`. "Nowhere" goes as far as stores allow: if one store
cannot be written, those that were written are put back, unless somebody else has changed them meanwhile. A store that
could not be put back is named.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from proxy.errors import ConfigurationError

from ..editing.changing import QuotaChange, change
from .stores import ConfigMapStore, FileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from ..editing.asks import Ask
    from .file import Fleet, Member
    from .stores import Store

    Work = Callable[["Place", bytes], "_ChangeT"]


MOST_AT_ONCE = 16
"""How many places are written to at the same time. For each of them usually one kubectl runs."""


@dataclass(frozen=True, slots=True)
class Place:
    """A store, and the members whose quotas are there."""

    store: Store
    members: tuple[Member, ...]

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(member.broker for member in self.members)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file's content before and after a change, for changes of which nothing else has to be told."""

    before: bytes
    after: bytes

    @property
    def changes_something(self) -> bool:
        return self.before != self.after


_ChangeT = TypeVar("_ChangeT", bound="QuotaChange | Rewritten", covariant=True)


@dataclass(frozen=True, slots=True)
class Planned(Generic[_ChangeT]):
    """What is to be written at one place."""

    place: Place
    change: _ChangeT


def places_of(fleet: Fleet, brokers: Iterable[int] | None = None) -> list[Place]:
    """Return where the quotas of these brokers are kept, each store once. `brokers` None: of all brokers.

    Raises ConfigurationError: a broker is not in the fleet, or nothing is said of where its quotas are.
    """
    wanted = None if brokers is None else set(brokers)
    problems = [
        f"{fleet.path}: has no broker {broker}: expected one of {', '.join(map(str, fleet.brokers))}"
        for broker in sorted((wanted or set()) - set(fleet.brokers))
    ]
    shared: dict[object, tuple[Store, list[Member]]] = {}
    for position, member in enumerate(fleet.members):
        if member.quotas is None and member.configmap is None:
            if wanted is None or member.broker in wanted:
                place = f"{fleet.path}: sidecars[{position}]"
                problems.append(f"{place}: broker {member.broker} has neither quotas nor configmap: nothing to change")
            continue
        identity, store = _store(fleet, member)
        shared.setdefault(identity, (store, []))[1].append(member)
    if problems:
        raise ConfigurationError(problems)
    found = [Place(store, tuple(members)) for store, members in shared.values()]
    return [place for place in found if wanted is None or wanted & set(place.brokers)]


def known_places(fleet: Fleet) -> list[Place]:
    """Return the places of all members that say where their quotas are kept."""
    return places_of(
        fleet, [each.broker for each in fleet.members if each.quotas is not None or each.configmap is not None]
    )


def _store(fleet: Fleet, member: Member) -> tuple[object, Store]:
    if member.configmap is not None:
        return member.configmap, ConfigMapStore(member.configmap, fleet.kubectl)
    if member.quotas is None:
        raise AssertionError("a member without a store was not left out")
    return os.path.realpath(member.quotas), FileStore(member.quotas)


class PlacesRefusedError(ConfigurationError):
    """`refused`: each place where the change is not possible, and why."""

    def __init__(self, places: Sequence[Place], refused: Sequence[tuple[Place, ConfigurationError]]) -> None:
        self.refused = tuple(refused)
        problems = [problem for _, error in refused for problem in error.problems]
        super().__init__([*problems, *_nothing_written(places)])


def plan(places: Sequence[Place], work: Work[_ChangeT]) -> list[Planned[_ChangeT]]:
    """Read every place and work its change out. Raises PlacesRefusedError: nothing is written."""
    found, refused = [], []
    for place in places:
        try:
            found.append(Planned(place, work(place, place.store.read())))
        except ConfigurationError as error:
            refused.append((place, error))
    if refused:
        raise PlacesRefusedError(places, refused)
    return found


def _nothing_written(places: Sequence[Place]) -> list[str]:
    return [f"nothing is written, at none of {len(places)} places"] if len(places) > 1 else []


class PartlyWrittenError(ConfigurationError):
    """`written`: places that were written and could not be put back."""

    def __init__(self, problems: Sequence[str], written: Sequence[Planned[QuotaChange | Rewritten]]) -> None:
        self.written = tuple(written)
        super().__init__(problems)


def write(planned: Sequence[Planned[QuotaChange | Rewritten]]) -> None:
    """Write all places that the change concerns, or none.

    Raises ConfigurationError if one could not be written; then all are as they were. Raises PartlyWrittenError if some
    could not be put back; it names those.
    """
    changing = [each for each in planned if each.change.changes_something]
    problems = [problem for _, error in _at_all(changing, _check) for problem in error.problems]
    if problems:
        raise ConfigurationError([*problems, *_nothing_written([each.place for each in planned])])
    done: list[Planned[QuotaChange | Rewritten]] = []

    def replace(each: Planned[QuotaChange | Rewritten]) -> None:
        each.place.store.replace(each.change.before, each.change.after)
        done.append(each)

    try:
        failed = _at_all(changing, replace)
    except BaseException:
        _put_back(done)
        raise
    if failed:
        problems = [problem for _, error in failed for problem in error.problems]
        left, why = _put_back(done)
        if left:
            raise PartlyWrittenError([*problems, *why], left) from failed[0][1]
        told = f"{len(done)} that had been written are put back" if done else "nothing is written"
        raise ConfigurationError([*problems, told]) from failed[0][1]


def _check(each: Planned[QuotaChange | Rewritten]) -> None:
    each.place.store.check_writable()


def _at_all(
    planned: Sequence[Planned[QuotaChange | Rewritten]], do: Callable[[Planned[QuotaChange | Rewritten]], None]
) -> list[tuple[Planned[QuotaChange | Rewritten], ConfigurationError]]:
    """Do something at all places at the same time: a patch takes a while, and sidecars are told only when all are
    written.

    Return the places at which it failed with a ConfigurationError. Any other error is raised once all others are done.
    """

    def attempt(each: Planned[QuotaChange | Rewritten]) -> ConfigurationError | None:
        try:
            do(each)
        except ConfigurationError as error:
            return error
        return None

    if not planned:
        return []
    with ThreadPoolExecutor(min(len(planned), MOST_AT_ONCE)) as threads:
        tried = list(threads.map(attempt, planned))
    return [(each, error) for each, error in zip(planned, tried, strict=True) if error is not None]


def _put_back(
    done: Sequence[Planned[QuotaChange | Rewritten]],
) -> tuple[list[Planned[QuotaChange | Rewritten]], list[str]]:
    left, why = list[Planned[QuotaChange | Rewritten]](), list[str]()
    for each in reversed(done):
        try:
            each.place.store.replace(each.change.after, each.change.before)
        except ConfigurationError as error:
            left.append(each)
            why += [f"could not be put back, the change stays there: {problem}" for problem in error.problems]
    return left, why


def asks_at(place: Place, asked: Sequence[Ask]) -> list[Ask]:
    """Return the asks that concern a place: a broker's values only where the quotas of that broker are."""
    return [ask for ask in asked if ask.place.section[0] != "brokers" or _is_read(ask, place)]


def _is_read(ask: Ask, place: Place) -> bool:
    name = str(ask.place.section[1])
    return not name.isdecimal() or int(name) in place.brokers


def worker(asked: Sequence[Ask], now: datetime, *, later: bool) -> Work[QuotaChange]:
    """What `set` wants at a place."""

    def work(place: Place, before: bytes) -> QuotaChange:
        return change(before, asks_at(place, asked), now, readers=place.brokers, later=later, source=place.store.name)

    return work
