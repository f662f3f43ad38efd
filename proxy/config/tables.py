"""A table of a TOML file, declared once: a frozen dataclass, each field of which is a key.

    @dataclass(frozen=True, slots=True)
    class QuotaSettings:
        file: Path = Path("quotas.toml")
        gate_seconds: Annotated[Seconds, Key("gate")] = 0.1

The type of a field is that of its key's values. The key is called like the field, unless `Key` says otherwise. It has
to be there if the field has no default and may not be None. A field may also be a table, or a tuple of either. Where
the values of a table do not fit each other, its method `validate` yields a key and a reason.

Knows no key's meaning. Invariant: an unknown key never passes, and every problem is recorded, not only the first. Where
a value cannot be read, its field has the default or a stand-in, so that the rest is checked as well. Every message is
``source: key.path: expected …, found … (line N)``, and there is one for each key.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ..errors import ConfigurationError, InvalidValueError
from ..files.toml_reading import KeyLines, did_you_mean
from ..quotas.units import format_size, parse_size, shown
from .settings_values import Address, format_duration, parse_address, parse_seconds, parse_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_T = TypeVar("_T")
MISSING = dataclasses.MISSING
FIXED = "no key"
"""The mark of a field that is a constant."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Key(NamedTuple):
    """The name of a field's key, where it differs from the field's."""

    name: str


class Kind(NamedTuple):
    """A kind of value that a key may hold."""

    parse: Callable[[object], Any]
    """The parser of a TOML value; raises InvalidValueError."""
    stand_in: Any = ""
    """The value of a field whose key has to be there and cannot be read."""
    written: Callable[[Any], str] = str
    """The inverse of `parse`: as people write the value."""


def whole_number(*, least: int, most: int | None = None) -> Kind:
    """Return the kind of integers from `least` to `most`."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidValueError(f"expected an integer, found {shown(value)}")
        if value < least or (most is not None and value > most):
            bound = f">= {least}" if value < least else f"<= {most}"
            raise InvalidValueError(f"expected an integer {bound}, found {shown(value)}")
        return value

    return Kind(parse, stand_in=math.nan)  # it equals no other number


def choice(choices: type[enum.StrEnum]) -> Kind:
    """Return the kind of the values of an enumeration."""

    def parse(value: object) -> enum.StrEnum:
        for each in choices:
            if each.value == value:
                return each
        expected = " or ".join(shown(each.value) for each in choices)
        raise InvalidValueError(f"expected {expected}, found {shown(value)}")

    return Kind(parse, written=lambda value: str(value.value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValueError(f"expected text, found {shown(value)}")
    return value


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"expected a path, found {shown(value)}")
    return Path(value)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError(f"expected true or false, found {shown(value)}")
    return value


_KINDS: dict[Any, Kind] = {
    str: Kind(_text),
    bool: Kind(_switch, written=lambda value: str(value).lower()),
    Path: Kind(_path, stand_in=Path()),
    Address: Kind(parse_address, stand_in=Address("", 0)),
}
Seconds = Annotated[float, Kind(parse_seconds, written=format_duration)]
"""A duration above zero, as text like "250ms"."""
Bytes = Annotated[int, Kind(parse_size, written=format_size)]
"""An integer, or text like "16MiB"."""
Target = Annotated[Address, Kind(parse_target, stand_in=Address("", 0))]
"""The address with a port that the sidecar connects to."""
READ_APART = Kind(lambda _: None, written=lambda _: "")
"""The kind of a key that another parser reads: a table whose keys are those of Kafka's own properties."""
BrokerId = Annotated[int, whole_number(least=0, most=2**31 - 1)]
Count = Annotated[int, whole_number(least=0)]
AtLeastOne = Annotated[int, whole_number(least=1)]


class Declared(NamedTuple):
    """A key of a table."""

    field: str
    of: Any
    """A Kind, or the dataclass of a table, or a tuple of either, which stands for any number of them."""
    default: Any
    """The value of an absent key; MISSING if the key is required."""

    @property
    def written_default(self) -> str:
        """The default as it is written in TOML; "" if there is none."""
        if self.default in (MISSING, None, ""):
            return ""
        return self.of.written(self.default) if isinstance(self.of, Kind) else str(list(self.default))


