from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.editing.facts import Place
from operating.editing.rewriting import Said, rewritten
from proxy.errors import ConfigurationError
from proxy.quotas import parse_quotas

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
FILE = """\
# Quotas of the east cluster. Ask Ana before you raise them.

[brokers.default]                                  # every broker
leader.replication.throttled.rate = "50MiB/s"      # half a link
[brokers.101]
leader.replication.throttled.rate = "20MB/s"

# the move of Tuesday
[topics.orders]
leader.replication.throttled.replicas = "0:101,1:101"
"follower.replication.throttled.replicas" = "*"

[topics."clicks-*"]
follower.replication.throttled.replicas = "*"
[mode]
enforce = true
"""


def place_of(place: tuple[str, str, str]) -> Place:
    return Place(place[:2], place[2])


def changed(*changes: tuple[Place, Any]) -> str:
    return rewritten(FILE, dict(changes))


def swapped(*lines: tuple[str, str]) -> str:
    text = FILE
    for before, after in lines:
        assert before in text
        text = text.replace(before, after, 1)
    return text


@pytest.mark.parametrize(
    ("place", "value", "before", "after"),
    [
        (("brokers", "default", LEADER_RATE), "80MiB/s", '"50MiB/s"      # half', '"80MiB/s"      # half'),
        (("brokers", "101", LEADER_RATE), 20971520, '"20MB/s"', "20971520"),
        (("topics", "orders", FOLLOWER_LIST), "0:103", '"*"\n\n[topics."c', '"0:103"\n\n[topics."c'),
        # A new key stands below the section's last one, not below what leads on to the next section.
        (("brokers", "101", FOLLOWER_RATE), 5, '"20MB/s"\n', f'"20MB/s"\n{FOLLOWER_RATE} = 5\n'),
        (("brokers", "default", "until"), datetime(2026, 12, 1, 6, tzinfo=UTC),
         "# half a link\n", "# half a link\nuntil = 2026-12-01T06:00:00Z\n"),
        # A new section stands below the last of its kind.
        (("brokers", "102", LEADER_RATE), 5, '"20MB/s"\n', f'"20MB/s"\n\n[brokers.102]\n{LEADER_RATE} = 5\n'),
        (("topics", "p.q", LEADER_LIST), "*", '"*"\n[mode]', f'"*"\n\n[topics."p.q"]\n{LEADER_LIST} = "*"\n[mode]'),
    ],
)  # fmt: skip
def test_a_key_is_set_and_nothing_else_is_touched(
    place: tuple[str, str, str], value: Any, before: str, after: str
) -> None:
    text = changed((place_of(place), value))
    assert text == swapped((before, after))
    assert Said(text).at(place_of(place)) == value


@pytest.mark.parametrize(
    ("place", "before", "after"),
    [
        (("topics", "orders", FOLLOWER_LIST), f'"{FOLLOWER_LIST}" = "*"\n', ""),
        # The last key goes with its section; the comment was the next one's.
        (("brokers", "101", LEADER_RATE), f'[brokers.101]\n{LEADER_RATE} = "20MB/s"\n', ""),
        (("topics", "clicks-*", FOLLOWER_LIST), f'[topics."clicks-*"]\n{FOLLOWER_LIST} = "*"\n', ""),
        # What is not there needs no removing.
        (("brokers", "101", FOLLOWER_RATE), "", ""),
        (("topics", "none", FOLLOWER_LIST), "", ""),
    ],
)
def test_a_key_is_removed_and_nothing_else_is_touched(place: tuple[str, str, str], before: str, after: str) -> None:
    text = changed((place_of(place), None))
    assert text == swapped((before, after))
    assert Said(text).at(place_of(place)) is None


def test_all_that_is_removed_leaves_the_comments() -> None:
    places = [
        Place(("brokers", "default"), LEADER_RATE),
        Place(("brokers", "101"), LEADER_RATE),
        Place(("topics", "orders"), LEADER_LIST),
        Place(("topics", "orders"), FOLLOWER_LIST),
        Place(("topics", "clicks-*"), FOLLOWER_LIST),
    ]
    text = changed(*((place, None) for place in places))
    assert tomllib.loads(text) == {"mode": {"enforce": True}}
    assert "# Quotas of the east cluster. Ask Ana before you raise them.\n" in text
    assert "# the move of Tuesday\n" in text


def test_a_file_is_never_left_empty() -> None:
    """An empty one would be refused as torn."""
    text = rewritten(f"[brokers.101]\n{LEADER_RATE} = 5\n", {Place(("brokers", "101"), LEADER_RATE): None})
    assert text == "# no quotas: everything passes\n"


@pytest.mark.parametrize(
    "text",
    [
        f"[brokers.101]\n{LEADER_RATE} = 5\n",
        f'[brokers]\n101."{LEADER_RATE}" = 5\n',
        f"brokers.101.{LEADER_RATE} = 5\n",
        "[brokers.101.leader.replication.throttled]\nrate = 5\n",
        "[brokers]\n[brokers.101.leader]\nreplication.throttled.rate = 5\n",
        f"[brokers]\n101 = {{ {LEADER_RATE} = 5 }}\n",
    ],
)
def test_a_key_is_found_however_it_is_spelt(text: str) -> None:
    place = Place(("brokers", "101"), LEADER_RATE)
    assert Said(text).at(place) == 5
    assert Said(rewritten(text, {place: 7})).at(place) == 7


