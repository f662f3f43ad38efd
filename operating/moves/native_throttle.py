"""Finds the brokers' own throttles that a reassignment left behind, and which of them may be removed now.

Pure. Follows ``kafka-reassign-partitions --verify``: while anything moves in the cluster, nothing is removed. That tool
then deletes every list of these topics and every rate of every broker, unless it is given ``--preserve-throttles``.
Here an entry of a list is the move's only if it has the shape that the tool gives it: the follower entries of a
partition are the target replicas that are not among its leader entries. A rate is the move's only if such an entry
names its broker, and it stays as long as another list of the cluster is throttled by it.

Invariant: configs that the move did not create stay, and are reported as notes; what was not looked at, because a
broker does not answer, is in `silent` and is never counted as clean. The lists are the only record of the brokers whose
rates were set: they stay until every broker that they name has answered, unless the operator insists.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .cluster_view import LOG_DIR_RATE, NativeConfigs, NativeThrottle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from reassignment import Assignment, Document, TopicPartition

    from .cluster_view import ClusterView

_LIST = re.compile(r"(?:\d+:\d+(?:,\d+:\d+)*)?", re.ASCII)
_ROLES = ("leader", "follower")

Entries = frozenset[tuple[int, int]]
"""The pairs (partition, broker) of a list."""


class NativeLeftover(NamedTuple):
    """A config to take back. becomes: the value without the entries of the move; None if the config is deleted."""

    throttle: NativeThrottle
    becomes: str | None = None

    def __str__(self) -> str:
        return str(self.throttle) + ("" if self.becomes is None else f' (others stay: "{self.becomes}")')


class NativeFindings(NamedTuple):
    """The findings about the brokers' own throttles.

    left: the entries of the move. waits_for: why nothing of it may be removed now; empty if it may. silent: brokers
    that did not show their configs. notes: throttles that stay."""

    left: tuple[NativeLeftover, ...] = ()
    waits_for: str = ""
    silent: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def removable(self, *, force: bool) -> tuple[NativeLeftover, ...]:
        """Return the configs to remove now. `force`: lists as well, although brokers that they name do not answer."""
        if self.waits_for:
            return ()
        return tuple(each for each in self.left if force or not self.silent or each.throttle.kind == "broker")


def native_findings(
    move: Document, view: ClusterView, seen: NativeConfigs, *, under_way: Collection[TopicPartition]
) -> NativeFindings:
    """Find the remains of `move` in the configs of topics and brokers.

    Args:
        move: the reassignment.
        view: of its topics.
        seen: the configs that brokers show. If `needs_every_list` says so, it has the lists of every topic.
        under_way: the partitions of the move that still move or catch up.
    """
    lists = [throttle for throttle in seen.throttles if throttle.kind == "topic"]
    own = _own_entries(lists, move.assignment)
    cut = [(throttle, *_split(throttle, own)) for throttle in lists]
    left = [NativeLeftover(throttle, _written(rest) if rest else None) for throttle, mine, rest in cut if mine]
    remaining = {throttle: rest for throttle, _, rest in cut if rest is None or rest}
    named = {broker for entries in own.values() for _, broker in entries}
    on_disks = {broker for broker, _ in move.directories}
    notes = [
        f"{throttle}: not by this move: it stays"
        for throttle, mine, _ in cut
        if not mine and throttle.value and throttle.name in {topic for topic, _ in move.assignment}
    ]
    standing = []
    for throttle in seen.throttles:
        if throttle.kind == "topic":
            continue
        if not throttle.name:
            notes.append(f"{throttle}: of every broker; take it back with kafka-configs --entity-default")
        elif throttle.key == LOG_DIR_RATE and int(throttle.name) in on_disks:
            left.append(NativeLeftover(throttle))
        elif throttle.key == LOG_DIR_RATE or int(throttle.name) not in named:
            standing.append(throttle)
        elif (other := _user(throttle, remaining)) is not None:
            notes.append(f"{throttle}: stays, since {other.name} is throttled by it: {other}")
        else:
            left.append(NativeLeftover(throttle))
    if standing:
        more = f" and {len(standing) - 1} more rates of brokers" if len(standing) > 1 else ""
        notes.append(f"{standing[0]}{more}: not by this move, as far as lists tell: stays")
    concerned = named | on_disks | {broker for replicas in move.assignment.values() for broker in replicas}
    concerned |= {b for p in move.assignment if p in view.partitions for b in view.partitions[p].replicas}
    return NativeFindings(
        tuple(left),
        next(_reasons_to_wait(view, seen, under_way, on_disks), ""),
        tuple(sorted(concerned - seen.answered)),
        tuple(notes),
    )


def needs_every_list(move: Document, seen: NativeConfigs) -> bool:
    """Return True if the lists of the other topics matter, because a rate would go with the move's own lists."""
    lists = [throttle for throttle in seen.throttles if throttle.kind == "topic"]
    has_rates = any(throttle.kind == "broker" and throttle.name for throttle in seen.throttles)
    return has_rates and bool(_own_entries(lists, move.assignment))


