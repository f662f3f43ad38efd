"""What a command does to a sidecar's overrides: adds one, or undoes some. Pure; time is an argument.

Invariant: undoing an override leaves every other one as it is; overrides that have ended are dropped at each change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from .override import Override

Overrides = tuple["Override", ...]


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which overrides to undo: exactly one of the three is given."""

    id: str | None = None
    label: str | None = None
    last: bool = False
    """The one that was made last."""
    by: str | None = None
    """Who undoes them."""

    def chosen(self, overrides: Overrides) -> Overrides:
        """Return those that it selects. Raises ConfigurationError if it says none, several, or what is not there."""
        if (self.id is not None) + (self.label is not None) + self.last != 1:
            raise ConfigurationError("expected one of id, label and last")
        if self.last:
            found = overrides[-1:]
        elif self.id is not None:
            found = tuple(each for each in overrides if each.id == self.id)
        else:
            found = tuple(each for each in overrides if each.label == self.label)
        if not found:
            raise NothingSelectedError(
                f"no override {self}" if overrides else f"no override {self}: there is none at all"
            )
        return found

    def __str__(self) -> str:
        if self.last:
            return "at all"
        return f"with the id {self.id}" if self.id is not None else f"with the label {self.label}"


class NothingSelectedError(ConfigurationError):
    """No override is what was asked for."""


def active(overrides: Overrides, now: datetime) -> Overrides:
    """Return those that have not ended."""
    return tuple(each for each in overrides if each.is_active(now))


def added(overrides: Overrides, new: Override, now: datetime) -> Overrides:
    """Return the overrides with `new` as the newest. The same one again, as after an answer that was lost, changes
    nothing. Raises ConfigurationError if another one has its id, or if it ends before it begins to count."""
    if not new.is_active(now):
        raise ConfigurationError(f"until: expected a time to come, found {new.until:%Y-%m-%dT%H:%M:%SZ}")
    left = active(overrides, now)
    known = next((each for each in left if each.id == new.id), None)
    if known is None:
        return (*left, new)
    if (known.changes, known.label, known.until) != (new.changes, new.label, new.until):
        raise ConfigurationError(
            f"id: {new.id} is another override's: {known.label or 'without a label'}, by {known.by}"
        )
    return overrides


def undone(overrides: Overrides, selector: Selector, now: datetime) -> Overrides:
    """Return the overrides without those that are selected. Raises NothingSelectedError."""
    left = active(overrides, now)
    gone = {each.id for each in selector.chosen(left)}
    return tuple(each for each in left if each.id not in gone)
