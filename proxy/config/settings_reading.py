"""Values of proxy.toml, read one by one: what cannot be read is recorded, and replaced so that the rest is checked too.

Knows tables and types, no key's meaning. Invariant: who reads on after a problem has a stand-in, never half a value.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ..errors import InvalidValueError
from ..quotas.units import parse_size, shown
from . import settings_file as written
from .settings_values import Address, parse_address, parse_duration_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .settings_problems import Problems

_T = TypeVar("_T")
_ChoiceT = TypeVar("_ChoiceT", bound=enum.StrEnum)
_TableT = TypeVar("_TableT", bound=written.Table)


class Values:
    """Of one document."""

    def __init__(self, path: Path, document: written.Toml, problems: Problems) -> None:
        self._path = path
        self._document = document
        self._problems = problems

    def _table(self, name: str, table: type[_TableT], stand_in: _TableT) -> _TableT:
        try:
            return msgspec.convert(self._document.get(name, {}), table)
        except msgspec.ValidationError as error:
            self._problems.add_from_msgspec(name, error, table)
            return stand_in

    def _value(self, path: str, parse: Callable[[object], _T], value: object, *, stand_in: _T) -> _T:
        try:
            return parse(value)
        except InvalidValueError as error:
            self._problems.add(path, str(error))
            return stand_in

    def _address(self, path: str, value: str, *, dialled: bool = False) -> Address:
        address = self._value(path, parse_address, value, stand_in=Address("", 0))
        if dialled and address.host and address.port == 0:
            self._problems.add(path, f"expected a port to connect to, found {shown(value)}")
        return address

    def _seconds(self, path: str, value: str) -> float:
        seconds = self._value(path, parse_duration_seconds, value, stand_in=1.0)
        if seconds <= 0:
            self._problems.add(path, f"expected more than nothing, found {shown(value)}")
        return seconds

    def _choice(self, path: str, value: str, choices: type[_ChoiceT]) -> _ChoiceT:
        try:
            return choices(value)
        except ValueError:
            expected = " or ".join(shown(choice.value) for choice in choices)
            self._problems.add(path, f"expected {expected}, found {shown(value)}")
            return next(iter(choices))

    def _size(self, path: str, value: object) -> int:
        return self._value(path, parse_size, value, stand_in=0)
