"""Files as people write them, in every spelling that TOML has, and any change that `set` can make: read before and
after by tomllib alone, they differ in what was named, and every line of something else is there, comments too."""

from __future__ import annotations

import tomllib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from operating.editing.asks import Ask
from operating.editing.changing import change
from operating.editing.editing import Assign, End, Remove, Wish
from operating.editing.facts import Place
from operating.editing.rewriting import rewritten
from proxy.errors import ConfigurationError

RATE = "leader.replication.throttled.rate"
OTHER = "follower.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENDS = (None, datetime(2026, 12, 1, 6, tzinfo=UTC), datetime(2026, 12, 2, 6, 30, tzinfo=UTC))
KEYS = {"brokers": (RATE, OTHER, LIST), "topics": (RATE, LIST), "peers": (RATE, OTHER), "mode": ("enforce",)}
NAMED = (("brokers", "default"), ("brokers", "101"), ("topics", "orders"), ("topics", "c-*"), ("peers", "102"))
SECTIONS = (*NAMED, ("mode",))
PLACES = (*(Place(section, key) for section in SECTIONS for key in KEYS[section[0]]), Place(("brokers", "107"), RATE))
GAPS = st.lists(st.sampled_from(["", "# a line", "  # a line, indented", "\t"]), max_size=2)
BESIDE = st.sampled_from(["", "", "  # beside"])
PLAIN = ("5", '"7MiB/s"', "'unlimited'", '"""8MiB/s"""', "0x10", "1_000")
TABLES = ('{ within = "2h", max = "9MiB/s" }', "{finish_by=2026-12-01T06:00:00Z,max=5,min=1}")
TABLE_LINES = ('within = "2h"', "max = 5")
TIMES = (
    ["days = [ # which", "  'mon', # this", "]"], ["from = 22:00:00", "to = '06:00'"], ["until = 2026-12-01T06:00:00Z"],
)  # fmt: skip
WINDOW = {"from", "to", "days", "timezone"}


@st.composite
def values(draw: st.DrawFn, kind: str, key: str) -> list[str]:
    """Lines that give `key` a value."""
    if key == "enforce":
        written = "false"
    elif key == LIST:
        written = draw(st.sampled_from(['"*"', "''"]))
    else:
        written = draw(st.sampled_from((*PLAIN, *TABLES) if kind == "brokers" else PLAIN))
    first, _, rest = key.partition(".")
    spelt = draw(st.sampled_from([key, key, f'"{key}"', f"'{key}'", *([f'{first} . "{rest}"'] if rest else [])]))
    return [*draw(GAPS), f"{draw(st.sampled_from(['', '  ']))}{spelt} = {written}{draw(BESIDE)}"]


@st.composite
def sections(draw: st.DrawFn, prefix: str, section: tuple[str, ...]) -> list[str]:
    """A section, its rates sometimes tables of their own."""
    kind = section[0]
    header = f"{prefix}{'.'.join([kind, *(repr(name) for name in section[1:])])}"
    lines, tables = [f"[{header}]{draw(BESIDE)}"], list[str]()
    for key in draw(st.lists(st.sampled_from(KEYS[kind]), unique=True, min_size=1)):
        if kind == "brokers" and key != LIST and draw(st.integers(0, 4)) == 0:
            tables += [*draw(GAPS), f'[{header}."{key}"]', *(f"{line}{draw(BESIDE)}" for line in TABLE_LINES)]
        else:
            lines += draw(values(kind, key))
    lines += ["until = 2026-12-01T06:00:00Z"] if draw(st.integers(0, 3)) == 0 else []
    return [*lines, *tables, *draw(GAPS)]


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = draw(GAPS)
    for section in draw(st.permutations(SECTIONS))[: draw(st.integers(0, 5))]:
        lines += draw(sections("", section))
    for _ in range(draw(st.integers(0, 2))):
        lines += ["[[schedules]]", *draw(st.sampled_from(TIMES)), *draw(GAPS)]
        for section in draw(st.permutations(SECTIONS))[: draw(st.integers(1, 2))]:
            lines += draw(sections("schedules.", section))
    return draw(st.sampled_from(["\n", "\r\n"])).join([*lines, ""])


@st.composite
def wishes(draw: st.DrawFn, place: Place) -> Wish:
    value: Any = {"enforce": True, LIST: "*"}.get(place.key, draw(st.sampled_from([6, "70MiB/s"])))
    if place.section[0] == "brokers" and place.key != LIST and draw(st.booleans()):
        value = {"within": "3h", "max": "80MiB/s"}
    asked: list[Wish] = [Assign(value, draw(st.sampled_from(ENDS)))] * 3
    return draw(st.sampled_from([*asked, Remove(), End()]))


def without(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """What the file says of everything else. Schedules with times are something else as a whole."""
    kept = of_other_sections(document, place)
    schedules = [
        schedule if WINDOW & schedule.keys() else of_other_sections(schedule, place)
        for schedule in document.get("schedules", [])
    ]
    return kept | {"schedules": [schedule for schedule in schedules if schedule]}


def of_other_sections(layer: dict[str, Any], place: Place) -> dict[str, Any]:
    kept = dict[str, Any]()
    for kind in layer.keys() & KEYS.keys():
        table = layer[kind]
        named = {(kind,): table} if kind == "mode" else {(kind, name): table[name] for name in table}
        for section, said in named.items():
            own = {place.key, "until"} if section == place.section else set()
            left = {key: value for key, value in flat(said).items() if key not in own}
            kept |= {".".join(section): left} if left else {}
    return kept


def flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = dict[str, Any]()
    for key, value in section.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in (RATE, OTHER):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def lines_of_something_else(text: str, place: Place) -> Counter[str]:
    """Those that are neither a header nor of the key that was named, its end, or its table."""
    key = place.key.rpartition(".")[2]
    own = (f'{key}"', f"{key}'", f"{key} =", "until =", *TABLE_LINES)
    lines = [line.strip() for line in text.splitlines() if not line.strip().startswith("[")]
    return Counter(line for line in lines if line and not any(word in line for word in own))


@settings(max_examples=200)
@given(data=st.data(), file=files(), place=st.sampled_from(PLACES))
def test_a_change_leaves_everything_else_as_it_was(data: st.DataObject, file: str, place: Place) -> None:
    wish = data.draw(wishes(place))
    try:
        found = change(file.encode(), [Ask(place, wish, alone=True)], NOW, later=True)
    except ConfigurationError as error:
        event(f"refused: {str(error).rpartition(': ')[2][:30]}")
        return
    after = found.after.decode()
    assert without(tomllib.loads(after), place) == without(tomllib.loads(file), place)
    assert not lines_of_something_else(file, place) - lines_of_something_else(after, place)
    assert ("\r\n" in after) == ("\r\n" in file)


@settings(max_examples=100)
@given(data=st.data(), file=files(), place=st.sampled_from(PLACES))
def test_many_changes_at_once_leave_everything_else_as_it_was(data: st.DataObject, file: str, place: Place) -> None:
    wish = data.draw(wishes(place))
    assume(isinstance(wish, Assign) and place.section != ("mode",))
    assert isinstance(wish, Assign)
    try:
        after = rewritten(file, {place: wish.value})
    except ConfigurationError:
        event("refused")
        return
    assert without(tomllib.loads(after), place) == without(tomllib.loads(file), place)
    assert not lines_of_something_else(file, place) - lines_of_something_else(after, place)
