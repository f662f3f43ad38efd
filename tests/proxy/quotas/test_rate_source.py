"""Rates that set themselves: as they are written, when their deadlines are, and since when they count."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from proxy.errors import ConfigurationError
from proxy.quotas import Deadline, RateSource, effective, parse_quotas
from proxy.quotas.rate_source import RateStarts
from proxy.roles import Role

KEY = "leader.replication.throttled.rate"
MIB = 1024 * 1024
NOW = datetime(2026, 11, 1, 22, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def source(table: str) -> RateSource:
    quota_file = parse_quotas(f"[brokers.101]\n{KEY} = {table}".encode())
    found = effective(quota_file, 101, NOW).leader.source
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("table", "deadline"),
    [
        ('{ finish_by = "06:00", max = "1MiB/s" }', Deadline(daily=time(6))),
        ("{ finish_by = 06:00:30, max = 1048576 }", Deadline(daily=time(6, 0, 30))),
        (
            '{ finish_by = "06:00", timezone = "Europe/Berlin", max = "1MiB/s" }',
            Deadline(daily=time(6), zone=BERLIN),
        ),
        ('{ within = "2h30m", max = "1MiB/s" }', Deadline(within=timedelta(hours=2.5))),
        (
            '{ finish_by = "2026-12-01T06:00:00Z", max = "1MiB/s" }',
            Deadline(at=datetime(2026, 12, 1, 6, tzinfo=UTC)),
        ),
        (
            '{ finish_by = 2026-12-01T06:00:00, timezone = "Europe/Berlin", max = "1MiB/s" }',
            Deadline(at=datetime(2026, 12, 1, 5, tzinfo=UTC)),
        ),
    ],
)
def test_a_deadline_as_it_is_written(table: str, deadline: Deadline) -> None:
    assert source(table) == RateSource(MIB, 65536, deadline)


def test_a_rate_that_does_not_hurt_with_a_deadline_and_without() -> None:
    assert source('{ auto = true, min = "1MiB/s", max = "2MiB/s" }') == RateSource(2 * MIB, MIB, auto=True)
    both = source('{ auto = true, within = "2h", min = "1MiB/s", max = "2MiB/s" }')
    assert both == RateSource(2 * MIB, MIB, Deadline(within=timedelta(hours=2)), auto=True)
    assert str(both).startswith("what does not hurt, at least what is needed to end within 2h, from 1.00 MiB/s")


def test_spelt_with_dotted_keys_or_as_a_table_of_its_own() -> None:
    for text in (
        f'[brokers.101]\n{KEY}.within = "2h"\n{KEY}.max = "1MiB/s"',
        f'[brokers.101.{KEY}]\nwithin = "2h"\nmax = "1MiB/s"',
        f'[brokers.101]\n"{KEY}" = {{ within = "2h", max = "1MiB/s" }}',
    ):
        assert effective(parse_quotas(text.encode()), 101, NOW).leader.source == RateSource(
            MIB, 65536, Deadline(within=timedelta(hours=2))
        )


def test_a_rate_that_sets_itself_is_at_most_its_most() -> None:
    quota = effective(parse_quotas(f'[brokers.101]\n{KEY} = {{ within = "2h", max = 5 }}'.encode()), 101, NOW).leader
    assert quota.bytes_per_second == 5
    assert quota.source is not None
    assert quota.source.least == 5


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("{}", "expected finish_by, within or auto = true"),
        ('{ max = "1MiB/s" }', "expected finish_by, within or auto = true"),
        ('{ within = "2h" }', "max: missing"),
        ('{ within = "2h", max = "unlimited" }', "max: expected a rate above 0 that is not unlimited"),
        ('{ within = "2h", max = 0 }', "max: expected a rate above 0"),
        ('{ within = "2h", max = "1MiB/s", min = "2MiB/s" }', "min: expected no more than max"),
        ('{ within = "2 hours", max = 1 }', "within: expected a time like 2h, 90m or 1d12h"),
        ('{ within = "2h", finish_by = "06:00", max = 1 }', "within: expected either finish_by or within"),
        ('{ within = "2h", timezone = "UTC", max = 1 }', "timezone: expected finish_by"),
        ('{ finish_by = "24:00", max = 1 }', 'finish_by: expected a time of day like "22:00"'),
        ('{ finish_by = "2026-13-01T00:00:00Z", max = 1 }', "finish_by: expected a time of day like"),
        ("{ finish_by = 6, max = 1 }", "finish_by: expected a time of day like"),
        ("{ finish_by = 2026-12-01, max = 1 }", "finish_by: expected a time of day like"),
        ("{ finish_by = 9999-12-31T23:59:59Z, max = 1 }", "finish_by: expected a time of day like"),
        ('{ auto = false, within = "2h", max = 1 }', "auto: expected true, or no such key, found false"),
        ('{ auto = true, max = "1MiB/s" }', "min: missing"),
        (
            '{ finish_by = 2026-12-01T06:00:00Z, timezone = "UTC", max = 1 }',
            "finish_by: expected a date and time without an offset beside a timezone",
        ),
        ('{ finish_by = "06:00", timezone = "Europe/Berln", max = 1 }', "did you mean Europe/Berlin"),
        ('{ finish_bye = "06:00", max = 1 }', "finish_bye: unknown key; expected one of .* finish_by"),
    ],
)
def test_what_is_refused_names_the_key(table: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"quotas.toml: brokers.101.{KEY}: .*{problem}"):
        parse_quotas(f"[brokers.101]\n{KEY} = {table}".encode())


@pytest.mark.parametrize(
    ("deadline", "since", "moment"),
    [
        (Deadline(daily=time(6)), "2026-11-01T22:00Z", "2026-11-02T06:00Z"),
        (Deadline(daily=time(6)), "2026-11-02T05:59Z", "2026-11-02T06:00Z"),
        (Deadline(daily=time(6)), "2026-11-02T06:00Z", "2026-11-03T06:00Z"),
        (Deadline(daily=time(6), zone=BERLIN), "2026-07-01T03:00Z", "2026-07-01T04:00Z"),
        # 02:30 is skipped on 2026-03-29: the first moment that is shown as later.
        (Deadline(daily=time(2, 30), zone=BERLIN), "2026-03-28T23:00Z", "2026-03-29T01:00Z"),
        # It is shown twice on 2026-10-25: the first time counts.
        (Deadline(daily=time(2, 30), zone=BERLIN), "2026-10-24T22:00Z", "2026-10-25T00:30Z"),
        (Deadline(within=timedelta(hours=2)), "2026-11-01T22:00+01:00", "2026-11-01T23:00Z"),
        (Deadline(at=datetime(2026, 12, 1, 6, tzinfo=UTC)), "2027-01-01T00:00Z", "2026-12-01T06:00Z"),
    ],
)
def test_when_a_deadline_is(deadline: Deadline, since: str, moment: str) -> None:
    assert deadline.moment(datetime.fromisoformat(since)) == datetime.fromisoformat(moment)


def test_a_start_outlives_whatever_else_of_the_file_changes() -> None:
    def file(most: int, before: str = "") -> bytes:
        return f'{before}[brokers.101]\n{KEY} = {{ within = "2h", max = {most} }}'.encode()

    starts = RateStarts({})
    starts.follow(parse_quotas(file(5)).start_keys(NOW), NOW)
    later = NOW + timedelta(hours=1)
    changed = parse_quotas(file(6, "[mode]\nenforce = false\n"))
    starts.follow(changed.start_keys(later), later)
    (found,) = [source for section in changed.sections() for source in section.sources.values()]
    assert starts.of(found, later) == NOW
    restarted = RateStarts(starts.kept)
    restarted.follow(changed.start_keys(later), later + timedelta(hours=1))
    assert restarted.of(found, later) == NOW


def test_a_start_is_of_one_within_and_goes_with_it() -> None:
    starts = RateStarts({})
    later = NOW + timedelta(hours=1)
    for at, span in ((NOW, "2h"), (later, "3h")):
        quota_file = parse_quotas(f'[brokers.101]\n{KEY} = {{ within = "{span}", max = 5 }}'.encode())
        starts.follow(quota_file.start_keys(at), at)
    (found,) = [source for section in quota_file.sections() for source in section.sources.values()]
    assert starts.of(found, later) == later
    starts.follow(parse_quotas(b"# none").start_keys(later), later)
    assert starts.kept == {}


def test_a_start_that_is_to_come_was_by_a_clock_that_has_been_set_back() -> None:
    """A year ahead, say: two hours are two hours, not a year at the least rate. Also of one that was kept."""
    quota_file = parse_quotas(f'[brokers.101]\n{KEY} = {{ within = "2h", max = 5 }}'.encode())
    (found,) = [source for section in quota_file.sections() for source in section.sources.values()]
    starts, ahead, later = RateStarts({}), NOW + timedelta(days=365), NOW + timedelta(minutes=1)
    starts.follow(quota_file.start_keys(ahead), ahead)
    restarted = RateStarts(starts.kept)
    assert [starts.of(found, NOW), starts.of(found, later)] == [NOW, NOW]
    restarted.follow(quota_file.start_keys(NOW), NOW)
    assert restarted.of(found, later) == NOW


def test_each_role_has_a_start_of_its_own() -> None:
    """What followers are asked for a day later is not by a deadline of the day before."""
    starts, later = RateStarts({}), NOW + timedelta(days=1)
    leader = f'[brokers.101]\n{KEY} = {{ within = "2h", max = 5 }}\n'
    follower = 'follower.replication.throttled.rate = { within = "2h", max = 5 }\n'
    starts.follow(parse_quotas(leader.encode()).start_keys(NOW), NOW)
    both = parse_quotas((leader + follower).encode())
    starts.follow(both.start_keys(later), later)
    sources = both.base.brokers[101].sources
    assert [starts.of(sources[role], later) for role in (Role.LEADER, Role.FOLLOWER)] == [NOW, later]


def test_what_is_said_again_after_it_has_ended_counts_from_then() -> None:
    """The same section with another `until`, two days later."""
    said = "[brokers.101]\n{rate}\nuntil = {until}\n"
    rate, starts, again = f'{KEY} = {{ within = "2h", max = 5 }}', RateStarts({}), NOW + timedelta(days=2)
    first, second = (
        parse_quotas(said.format(rate=rate, until=f"{at + timedelta(hours=12):%Y-%m-%dT%H:%M:%SZ}").encode())
        for at in (NOW, again)
    )
    starts.follow(first.start_keys(NOW), NOW)
    ended = NOW + timedelta(hours=12)
    starts.follow(first.start_keys(ended), ended)  # the clock alone makes it so
    starts.follow(second.start_keys(again), again)
    (found,) = [source for section in second.sections() for source in section.sources.values()]
    assert starts.of(found, again) == again


def test_what_is_no_table_is_a_rate_as_before() -> None:
    quotas = effective(parse_quotas(f'[brokers.101]\n{KEY} = "1MiB/s"'.encode()), 101, NOW)
    assert (quotas.of(Role.LEADER).source, quotas.leader.bytes_per_second) == (None, MIB)