def keys_of(table: type) -> Mapping[str, Declared]:
    """Return the keys that a dataclass declares, by name."""
    hints = get_type_hints(table, include_extras=True)
    found = {}
    for field in dataclasses.fields(table):
        hint = hints[field.name]
        if FIXED in getattr(hint, "__metadata__", ()):
            continue
        name = next((each.name for each in getattr(hint, "__metadata__", ()) if isinstance(each, Key)), field.name)
        of, default = _declared(hint), field.default
        if default is MISSING and type(None) in get_args(_bare(hint)):
            default = None
        elif default is MISSING and type(of) is tuple:
            default = ()
        found[name] = Declared(field.name, of, default)
    return found


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _declared(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        kind = next((each for each in hint.__metadata__ if isinstance(each, Kind)), None)
        return kind or _declared(get_args(hint)[0])
    if isinstance(hint, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
        return _declared(hint)
    if get_origin(hint) is tuple:
        return (_declared(get_args(hint)[0]),)
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return choice(hint)
    return hint if dataclasses.is_dataclass(hint) else _KINDS[hint]


class TableReader:
    """Reads declared tables of a file. `base`: the directory that paths are relative to."""

    def __init__(self, base: Path, problems: Problems) -> None:
        self._base = base
        self._problems = problems

    def table(self, declared: type[_T], place: str, written: object, **given: object) -> _T:
        """Return the table `written` at `place`, "" for the whole file; `given` are fields that are no keys."""
        if not isinstance(written, dict):
            self._problems.add(place, f"expected a table, found {shown(written)}")
            return TableReader(self._base, Problems("", {})).table(declared, place, {}, **given)
        keys = {name: key for name, key in keys_of(declared).items() if key.field not in given}
        within = f"{place}." if place else ""
        for name in written:
            if name not in keys:
                expected = f"expected one of {', '.join(keys)}{did_you_mean(name, keys)}"
                self._problems.add_unknown(f"{within}{name}", f"unknown key; {expected}")
        values = {key.field: self._of(key, f"{within}{name}", written.get(name)) for name, key in keys.items()}
        table = declared(**given, **values)
        if not any(f"{within}{name}" in self._problems for name in keys):
            for name, reason in getattr(table, "validate", tuple)():
                self._problems.add(f"{within}{name}", reason)
        return table

    def _of(self, key: Declared, place: str, written: object) -> Any:
        if written is not None:  # TOML has no null
            return self._read(key.of, place, written, otherwise=key.default)
        if key.default is not MISSING:
            return self._based(key.default)
        if isinstance(key.of, type):
            return self.table(key.of, place, {})
        self._problems.add(place, "missing")
        return key.of.stand_in

    def _read(self, of: Any, place: str, written: object, *, otherwise: Any = MISSING) -> Any:
        if isinstance(of, Kind):
            try:
                return self._based(of.parse(written))
            except InvalidValueError as error:
                self._problems.add(place, str(error))
                return of.stand_in if otherwise is MISSING else otherwise
        if not isinstance(of, tuple):
            return self.table(of, place, written)
        if not isinstance(written, list):
            self._problems.add(place, f"expected a list, found {shown(written)}")
            return otherwise
        return tuple(self._read(of[0], f"{place}[{number}]", each) for number, each in enumerate(written))

    def _based(self, value: Any) -> Any:
        return self._base / value if isinstance(value, Path) else value


class Problems:
    """The problems of a file, so that one run of ``check`` shows all of them.

    `source` is the file; `origins` says by key path which override a value came from instead; `text` is what stands
    in the file."""

    def __init__(self, source: str, origins: Mapping[str, str] = _NOTHING, text: str = "") -> None:
        self._source = source
        self._origins = origins
        self._text = text
        self._lines: KeyLines | None = None
        """The line numbers of `text`; None until the first problem, so that a good file is not searched for them."""
        self._messages: dict[str, str] = {}

    def __contains__(self, path: str) -> bool:
        """Return True if something is wrong with this key itself."""
        return path in self._messages

    def add(self, path: str, reason: str) -> None:
        """Add a problem. Only the first of a key, or of a key below it, is kept: others follow from that."""
        if any(path == wrong or path.startswith(f"{wrong}.") for wrong in self._messages):
            return
        origin = self._origins.get(_dotted(path))
        line = self._line(path) if origin is None and self._text else None
        told = reason if line is None else f"{reason} (line {line})"
        self._messages[path] = f"{origin or self._source}: {path}: {told}"

    def _line(self, path: str) -> int | None:
        if self._lines is None:
            self._lines = KeyLines(self._text)
        return self._lines.of(path)

    def add_unknown(self, path: str, reason: str) -> None:
        """Add an unknown key. If an override made up its table, the override's key is named."""
        made_up = next((each for each in self._origins if each.startswith(f"{_dotted(path)}.")), path)
        self.add(made_up, reason)

    def raise_if_any(self) -> None:
        """Raise ConfigurationError if there are problems."""
        if self._messages:
            raise ConfigurationError(list(self._messages.values()))


def _dotted(path: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", path)
