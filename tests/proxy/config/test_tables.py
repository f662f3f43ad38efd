""""""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest

from proxy.config.settings_values import Address
from proxy.config.tables import AtLeastOne, Bytes, Count, Key, Problems, Seconds, TableReader, Target, keys_of
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    n: Count
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    upstream: Target
    perhaps: Inner | None
    many: tuple[Inner, ...] = ()
    wait_seconds: Annotated[Seconds, Key("wait")] = 0.25
    room: Bytes = 16 * 2**20
    colour: Colour = Colour.RED
    is_on: bool = False
    file: Path = Path("a.txt")
    least: AtLeastOne = 1

    def validate(self) -> Iterator[tuple[str, str]]:
        if self.room < 10 and self.is_on:
            yield "room", "expected 10 or more"


GOOD = {"inner": {"n": 1}, "upstream": "a:1"}


def read(written: object) -> Outer:
    problems = Problems("f.toml")
    table = TableReader(Path("/etc"), problems).table(Outer, "x", written)
    problems.raise_if_any()
    return table


def test_what_is_left_out_has_its_default() -> None:
    assert read(GOOD) == Outer(Inner(1), Address("a", 1), None, file=Path("/etc/a.txt"))


def test_what_is_written_is_taken() -> None:
    written = {
        "perhaps": {"n": 0, "names": ["a", "b"]}, "many": [{"n": 2}], "wait": "2m", "room": "1KiB", "colour": "blue",
        "is_on": True, "file": "/b", "least": 7,
    }  # fmt: skip
    assert read(GOOD | written) == Outer(
        Inner(1), Address("a", 1), Inner(0, ("a", "b")), (Inner(2),), 120.0, 1024, Colour.BLUE,
        is_on=True, file=Path("/b"), least=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        (5, ["x: expected a table, found 5"]),
        ({}, ["x.inner.n: missing", "x.upstream: missing"]),
        (GOOD | {"inner": 5}, ["x.inner: expected a table, found 5"]),
        (GOOD | {"wat": "1s"}, [
            (
                "x.wat: unknown key; expected one of inner, upstream, perhaps, many, wait, room, colour, is_on, file, "
                "least (did you mean wait?)"
            )
        ]),
        (GOOD | {"wait_seconds": 1}, [
            ("x.wait_seconds: unknown key; expected one of inner, upstream, perhaps, many, wait, room, colour, is_on, "
            "file, least")
        ]),
        (GOOD | {"many": {}}, ["x.many: expected a list, found a table"]),
        (GOOD | {"many": [{"n": 1}, 3, {"n": True, "names": [1]}]}, [
            "x.many[1]: expected a table, found 3",
            "x.many[2].n: expected an integer, found true",
            "x.many[2].names[0]: expected text, found 1",
        ]),
        (GOOD | {"colour": "pink", "least": 0, "is_on": 1, "file": "", "upstream": "a:0"}, [
            'x.upstream: expected a port to connect to, found "a:0"',
            'x.colour: expected "red" or "blue", found "pink"',
            "x.is_on: expected true or false, found 1",
            'x.file: expected a path, found ""',
            "x.least: expected an integer >= 1, found 0",
        ]),
        (GOOD | {"room": 5, "is_on": True}, ["x.room: expected 10 or more"]),
        (GOOD | {"room": 5, "is_on": True, "wait": 1}, [
            'x.wait: expected a duration like "250ms" or "10s", found 1'
        ]),
    ],
)  # fmt: skip
def test_every_problem_is_found_by_its_key(written: object, problems: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(written)
    assert [problem.removeprefix("f.toml: ") for problem in caught.value.problems] == problems


def test_defaults_are_shown_as_people_write_them() -> None:
    shown = {name: key.written_default for name, key in keys_of(Outer).items()}
    assert shown == {
        "inner": "", "upstream": "", "perhaps": "", "many": "[]", "wait": "250ms", "room": "16MiB", "colour": "red",
        "is_on": "false", "file": "a.txt", "least": "1",
    }  # fmt: skip


ORIGINS = {"a.0.b": "--set", "made.up.key": "THROTTLE_MADE__UP__KEY"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a[1].b", "proxy.toml: a[1].b: missing"),
        ("a[0].b", "--set: a[0].b: missing"),
        ("made", "proxy.toml: made: missing"),
    ],
)
def test_a_problem_is_of_the_file_or_of_the_override_that_gave_the_value(path: str, message: str) -> None:
    problems = Problems("proxy.toml", ORIGINS)
    problems.add(path, "missing")
    assert path in problems
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == (message,)


def test_an_override_that_made_up_a_table_is_blamed() -> None:
    problems = Problems("proxy.toml", ORIGINS)
    problems.add_unknown("made", "unknown key")
    with pytest.raises(ConfigurationError, match=r"^THROTTLE_MADE__UP__KEY: made\.up\.key: unknown key$"):
        problems.raise_if_any()


def test_what_follows_from_a_problem_is_left_out() -> None:
    problems = Problems("proxy.toml")
    for path in ("a", "a", "a.b", "ab"):
        problems.add(path, "wrong")
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == ("proxy.toml: a: wrong", "proxy.toml: ab: wrong")