def test_a_layout_that_does_not_allow_it_is_refused() -> None:
    text = f'[brokers]\n101 = {{ {LEADER_RATE} = 5, "until" = 2026-12-01T06:00:00Z }}\n'
    with pytest.raises(ConfigurationError, match=r"q.toml: is laid out so that it cannot be changed"):
        rewritten(text, {Place(("brokers", "101"), LEADER_RATE): None}, source="q.toml")


APART = f"""\
[brokers.default]
{LEADER_RATE} = "50MiB/s"

[topics."*"]
{LEADER_LIST} = "*"

# by `set --broker`
[brokers.101]
{LEADER_RATE} = "20MiB/s" # since Tuesday
"""
"""As `set --broker` leaves a file whose brokers stood above its topics."""


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({("brokers", "102", LEADER_RATE): 5}, f"{APART}\n[brokers.102]\n{LEADER_RATE} = 5\n"),
        ({("brokers", "102", LEADER_RATE): 5, ("brokers", "103", FOLLOWER_RATE): 7},
         f"{APART}\n[brokers.102]\n{LEADER_RATE} = 5\n\n[brokers.103]\n{FOLLOWER_RATE} = 7\n"),
        ({("brokers", "102", LEADER_RATE): 5, ("brokers", "102", FOLLOWER_RATE): 7},
         f"{APART}\n[brokers.102]\n{LEADER_RATE} = 5\n{FOLLOWER_RATE} = 7\n"),
        ({("brokers", "101", FOLLOWER_RATE): 7}, f"{APART}{FOLLOWER_RATE} = 7\n"),
        ({("brokers", "default", FOLLOWER_RATE): 7},
         APART.replace('"50MiB/s"\n', f'"50MiB/s"\n{FOLLOWER_RATE} = 7\n')),
        ({("brokers", "101", LEADER_RATE): 5}, APART.replace('"20MiB/s"', "5")),
        ({("brokers", "default", LEADER_RATE): None},
         APART.replace(f'[brokers.default]\n{LEADER_RATE} = "50MiB/s"\n\n', "")),
        ({("topics", "orders", LEADER_LIST): "0:101"},
         APART.replace("\n# by", f'\n[topics.orders]\n{LEADER_LIST} = "0:101"\n\n# by')),
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sections_of_a_kind_may_stand_apart(changes: dict[tuple[str, str, str], Any], after: str, newline: str) -> None:
    wanted = {place_of(place): value for place, value in changes.items()}
    assert rewritten(APART.replace("\n", newline), wanted).splitlines() == after.splitlines()


def test_what_would_lose_a_comment_is_refused() -> None:
    """tomlkit takes what is below a rate that is a table of its own for a part of it."""
    text = f'[brokers.101.{LEADER_RATE}]\nwithin = "2h"\nmax = 5\n\n# of the mode\n[mode]\nenforce = true\n'
    with pytest.raises(ConfigurationError, match=r"is laid out so that it cannot be changed"):
        rewritten(text, {Place(("brokers", "101"), LEADER_RATE): 5})


def test_what_is_no_toml_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"q.toml: not TOML: Invalid"):
        rewritten("[", {}, source="q.toml")
    with pytest.raises(ConfigurationError, match="not TOML"):
        Said("[")


def test_places_are_shown_as_the_file_has_them() -> None:
    assert str(Place(("topics", "pay.ments"), LEADER_LIST)) == f'topics."pay.ments".{LEADER_LIST}'
    assert str(Place(("brokers", "101"), "until")) == "brokers.101.until"


_PLACES = st.one_of(
    st.sampled_from(
        [Place(("brokers", name), key) for name in ("default", "101", "102") for key in (LEADER_RATE, FOLLOWER_RATE)]
    ),
    st.sampled_from(
        [Place(("topics", name), key) for name in ("orders", "p.q", "clicks-*") for key in (LEADER_LIST, FOLLOWER_LIST)]
    ),
)


@given(st.lists(st.tuples(_PLACES, st.booleans()), max_size=12), st.booleans())
def test_whatever_is_changed_the_file_stays_good_and_says_it(
    wanted: list[tuple[Place, bool]], from_nothing: bool
) -> None:
    changes = {
        place: (7 if place.section[0] == "brokers" else "0:101") if present else None for place, present in wanted
    }
    text = rewritten("# begin\n" if from_nothing else FILE, changes)
    parse_quotas(text.encode())
    for place, value in changes.items():
        assert Said(text).at(place) == value
    for comment in ["# begin\n"] if from_nothing else ["# Quotas of the east cluster", "# the move of Tuesday\n"]:
        assert comment in text


def test_a_large_file_takes_no_minutes() -> None:
    """Hundreds of topics: one parse for all changes."""
    places = [Place(("topics", f"topic-{n}"), LEADER_LIST) for n in range(300)]
    text = rewritten(FILE, dict.fromkeys(places, "0:101"))
    assert text.count("[topics.topic-") == 300
    assert rewritten(text, dict.fromkeys(places)).count("[topics.topic-") == 0


@pytest.mark.parametrize(
    "place",
    [("brokers", "default", LEADER_RATE), ("brokers", "104", FOLLOWER_RATE), ("topics", "payments", LEADER_LIST)],
)
def test_what_a_file_with_crlf_gets_ends_with_crlf(place: tuple[str, str, str]) -> None:
    text = rewritten(FILE.replace("\n", "\r\n"), {place_of(place): "0:101" if place[0] == "topics" else "5MiB/s"})
    assert text.count("\n") == text.count("\r\n"), text
    mixed = rewritten("# one\r\n" + FILE, {place_of(place): None})
    assert mixed.count("\r\n") == 1
