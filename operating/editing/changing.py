"""What a change of quotas.toml does: the file after it, what then holds on which brokers, now and later, and its undo.

The newest word wins, or it is not written: what is asked for holds on every broker that it names, by the sidecar's own
rules (`rules.effective`), until its end if it has one; else `ShadowedError` names the section that goes first, and what
to ask for instead. The undo is tried before it is told. Bytes in, values out; time is an argument.
Invariant: for every broker, now and later, the undo brings back what held; where no command can, there is none.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas.reading import MOST_SCHEDULES, parse_quotas
from proxy.quotas.rules import METADATA_TOPIC, effective
from proxy.quotas.section_reading import SCHEDULES, UNTIL
from proxy.quotas.upcoming import changes_ahead
from proxy.quotas.whole_file import parse_to_write, refuse_nothing

from .asks import Ask, Brokers
from .editing import Assign, edit
from .facts import Place, facts, schedule_count, written
from .shadows import Shadow, found_at, same_from, shadow_of, shadowed
from .sweeping import is_over, swept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from proxy.quotas.rules import Quotas
    from proxy.quotas.sections import QuotaFile
    from proxy.quotas.upcoming import Change

    from .editing import Edit, Wish
    from .facts import Path

MOST_CHANGES_AHEAD = 3


class Effect(NamedTuple):
    """What one broker meets.

    Args:
        broker: its id; None: every broker that the file does not name.
        before: what held; None if the file would have been refused.
        after: what holds.
        ahead: the next changes by the clock alone, at most `MOST_CHANGES_AHEAD`.
    """

    broker: int | None
    before: Quotas | None
    after: Quotas
    ahead: tuple[Change, ...]

    @property
    def changes(self) -> bool:
        return self.before is None or not self.before.means_the_same_as(self.after)


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """Args:
    before, after: the file; equal if everything is said already.
    asks: what was asked for.
    brokers: whom the file is for.
    effects: of the brokers that are named, and of others for which something changes.
    entries: sections of schedules that were changed as well, by their names before.
    swept: what was over, and is taken out.
    shadows: what goes first now all the same; empty unless that was allowed.
    undo: what to ask for, one after the other; empty if there is nothing to take back; None if no command can.
    """

    before: bytes
    after: bytes
    asks: tuple[Ask, ...]
    brokers: Brokers
    effects: tuple[Effect, ...]
    entries: tuple[str, ...]
    swept: tuple[str, ...]
    shadows: tuple[Shadow, ...]
    undo: tuple[Ask, ...] | None

    @property
    def changes_something(self) -> bool:
        return self.before != self.after


class ShadowedError(ConfigurationError):
    """What is asked for would not hold. `instead`: what would; empty if no command does it."""

    def __init__(self, source: str, shadows: Sequence[Shadow], instead: tuple[Ask, ...]) -> None:
        self.shadows, self.instead = tuple(shadows), instead
        super().__init__([f"{source}: {shadow.place}: nothing is changed: {shadow}" for shadow in shadows])


def change(
    content: bytes,
    asks: Sequence[Ask],
    now: datetime,
    *,
    known: Iterable[int] = (),
    readers: Collection[int] | None = None,
    later: bool = False,
    source: str = "quotas.toml",
) -> QuotaChange:
    """Work out what `asks`, one after the other, do to a file.

    Args:
        content: of the file.
        asks: at least one.
        now: with an offset.
        known: ids of brokers that read the file, beside those that it names.
        readers: the brokers that read it and no other, if that is known.
        later: a change that does not hold now is good as well, if it will.
        source: leads the messages.

    Raises:
        ShadowedError: it would not hold.
        ConfigurationError: the file is empty or not TOML, or cannot be changed there alone, or would not be valid.
    """
    for ask in asks:
        if ask.place.section == ("topics", METADATA_TOPIC) and isinstance(ask.wish, Assign):
            raise ConfigurationError(f"{source}: {ask.place}: the metadata log is never throttled: nothing is changed")
    refuse_nothing(content, source=source)
    was = _parsed(content)
    if was is None:
        _refuse_too_many_schedules(content, now, source)
    brokers = Brokers.of(content, asks, known, readers)
    done = _applied(content, asks, brokers, now, source)
    shadows = [*done.stuck, *_shadows(done.file, asks, brokers, now)]
    if shadows and not (later and done.content != content):
        instead = () if later else _instead(content, asks, shadows, now, known, readers)
        raise ShadowedError(source, shadows, instead)
    return QuotaChange(
        before=content,
        after=done.content,
        asks=tuple(asks),
        brokers=brokers,
        effects=_effects(was, done.file, asks, brokers, now),
        entries=done.entries,
        swept=done.swept,
        shadows=tuple(shadows),
        undo=_undo(was, done, brokers, now),
    )


class _Applied(NamedTuple):
    """What came of all the asks. stuck: sections that still say something in place of a value that was taken out."""

    content: bytes
    file: QuotaFile
    undo: tuple[Ask, ...] = ()
    entries: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    stuck: tuple[Shadow, ...] = ()


def _applied(content: bytes, asks: Sequence[Ask], brokers: Brokers, now: datetime, source: str) -> _Applied:
    """Do what is asked, one ask after the other. Sections and schedules that have ended are taken out before each value
    is written, and once more at the end."""
    text, gone = content, list[str]()
    undo, entries, stuck = list[Ask](), list[str](), list[Shadow]()
    for ask in asks:
        if isinstance(ask.wish, Assign):
            text, over = _swept(text, now)
            gone += over
        edited = _edited(text, ask, brokers, now, source)
        if not isinstance(ask.wish, Assign):
            stuck += _stuck(text, ask, edited, brokers, now)
        text = edited.content
        undo[:0] = [Ask(ask.place, wish, alone=True) for wish in edited.undo]
        entries += edited.entries
    file = parse_quotas(text, source=source)
    if text in (content, _swept(content, now)[0]):
        # Said already: what is over can wait for the next who writes.
        return _Applied(content, file, stuck=tuple(stuck))
    text, over = _swept(text, now)
    file = parse_to_write(text, source=source)
    return _Applied(text, file, tuple(undo), tuple(entries), (*gone, *over), tuple(stuck))


def _edited(text: bytes, ask: Ask, brokers: Brokers, now: datetime, source: str) -> Edit:
    """Return the text with one ask done. A value with an end may be hidden by a schedule before that end; then it is
    written as a schedule of its own that goes before all others."""
    edited = edit(text, ask.place, ask.wish, now, source=source)
    if isinstance(ask.wish, Assign) and ask.wish.until is not None and ask.wish.until > now:
        file = parse_quotas(edited.content, source=source)
        if not all(shadow.is_the_brokers_own for shadow in _shadows(file, [ask], brokers, now)):
            return edit(text, ask.place, replace(ask.wish, in_front=True), now, source=source)
    return edited


def _swept(content: bytes, now: datetime) -> tuple[bytes, tuple[str, ...]]:
    try:
        text, gone = swept(content.decode(), now)
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError):
        # For `edit` to say.
        return content, ()
    return text.encode(), gone


def _refuse_too_many_schedules(content: bytes, now: datetime, source: str) -> None:
    """Raise ConfigurationError where no change would help. Of 2000 schedules `edit` makes six seconds of work first."""
    try:
        found = facts(content)
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError):
        # For `edit` to say.
        return
    schedules = range(schedule_count(found))
    left = sum(not is_over(found.get((SCHEDULES, number, UNTIL)), now) for number in schedules)
    if left > MOST_SCHEDULES:
        raise ConfigurationError(f"{source}: {SCHEDULES}: expected at most {MOST_SCHEDULES}, found {left}")


def _parsed(content: bytes) -> QuotaFile | None:
    try:
        return parse_quotas(content)
    except ConfigurationError:
        return None


def _shadows(file: QuotaFile, asks: Sequence[Ask], brokers: Brokers, now: datetime) -> list[Shadow]:
    """Return what goes before the values that were written. If a place was asked for several times, the last one
    counts."""
    last = {ask.place: ask for ask in asks}
    return [
        shadow
        for place, ask in last.items()
        if isinstance(ask.wish, Assign) and (ask.wish.until is None or ask.wish.until > now)
        for broker in brokers.named_by(ask, file, now)
        if (shadow := shadow_of(file, place, ask.wish, broker, now)) is not None
    ]


def _stuck(text: bytes, ask: Ask, edited: Edit, brokers: Brokers, now: datetime) -> list[Shadow]:
    """Return the sections that already went before a value that was taken out: taking it out changes nothing on their
    brokers. Empty if the value had ended anyway."""
    file = _parsed(text)
    ended = all(isinstance(wish, Assign) and wish.until is not None and wish.until <= now for wish in edited.undo)
    if file is None or ended:
        return []
    taken = {written(ask.place.section), *edited.entries}
    found = [(told, found_at(file, ask.place, asked, now)) for told, asked in brokers.named_by(ask, file, now)]
    return [
        shadowed(file, ask.place, told, said, now)
        for told, said in found
        if said is not None and said[0].path not in taken
    ]


def _instead(
    content: bytes,
    asks: Sequence[Ask],
    shadows: Sequence[Shadow],
    now: datetime,
    known: Iterable[int],
    readers: Collection[int] | None,
) -> tuple[Ask, ...]:
    """What to ask for so that it holds: of brokers' own sections as well, in front of a schedule until that ends."""
    better: list[Ask] = []
    for ask in asks:
        mine = [shadow for shadow in shadows if shadow.place == ask.place]
        own = [shadow for shadow in mine if shadow.is_the_brokers_own]
        ends = [shadow.ends for shadow in mine if not shadow.is_the_brokers_own]
        wish = ask.wish
        if ends and None not in ends and isinstance(wish, Assign) and wish.until is None:
            wish = replace(wish, until=max(end for end in ends if end is not None))
        better.append(ask._replace(wish=wish, alone=ask.alone or bool(own)))
        better += [ask._replace(place=Place(_own_section(shadow), ask.place.key), wish=wish) for shadow in own]
    if better == list(asks):
        return ()
    try:
        change(content, better, now, known=known, readers=readers)
    except ShadowedError as error:
        return error.instead
    except ConfigurationError:
        return ()
    return tuple(better)


