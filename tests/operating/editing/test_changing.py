"""What is asked for holds, or it is refused with what to ask for instead; and what is told to take it back does so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from operating.editing.asks import Ask
from operating.editing.changing import QuotaChange, ShadowedError, change
from operating.editing.editing import Assign, End, Remove, Wish
from operating.editing.facts import Place
from proxy.errors import ConfigurationError
from proxy.quotas import whole_file
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import Quotas, effective

MIB = 1 << 20
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=30)
RATE = "leader.replication.throttled.rate"
OTHER = "follower.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
DEFAULT, OWN = Place(("brokers", "default"), RATE), Place(("brokers", "101"), RATE)
EVERY, ORDERS = Place(("brokers", "101"), LIST), Place(("topics", "orders"), LIST)
ENFORCE = Place(("mode",), "enforce")
BASE = f'[brokers.101]\n{RATE} = "20MiB/s"\n'
"""What holds anyway."""


def schedule(section: str, value: str, *, key: str = RATE, when: str = "until = 2026-11-21T13:00:00Z") -> str:
    return f"\n[[schedules]]\n{when}\n[schedules.{section}]\n{key} = {value}\n"


TEMPORARY = schedule("brokers.101", '"12MiB/s"')
AT_NOON = schedule("brokers.101", '"200MiB/s"', when='from = "11:00"\nto = "14:00"')
"""A schedule by the clock that holds now."""
AT_NIGHT = AT_NOON.replace("11:00", "22:00").replace("14:00", "06:00")
OVER = schedule("brokers.101", '"3MiB/s"', when="until = 2026-11-20T00:00:00Z")


def mib(text: str, broker: int = 101, at: datetime = NOW) -> float:
    return effective(parse_quotas(text.encode()), broker, at).leader.bytes_per_second / MIB


def ask(file: str, place: Place, wish: Wish, **rest: Any) -> QuotaChange:
    alone = rest.pop("alone", False)
    return change(file.encode(), [Ask(place, wish, alone)], NOW, source="q.toml", **rest)


def undone(done: QuotaChange) -> str:
    assert done.undo is not None
    return change(done.after, done.undo, NOW, later=True).after.decode() if done.undo else done.after.decode()


@pytest.mark.parametrize(
    ("file", "place", "wish", "now_mib", "soon_mib", "tomorrow_mib"),
    [
        # The incident: 12 MiB/s for an hour, and then 1 MiB/s at once.
        (BASE + TEMPORARY, OWN, Assign("1MiB/s"), 1, 1, 1),
        (TEMPORARY, OWN, Assign("1MiB/s"), 1, 1, 1),
        # Of two that hold at once the later in the file goes first: both are changed.
        (BASE + TEMPORARY + schedule("brokers.101", '"15MiB/s"', when="until = 2026-11-21T12:30:00Z"),
         OWN, Assign("1MiB/s"), 1, 1, 1),
        # A section that ends because of `--for` where there was none: what is said now is for good.
        (f'[brokers.101]\n{RATE} = "12MiB/s"\nuntil = 2026-11-21T13:00:00Z\n', OWN, Assign("1MiB/s"), 1, 1, 1),
        # A section that has ended: nothing else of it comes to life again.
        (f'[brokers.101]\n{RATE} = 9\n{LIST} = "*"\nuntil = 2026-11-20T00:00:00Z\n', OWN, Assign("1MiB/s"), 1, 1, 1),
        # For a time: what held before holds again.
        (BASE, OWN, Assign("1MiB/s", SOON), 1, 20, 20),
        (BASE + TEMPORARY, OWN, Assign("1MiB/s", SOON), 1, 20, 20),
        (BASE + TEMPORARY, OWN, Assign("1MiB/s", LATER), 1, 1, 20),
        # Before a schedule by the clock, which goes first of what stands above it.
        (BASE + AT_NOON, OWN, Assign("1MiB/s", SOON), 1, 200, 20),
        (BASE + TEMPORARY + AT_NOON, OWN, Assign("1MiB/s", SOON), 1, 200, 20),
        (BASE + AT_NIGHT, OWN, Assign("1MiB/s", LATER), 1, 1, 20),
        (BASE + TEMPORARY + AT_NIGHT, OWN, Assign("1MiB/s", LATER), 1, 1, 20),
        (AT_NIGHT, OWN, Assign("1MiB/s", LATER), 1, 1, float("inf")),
        # Taken out.
        (BASE + TEMPORARY, OWN, Remove(), float("inf"), float("inf"), float("inf")),
        (TEMPORARY, OWN, Remove(), float("inf"), float("inf"), float("inf")),
        (BASE + TEMPORARY, OWN, End(), 20, 20, 20),
        (BASE + OVER, OWN, Assign("1MiB/s", SOON), 1, 20, 20),
    ],
)  # fmt: skip
def test_the_newest_word_wins(
    file: str, place: Place, wish: Wish, now_mib: float, soon_mib: float, tomorrow_mib: float
) -> None:
    done = ask(file, place, wish)
    after = done.after.decode()
    assert [mib(after, at=at) for at in (NOW, SOON, LATER)] == [now_mib, soon_mib, tomorrow_mib]
    back = undone(done)
    assert [mib(back, at=at) for at in (NOW, SOON, LATER)] == [mib(file, at=at) for at in (NOW, SOON, LATER)]


def test_the_schedules_entry_is_changed_too_and_said_so() -> None:
    done = ask(BASE + TEMPORARY, OWN, Assign("1MiB/s"))
    assert done.after.decode() == (BASE + TEMPORARY).replace('"20MiB/s"', '"1MiB/s"').replace('"12MiB/s"', '"1MiB/s"')
    assert done.entries == ("schedules[0].brokers.101",)
    assert done.undo == (Ask(OWN, Assign("20MiB/s"), alone=True), Ask(OWN, Assign("12MiB/s", SOON), alone=True))
    assert undone(done) == BASE + TEMPORARY


@pytest.mark.parametrize("blank", ["", "\n", " \r\n\t"])
@pytest.mark.parametrize("wish", [Assign("1MiB/s"), Assign("1MiB/s", SOON), Remove(), End()])
def test_a_file_that_is_half_written_is_not_taken_for_one_without_quotas(blank: str, wish: Wish) -> None:
    with pytest.raises(ConfigurationError, match=r"^q.toml: expected TOML, found nothing \(a comment is enough"):
        ask(blank, OWN, wish)


def test_a_change_that_no_sidecar_would_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    most_bytes = 4096  # of 4 MiB the editor takes 10 s
    monkeypatch.setattr(whole_file, "MOST_BYTES", most_bytes)
    longest = BASE + "#" * (most_bytes - len(BASE) - 1) + "\n"
    assert ask(longest, OWN, Assign("30MiB/s")).changes_something
    with pytest.raises(ConfigurationError, match=f"^q.toml: expected at most {most_bytes} bytes, found"):
        ask(longest, OWN, Assign("300MiB/s"))


DEFAULTS = f'[brokers.default]\n{RATE} = "50MiB/s"\n'
PLANNED = DEFAULTS + f"[brokers.101]\n{RATE} = 5\n[brokers.102]\n{OTHER} = 7\n"
"""As `plan --write` leaves it."""


@pytest.mark.parametrize(
    ("file", "place", "wish", "first", "instead"),
    [
        # The default, after `plan --write`.
        (PLANNED, DEFAULT, Assign("1MiB/s"), "brokers.101 goes first on broker 101, and says 5 B/s",
         [Ask(DEFAULT, Assign("1MiB/s"), alone=True), Ask(OWN, Assign("1MiB/s"))]),
        (PLANNED, DEFAULT, Assign("1MiB/s", SOON), "brokers.101 goes first on broker 101",
         [Ask(DEFAULT, Assign("1MiB/s", SOON), alone=True), Ask(OWN, Assign("1MiB/s", SOON))]),
        (PLANNED, DEFAULT, Remove(), "brokers.101 goes first on broker 101",
         [Ask(DEFAULT, Remove(), alone=True), Ask(OWN, Remove())]),
        # What is said already, and does not hold.
        (PLANNED, DEFAULT, Assign("50MiB/s"), "brokers.101 goes first",
         [Ask(DEFAULT, Assign("50MiB/s"), alone=True), Ask(OWN, Assign("50MiB/s"))]),
        # A schedule by the clock.
        (BASE + AT_NOON, OWN, Assign("1MiB/s"),
         "schedules[0].brokers.101 goes first on broker 101 until 2026-11-21T14:00:00Z, and says 200.00 MiB/s",
         [Ask(OWN, Assign("1MiB/s", datetime(2026, 11, 21, 14, tzinfo=UTC)))]),
        (DEFAULTS + BASE + AT_NOON, DEFAULT, Assign("1MiB/s"), "schedules[0].brokers.101 goes first on broker 101",
         [Ask(DEFAULT, Assign("1MiB/s"), alone=True),
          Ask(OWN, Assign("1MiB/s", datetime(2026, 11, 21, 14, tzinfo=UTC)))]),
        (BASE + AT_NOON, OWN, Remove(), "schedules[0].brokers.101 goes first on broker 101 until", []),
        ("[mode]\nenforce = true\n" + schedule("mode", "false", key="enforce", when='days = ["sat"]'),
         ENFORCE, Assign(True), "schedules[0].mode goes first until 2026-11-22T00:00:00Z",
         [Ask(ENFORCE, Assign(True, datetime(2026, 11, 22, tzinfo=UTC)))]),
        # A list for every topic goes before a broker's own.
        (f'[topics."*"]\n{LIST} = "*"\n', EVERY, Assign(""), 'topics."*" goes first on broker 101, and says "*"', []),
    ],
)  # fmt: skip
def test_what_would_not_hold_is_refused_with_what_goes_first(
    file: str, place: Place, wish: Wish, first: str, instead: list[Ask]
) -> None:
    with pytest.raises(ShadowedError) as caught:
        ask(file, place, wish)
    assert str(caught.value).startswith(f"q.toml: {place}: nothing is changed: ")
    assert first in str(caught.value)
    assert list(caught.value.instead) == instead
    if instead:
        done = change(file.encode(), instead, NOW)
        assert done.changes_something
        assert not done.shadows


def test_the_default_alone_may_be_changed_where_brokers_have_their_own() -> None:
    done = ask(PLANNED, DEFAULT, Assign("1MiB/s"), alone=True)
    assert {(effect.broker, effect.after.leader.bytes_per_second) for effect in done.effects} == {
        (102, MIB), (None, MIB)
    }  # fmt: skip
    assert undone(done) == PLANNED


def test_a_default_that_nobody_who_reads_the_file_follows_is_refused() -> None:
    with pytest.raises(ShadowedError, match=r"brokers\.101 goes first on broker 101"):
        ask(PLANNED, DEFAULT, Assign("1MiB/s"), alone=True, readers=[101])
    assert ask(PLANNED, DEFAULT, Assign("1MiB/s"), readers=[102]).changes_something


def test_what_will_hold_later_can_be_written_if_that_is_said() -> None:
    done = ask(BASE + AT_NOON, OWN, Assign("1MiB/s"), later=True)
    assert [shadow.section for shadow in done.shadows] == ["schedules[0].brokers.101"]
    assert [(mib(done.after.decode(), at=at)) for at in (NOW, LATER)] == [200, 1]
    assert undone(done) == BASE + AT_NOON
    # What changes nothing at all is refused all the same.
    with pytest.raises(ShadowedError):
        ask(BASE + AT_NOON, OWN, Assign("20MiB/s"), later=True)


def test_what_holds_already_is_no_change() -> None:
    done = ask(BASE + OVER, OWN, Assign("20MiB/s"))
    assert not done.changes_something
    assert (done.undo, done.swept) == ((), ())


def test_what_is_over_is_taken_out_by_whoever_writes_next() -> None:
    """A comment in a schedule may be of what comes next: it stays."""
    section = f"\n[brokers.107]\n{RATE} = 5\nuntil = 2026-11-21T12:00:00Z\n"
    done = ask(BASE + "# ours\n" + OVER + "# theirs\n" + AT_NIGHT + section, OWN, Assign("1MiB/s"))
    assert done.after.decode() == BASE.replace("20MiB", "1MiB") + "# ours\n\n# theirs\n" + AT_NIGHT
    assert done.swept == ("schedules[0]", "brokers.107")


def test_what_had_ended_needs_no_undo() -> None:
    file = f"[brokers.101]\n{RATE} = 5\n{OTHER} = 6\nuntil = 2026-11-20T00:00:00Z\n"
    done = ask(file, OWN, Remove())
    assert (done.changes_something, done.undo) == (True, ())


def test_several_places_are_changed_at_once_or_not_at_all() -> None:
    asks = [Ask(OWN, Assign("1MiB/s")), Ask(Place(("brokers", "102"), RATE), Assign("2MiB/s"))]
    done = change(BASE.encode(), asks, NOW)
    assert [mib(done.after.decode(), broker) for broker in (101, 102)] == [1, 2]
    assert undone(done) == BASE
    with pytest.raises(ConfigurationError, match="expected bytes per second"):
        change(BASE.encode(), [*asks, Ask(OWN, Assign("x"))], NOW)


def test_more_schedules_than_any_file_may_have_are_refused_before_anything_is_edited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operating.editing.changing.edit", None)  # tomlkit would take six seconds for these
    with pytest.raises(ConfigurationError, match=r"^q\.toml: schedules: expected at most 64, found 2000$"):
        ask(BASE + AT_NIGHT * 2000 + OVER * 3, OWN, Assign("10MiB/s"))


def test_schedules_that_are_over_do_not_count_where_the_file_is_changed() -> None:
    done = ask(BASE + AT_NIGHT * 64 + OVER, OWN, Assign("10MiB/s"))
    assert mib(done.after.decode()) == 10


def test_brokers_that_a_list_names_meet_what_is_changed_in_it() -> None:
    """Each of them throttles what stands beside its own id, and nobody else does."""
    file = f'[topics.orders]\n{LIST} = "0:101,1:102"\n' + schedule("topics.orders", '"2:103"', key=LIST)
    assert {effect.broker for effect in ask(file, ORDERS, Assign("0:101,7:104")).effects} == {101, 103, 104}
    alone = f'[topics.orders]\n{LIST} = "0:101,1:102"\n'
    assert {effect.broker for effect in ask(alone, ORDERS, Assign("0:101")).effects} == {102}
    assert {effect.broker for effect in ask(alone, ORDERS, Assign("*")).effects} == {101, 102, None}
    assert {effect.broker for effect in ask(alone, ORDERS, Remove()).effects} == {101, 102, None}


def test_the_metadata_log_is_never_throttled() -> None:
    with pytest.raises(ConfigurationError, match="the metadata log is never throttled: nothing is changed"):
        ask(BASE, Place(("topics", "__cluster_metadata"), LIST), Assign("*"))


def test_where_no_command_takes_it_back_none_is_told() -> None:
    """What is written for a time goes to the end, and here it would go before the schedule of the night."""
    done = ask(BASE + schedule("brokers.101", '"12MiB/s"', when="until = 2026-11-25T00:00:00Z") + AT_NIGHT, OWN, End())
    assert mib(done.after.decode()) == 20
    assert done.undo is None


PLACES = st.sampled_from([DEFAULT, OWN, EVERY, ORDERS, ENFORCE, Place(("brokers", "102"), OTHER)])
WHENS = [
    "until = 2026-11-21T13:00:00Z", "until = 2026-11-22T09:00:00Z", "until = 2026-11-20T00:00:00Z",
    'days = ["sat"]', 'from = "22:00"\nto = "06:00"', 'from = "11:00"\nto = "14:00"\nuntil = 2026-12-01T06:00:00Z',
]  # fmt: skip
VALUES = {RATE: ["5", '"unlimited"'], OTHER: ["6"], LIST: ['"*"', '""'], "enforce": ["false", "true"]}


@st.composite
def sections(draw: st.DrawFn, lead: str = "") -> str:
    lines: list[str] = []
    kinds = {"brokers.default": [RATE, OTHER], "brokers.101": [RATE, OTHER, LIST], "brokers.102": [OTHER],
             "topics.orders": [LIST], "mode": ["enforce"]}  # fmt: skip
    for header in draw(st.lists(st.sampled_from(sorted(kinds)), unique=True, min_size=bool(lead), max_size=3)):
        lines += [f"[{lead}{header}]"]
        lines += [f"{key} = {draw(st.sampled_from(VALUES[key]))}"
                  for key in draw(st.lists(st.sampled_from(kinds[header]), unique=True, min_size=1))]  # fmt: skip
        lines += draw(st.sampled_from([[], [], [], ["until = 2026-11-21T15:00:00Z"], ["until = 2026-11-20T00:00:00Z"]]))
    return "\n".join(lines)


@st.composite
def files(draw: st.DrawFn) -> str:
    parts = ["# ours", draw(sections())]
    for when in draw(st.lists(st.sampled_from(WHENS), max_size=3)):
        parts += ["[[schedules]]", when, draw(sections("schedules."))]
    return "\n".join(parts) + "\n"


VALUES_OF = {RATE: ["7MiB/s", 5], OTHER: [7], LIST: ["*", "", "0:101"], "enforce": [True, False]}
MOMENTS = [NOW + timedelta(hours=hours) for hours in (0, 1, 2, 3, 11, 21, 37, 200)]


def held(content: bytes) -> list[Quotas]:
    return [effective(parse_quotas(content), broker, at) for broker in (101, 102, 103) for at in MOMENTS]


def are_the_same(one: bytes, other: bytes) -> bool:
    return all(map(Quotas.means_the_same_as, held(one), held(other)))


@pytest.mark.timeout(180)
@settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data(), file=files(), place=PLACES, later=st.booleans(), alone=st.booleans())
def test_whatever_is_asked_holds_or_is_refused_and_its_undo_really_undoes(
    data: st.DataObject, file: str, place: Place, later: bool, alone: bool
) -> None:
    values: list[Any] = VALUES_OF[place.key][: 2 if place == EVERY else None]
    value = data.draw(st.sampled_from(values))
    wish = data.draw(st.sampled_from([Remove(), End(), Assign(value), Assign(value, SOON), Assign(value, LATER)]))
    content, refused = file.encode(), None
    try:
        done = change(content, [Ask(place, wish, alone)], NOW, later=later)
    except ShadowedError as error:
        event("refused")
        refused = error
    except ConfigurationError:
        # Nothing to remove or to end; every value can be written.
        event("not there")
        if isinstance(wish, Assign):
            raise
        return
    if refused is not None:
        assert refused.shadows
        assert not refused.instead or not change(content, refused.instead, NOW).shadows
        return
    if not done.changes_something:
        event("said already")
        assert are_the_same(content, done.after)
        return
    event("changed")
    assert later or not done.shadows
    if done.undo is None:
        event("no command undoes it")
        assert file.count("[[schedules]]") > 0
        return
    back = change(done.after, done.undo, NOW, later=True).after if done.undo else done.after
    assert are_the_same(content, back)