def _reasons_to_wait(
    view: ClusterView, seen: NativeConfigs, under_way: Collection[TopicPartition], on_disks: Collection[int]
) -> Iterator[str]:
    for partition in sorted({*under_way, *(view.ongoing or ())}):
        yield f"{partition} is still moving"
    for broker in sorted(seen.copying.keys() & set(on_disks)):
        yield f"broker {broker} {seen.copying[broker]}"


def _own_entries(lists: Iterable[NativeThrottle], target: Assignment) -> dict[tuple[str, str], Entries]:
    """Return by topic and key the entries that the move put there."""
    found: dict[str, dict[str, Entries]] = {}
    for throttle in lists:
        entries = _entries(throttle.value)
        if entries:
            found.setdefault(throttle.name, {})[_role(throttle)] = entries
    own: dict[tuple[str, str], set[tuple[int, int]]] = {}
    without_destinations: list[tuple[str, int, frozenset[int]]] = []
    for (topic, partition), replicas in target.items():
        leaders, followers = (
            frozenset(broker for p, broker in found.get(topic, {}).get(role, ()) if p == partition) for role in _ROLES
        )
        if _is_tools(leaders, followers, frozenset(replicas)):
            own.setdefault((topic, "leader"), set()).update((partition, broker) for broker in leaders)
            own.setdefault((topic, "follower"), set()).update((partition, broker) for broker in followers)
        elif leaders and not followers and leaders >= set(replicas):
            without_destinations.append((topic, partition, leaders))
    if own:
        # A partition that gets no new replica is listed by the tool too, beside others that do. By itself, such a list
        # may as well be permanent.
        for topic, partition, leaders in without_destinations:
            own.setdefault((topic, "leader"), set()).update((partition, broker) for broker in leaders)
    return {place: frozenset(entries) for place, entries in own.items()}


def _is_tools(leaders: frozenset[int], followers: frozenset[int], target: frozenset[int]) -> bool:
    """Return True if a partition's entries are those that kafka-reassign-partitions writes for a move to `target`: the
    old replicas lead, the new ones follow. Without leader entries, followers that are a part of the target are
    enough: an operator may have throttled that side alone."""
    if not followers or not followers <= target or followers & leaders:
        return False
    return followers == target - leaders if leaders else followers != target


def _split(throttle: NativeThrottle, own: dict[tuple[str, str], Entries]) -> tuple[Entries, Entries | None]:
    """Return the list's entries that are the move's, and the others; None: `*`, or something that cannot be read."""
    entries = _entries(throttle.value)
    if entries is None:
        return frozenset(), None
    mine = own.get((throttle.name, _role(throttle)), frozenset())
    return mine & entries, entries - mine


def _user(rate: NativeThrottle, remaining: dict[NativeThrottle, Entries | None]) -> NativeThrottle | None:
    """Return a list that stays and is throttled by this rate."""
    for throttle, rest in remaining.items():
        if _role(throttle) == _role(rate) and (rest is None or any(str(broker) == rate.name for _, broker in rest)):
            return throttle
    return None


def _role(throttle: NativeThrottle) -> str:
    return throttle.key.partition(".")[0]


def _entries(value: str) -> Entries | None:
    text = "".join(value.split())
    if _LIST.fullmatch(text) is None:
        return None
    pairs = (entry.split(":") for entry in text.split(",") if entry)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)


def _written(entries: Entries) -> str:
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(entries))
