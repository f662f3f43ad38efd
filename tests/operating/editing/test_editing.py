"""Tables of files before and after, then any edit of any file against the promise: nothing else changes. That it can be
taken back, as far as what holds is concerned, is test_changing's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from operating.editing.editing import Assign, Edit, End, Remove, Wish, edit
from operating.editing.facts import Place, Value, facts
from proxy.errors import ConfigurationError
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import Quotas, effective

RATE = "leader.replication.throttled.rate"
OTHER = "follower.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
DEFAULT, OWN = Place(("brokers", "default"), RATE), Place(("brokers", "101"), RATE)
ORDERS, CLICKS = Place(("topics", "orders"), LIST), Place(("topics", "clicks-*"), LIST)
ENFORCE = Place(("mode",), "enforce")
UNTIL, LATER = datetime(2026, 12, 1, 6, tzinfo=UTC), datetime(2026, 12, 2, 6, 30, tzinfo=UTC)
FILE = """\
# Who touches this tells the team.
[brokers.default]
leader.replication.throttled.rate = "50MiB/s"   # half the line
follower.replication.throttled.rate = 52428800

# Its disks are old.
[brokers.101]
"leader.replication.throttled.rate" = "20MiB/s"

[topics.orders]
leader.replication.throttled.replicas = "0:101"
"""
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECTION_THAT_ENDS = f'[brokers.default]\n{RATE} = "70MiB/s"\nuntil = 2026-12-01T06:00:00Z\n'
TEMPORARY = "\n[[schedules]]\nuntil = 2026-12-01T06:00:00Z\n[schedules.brokers.default]\n" + f'{RATE} = "70MiB/s"\n'


def undone(edited: Edit, place: Place) -> bytes:
    content = edited.content
    for wish in edited.undo:
        content = edit(content, place, wish, NOW).content
    return content


def changed(place: Place, wish: Wish, file: str = FILE) -> str:
    """The file afterwards; what takes it back has been tried."""
    edited = edit(file.encode(), place, wish, NOW)
    assert facts(undone(edited, place)) == facts(file.encode())
    parse_quotas(edited.content)
    return edited.content.decode()


@pytest.mark.parametrize(
    ("place", "value", "old", "new"),
    [
        (DEFAULT, "60MiB/s", '"50MiB/s"   # half', '"60MiB/s"   # half'),
        (DEFAULT, 5, '"50MiB/s"   # half', "5   # half"),
        (OWN, "unlimited", '"20MiB/s"', '"unlimited"'),
        (ORDERS, "*", '"0:101"', '"*"'),
    ],
)
def test_a_value_is_replaced_where_it_stands(place: Place, value: Value, old: str, new: str) -> None:
    assert changed(place, Assign(value)) == FILE.replace(old, new)
    assert undone(edit(FILE.encode(), place, Assign(value), NOW), place).decode() == FILE


@pytest.mark.parametrize(
    ("place", "value", "added"),
    [
        (Place(("brokers", "102"), RATE), "1MiB/s", f'\n[brokers.102]\n{RATE} = "1MiB/s"\n'),
        (CLICKS, "*", f'\n[topics."clicks-*"]\n{LIST} = "*"\n'),
        (ENFORCE, False, "\n[mode]\nenforce = false\n"),
    ],
)
def test_a_new_section_goes_to_the_end_and_can_be_taken_back(place: Place, value: Value, added: str) -> None:
    edited = edit(FILE.encode(), place, Assign(value), NOW)
    assert edited.content.decode() == FILE + added
    assert edited.undo == (Remove(),)
    assert undone(edited, place).decode() == FILE


def test_a_new_key_joins_its_section() -> None:
    place = Place(("brokers", "101"), OTHER)
    assert changed(place, Assign(7)) == FILE.replace('"20MiB/s"\n', f'"20MiB/s"\n{OTHER} = 7\n')


def test_what_holds_for_a_time_goes_before_what_holds_anyway() -> None:
    assert changed(DEFAULT, Assign("70MiB/s", UNTIL)) == FILE + TEMPORARY
    assert edit((FILE + TEMPORARY).encode(), DEFAULT, End(), NOW).content.decode() == FILE


def test_where_nothing_holds_anyway_the_section_itself_ends() -> None:
    place = Place(("brokers", "102"), RATE)
    section = f'\n[brokers.102]\n{RATE} = "1MiB/s"\nuntil = 2026-12-01T06:00:00Z\n'
    assert changed(place, Assign("1MiB/s", UNTIL)) == FILE + section
    assert edit((FILE + section).encode(), place, End(), NOW).content.decode() == FILE


@pytest.mark.parametrize("written", [TEMPORARY, SECTION_THAT_ENDS])
def test_what_holds_for_a_time_is_prolonged_in_place(written: str) -> None:
    edited = edit(written.encode(), DEFAULT, Assign("80MiB/s", LATER), NOW)
    prolonged = written.replace("70MiB", "80MiB").replace("2026-12-01T06:00:00Z", "2026-12-02T06:30:00Z")
    assert edited.content.decode() == prolonged
    assert edited.undo == (Assign("70MiB/s", UNTIL),)
    assert changed(DEFAULT, Assign("80MiB/s", LATER), written) == prolonged


def test_a_schedule_with_times_is_left_alone() -> None:
    file = TEMPORARY.replace("until", 'days = ["mon"]\nuntil')
    assert changed(DEFAULT, Assign("80MiB/s", LATER), file).count("until") == 2
    with pytest.raises(ConfigurationError, match="nothing there ends by itself"):
        edit(file.encode(), DEFAULT, End(), NOW)


def test_a_file_that_would_be_empty_says_that_it_means_it() -> None:
    file = f"[brokers.101]\n{RATE} = 5\n"
    assert changed(OWN, Remove(), file) == "# no quotas\n"
    assert changed(OWN, Assign(6), "# no quotas\n") == f"# no quotas\n\n[brokers.101]\n{RATE} = 6\n"


def test_comments_keep_their_section() -> None:
    file = f"[brokers.101]\n# old disks\n{RATE} = 5\n\n# about orders\n[topics.orders]\n{LIST} = '*'\n"
    without = changed(OWN, Remove(), file)
    assert without == file.replace(f"{RATE} = 5\n", "")


@pytest.mark.parametrize(
    ("file", "wish", "problem"),
    [
        ("x", Assign(1), "quotas.toml: not TOML: "),
        ("\udcff", Assign(1), "quotas.toml: not TOML: "),
        (FILE.replace("[brokers.101]", "[brokers.7]"), Remove(), f"brokers.101.{RATE}: not there, so there is nothing"),
        (FILE, End(), f"quotas.toml: brokers.101.{RATE}: nothing there ends by itself (no until)"),
        # A rate as a table of its own: what is below it would go with it.
        (
            f'[brokers.101.{RATE}]\nwithin = "2h"\nmax = 5\n\n# of the mode\n[mode]\nenforce = true\n',
            Assign(1),
            "cannot be edited here without changing something else",
        ),
        ("brokers = {7 = {}}", Assign(1), "cannot be edited here without changing something else"),
        ("schedules = []\n[brokers.101]\na = 1", Assign(1, UNTIL), "cannot be edited here"),
    ],
)
def test_what_cannot_be_done_is_refused(file: str, wish: Wish, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        edit(file.encode(errors="surrogateescape"), OWN, wish, NOW)
    assert problem in str(caught.value)


def test_line_ends_stay() -> None:
    file = FILE.replace("\n", "\r\n").encode()
    edited = edit(file, OWN, Assign("1MiB/s", UNTIL), NOW).content
    assert edited.startswith(file)
    assert b"\n" not in edited.replace(b"\r\n", b"")


SECTIONS = {DEFAULT.section, OWN.section, ORDERS.section, CLICKS.section, ENFORCE.section}
PLACES = st.sampled_from([DEFAULT, OWN, ORDERS, CLICKS, ENFORCE, Place(("brokers", "101"), OTHER)])


@st.composite
def files(draw: st.DrawFn) -> str:
    """Sections in any order, keys spelt either way, comments anywhere."""
    lines: list[str] = draw(st.lists(st.just("# first"), max_size=1))

    def section(header: str, kind: str) -> None:
        lines.append(header)
        keys = {"brokers": [RATE, OTHER], "topics": [LIST], "mode": ["enforce"]}[kind]
        said = draw(st.lists(st.sampled_from(keys), unique=True, min_size=kind == "mode"))
        for key in said:
            value = {"brokers": "5", "topics": '"*"', "mode": "false"}[kind]
            spelt = key if draw(st.booleans()) else f'"{key}"'
            lines.extend(draw(st.lists(st.sampled_from(["", "  # inside", "# inside"]), max_size=1)))
            lines.append(f"{spelt} = {value}{draw(st.sampled_from(['', ' # beside']))}")
        if said and draw(st.booleans()):
            lines.append("until = 2026-12-01T06:00:00Z")
        lines.extend(draw(st.lists(st.sampled_from(["", "# after"]), max_size=2)))

    for kind, *name in draw(st.permutations(sorted(SECTIONS)))[: draw(st.integers(0, 5))]:
        section(f"[{kind}{''.join(f'.{part!r}' for part in name)}]", kind)
    for _ in range(draw(st.integers(0, 2))):
        lines.append("[[schedules]]")
        lines.append(draw(st.sampled_from(["days = ['mon']", "until = 2026-12-01T06:00:00Z"])))
        section("[schedules.brokers.default]", "brokers")
    return "\n".join(lines) + "\n"


ASSIGN = st.builds(Assign, st.sampled_from(["7MiB/s", 7]), st.sampled_from([None, UNTIL, LATER]))
WISHES = st.one_of(st.just(Remove()), st.just(End()), ASSIGN, ASSIGN, ASSIGN)


def held_for_good(found: dict[Any, Any], place: Place) -> Any:
    return found.get((*place.section, place.key))


def unnumbered(found: dict[Any, Any]) -> set[tuple[Any, str]]:
    """Schedules move up when one before them has nothing left."""
    return {(tuple(word for word in path if not isinstance(word, int)), repr(value)) for path, value in found.items()}


EMPTIED_SCHEDULE = """\
[[schedules]]
until = 2026-12-01T06:00:00Z
[schedules.brokers.default]
"leader.replication.throttled.rate" = 5
[[schedules]]
days = ['mon']
"""


@settings(max_examples=100)
@given(file=files(), place=PLACES, wish=WISHES)
@example(file=EMPTIED_SCHEDULE, place=Place(("brokers", "default"), RATE), wish=Remove())
def test_any_edit_changes_one_thing(file: str, place: Place, wish: Wish) -> None:
    content = file.encode()
    before = facts(content)
    try:
        edited = edit(content, place, wish, NOW)
    except ConfigurationError:
        # Nothing to remove or to end; every value can be written.
        event("refused")
        if isinstance(wish, Assign):
            raise
        return
    after = facts(edited.content)
    different = {path for path, _ in unnumbered(before) ^ unnumbered(after)}
    if not isinstance(wish, End):
        assert all(path[-1] in (place.key, "until") for path in different)
    if isinstance(wish, Assign) and wish.until is None:
        assert held_for_good(after, place) == wish.value
    if isinstance(wish, Remove):
        assert held_for_good(after, place) is None
    kept = [line.strip() for line in file.splitlines() if line.strip().startswith("#")]
    assert [line.strip() for line in edited.content.decode().splitlines() if line.strip() in {*kept}] == kept


ODD = (
    "brokers = 5\n", "brokers = []\n", "[brokers]\n101 = 5\n", "[brokers]\n101.leader = 5\n", "[brokers.101.leader]\n",
    f"[brokers.101]\n{RATE}.x = 5\n", "brokers.101.until = 3\n", "schedules = 5\n", "schedules = [5]\n",
    "schedules = [{until = 5}]\n", "[schedules]\nx = 1\n", "[[schedules]]\n", "[[schedules]]\n[[schedules.brokers]]\n",
    f"[[schedules]]\nuntil = 2026-12-01T06:00:00Z\nbrokers.101.'{RATE}' = 5\n", "[[brokers]]\n", "mode = 5\n",
    "[mode]\n",
    "mode.enforce = true\n", "[[mode]]\n", "[brokers.101.leader.replication.throttled]\nrate = 5\n",
    "[brokers.101.leader.replication]\n'throttled.rate' = 5\n", "topics = {orders = {}}\n",
)  # fmt: skip


def held(content: bytes) -> list[Quotas]:
    """Before and after the only time there is in `ODD`."""
    quota_file = parse_quotas(content)
    return [effective(quota_file, 101, UNTIL + timedelta(hours=hours)) for hours in (-1, 0)]


@settings(max_examples=200)
@given(parts=st.lists(st.sampled_from(ODD), max_size=3, unique=True), place=PLACES, wish=WISHES)
def test_files_of_any_shape_are_edited_or_refused(parts: list[str], place: Place, wish: Wish) -> None:
    content = "".join(parts).encode()
    try:
        edited = edit(content, place, wish, NOW)
        before = held(content)
        held(edited.content)
    except ConfigurationError:
        event("refused")
        return
    after = held(undone(edited, place))
    assert all(map(Quotas.means_the_same_as, after, before))


@pytest.mark.parametrize("place", [DEFAULT, OWN, ORDERS, CLICKS, ENFORCE, Place(("peers", "102"), RATE)])
@pytest.mark.parametrize("until", [None, UNTIL])
def test_what_a_file_with_crlf_gets_ends_with_crlf(place: Place, until: datetime | None) -> None:
    value: Value = {RATE: "5MiB/s", LIST: "1:101", "enforce": False}[place.key]
    before = FILE.replace("\n", "\r\n").encode()
    found = edit(before, place, Assign(value, until), NOW)
    assert found.content.replace(b"\r\n", b"\n") == edit(FILE.encode(), place, Assign(value, until), NOW).content
    for content in (found.content, undone(found, place)):
        assert content.count(b"\n") == content.count(b"\r\n"), content