def _own_section(shadow: Shadow) -> Path:
    return ("brokers", shadow.section.rpartition(".")[2])


def _effects(
    was: QuotaFile | None, file: QuotaFile, asks: Sequence[Ask], brokers: Brokers, now: datetime
) -> tuple[Effect, ...]:
    named = {broker for ask in asks if ask.place.section[0] == "brokers" for broker in brokers.named_by(ask, file, now)}
    found = [
        (
            broker,
            Effect(
                broker[0],
                None if was is None else effective(was, broker[1], now),
                effective(file, broker[1], now),
                tuple(islice(changes_ahead(file, broker[1], now), MOST_CHANGES_AHEAD)),
            ),
        )
        for broker in brokers.every
    ]
    return tuple(effect for broker, effect in found if broker in named or effect.changes)


def _undo(was: QuotaFile | None, done: _Applied, brokers: Brokers, now: datetime) -> tuple[Ask, ...] | None:
    """Tried: None if it does not bring back what held, as where it would change the order of schedules."""
    asks = tuple(ask for ask in done.undo if not _had_ended(ask.wish, now))
    if was is None:
        return None
    if not asks:
        return () if same_from(was, done.file, [asked for _, asked in brokers.every], now) else None
    try:
        back = _applied(done.content, asks, brokers, now, "the file as it is now")
    except ConfigurationError:
        return None
    return asks if same_from(was, back.file, [asked for _, asked in brokers.every], now) else None


def _had_ended(wish: Wish, now: datetime) -> bool:
    return isinstance(wish, Assign) and wish.until is not None and wish.until <= now
