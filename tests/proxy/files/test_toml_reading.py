"""Hostile TOML ends in a message, and in the time that it takes to look at it once."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.files.toml_reading import MAX_DEPTH, MAX_WORD_CHARACTERS, did_you_mean, parse_toml, what_costs_dearly

LINE = 'a = 1\n[topics."x.y"]\nb = """\n two lines\n"""\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "9" * 5000, "line 1: expected at most 256 characters without quotes, found 5000"),
        ("\n\na = 0x" + "f" * 20_000, "line 3: expected at most 256 characters without quotes, found 20002"),
        ("a." * 3000 + "b = 1", f"line 1: expected a key at most {MAX_DEPTH} deep"),
        ("a." * 100_000 + "b = 1", f"line 1: expected a key at most {MAX_DEPTH} deep"),
        ("a . " * 3000 + "b = 1", f"line 1: expected a key at most {MAX_DEPTH} deep"),
        ('"a".' * 3000 + "b = 1", f"line 1: expected a key at most {MAX_DEPTH} deep"),
        ("[" + "a." * 3000 + "b]", f"line 1: expected a key at most {MAX_DEPTH} deep"),
        ("a = " + "[" * 3000, f"line 1: expected brackets at most {MAX_DEPTH} deep"),
        ("a = " + "{b = " * 3000, f"line 1: expected brackets at most {MAX_DEPTH} deep"),
        (LINE + "a." * 20 + "b = 1", "line 6: expected a key"),
        ("a = 2026-99-99", "not TOML"),
        ("a = '", "not TOML"),
        ("\ufeffa = 1", "not TOML: expected UTF-8 without a byte order mark, found one"),
        ('a = """' + '\\"""' * 100_000, "not TOML"),
        ("a = '''" + "''" * 100_000, "not TOML"),
    ],
    ids=range(15),
)
def test_what_would_cost_the_parser_dearly_is_refused_by_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_toml(text.encode(), source="quotas.toml")
    assert str(refused.value).startswith("quotas.toml: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        "a = '" + "." * 10_000 + "'",
        'a = "' + "[" * 10_000 + '"',
        "# " + "." * 10_000,
        "a = [1.5, 2.5, 3.5]\n" * 0 + "a = [" + "1.5, " * 10_000 + "]",
        "\n".join(f"a{n}.b.c = 1.5" for n in range(1000)),
        "\n".join(f"[t.n{n}]" for n in range(1000)),
        f"{'k' * MAX_WORD_CHARACTERS} = 1",
        'a = """x"""""',
        "a = '''x'''''",
    ],
    ids=range(10),
)
def test_what_people_write_is_not_refused(text: str) -> None:
    assert parse_toml(text.encode(), source="x") == tomllib.loads(text)


@given(st.text("a.=[]{}\"'\\\n#,1 ", max_size=60))
def test_whatever_stands_in_it_is_toml_or_a_message(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except ValueError:
        with pytest.raises(ConfigurationError):
            parse_toml(text.encode(), source="x")
        return
    if what_costs_dearly(text) is None:
        assert parse_toml(text.encode(), source="x") == expected


@given(st.text(max_size=200))
def test_the_look_never_fails_otherwise(text: str) -> None:
    costly = what_costs_dearly(text)
    assert costly is None or costly.startswith("line ")


def test_of_a_long_key_that_is_there_twice_the_beginning_is_told_and_the_place() -> None:
    key = "k" * 100_000
    with pytest.raises(ConfigurationError, match=r"q.toml: not TOML: Cannot declare \('kkk.*line 2, column") as caught:
        parse_toml(f'["{key}"]\n["{key}"]\n'.encode(), source="q.toml")
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("50MiB/s", ': text needs quotes: "50MiB/s"'),
        ("50MB   # for the night", ': text needs quotes: "50MB"'),
        ("*", ': text needs quotes: "*"'),
        ("0:101,1:102", ': text needs quotes: "0:101,1:102"'),
        ("unlimited", ': text needs quotes: "unlimited"'),
        ("auto", ': a rate that sets itself is written { auto = true, max = "300MiB/s" }'),
        # Quotes are not what is wrong with these.
        ("5 6", ""),
        ('"5', ""),
        ("5\na.b = 6", ""),
    ],
)
def test_a_value_without_its_quotes_is_told(value: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_toml(f"# ours\na.b = {value}\n".encode(), source="q")
    said = str(raised.value)
    assert said.startswith("q: not TOML: ")
    assert said.partition("(at line ")[2].partition(")")[2] == hint


KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate", "until", "mode.enforce")


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("leader.replication.throtled.rate", "leader.replication.throttled.rate"),
        ("folower.replication.throttled.rate", "follower.replication.throttled.rate"),
        ("leader.rate", "leader.replication.throttled.rate"),
        ("follower.throttled.rate", "follower.replication.throttled.rate"),
        ("untill", "until"),
        ("mode.enforced", "mode.enforce"),
        ("rate", None),
        ("replicas", None),
        ("", None),
        (".", None),
    ],
)
def test_what_was_probably_meant(found: str, meant: str | None) -> None:
    assert did_you_mean(found, KEYS) == ("" if meant is None else f" (did you mean {meant}?)")


def test_where_nothing_is_known_nothing_was_meant() -> None:
    assert did_you_mean("until", ()) == ""
