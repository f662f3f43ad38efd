from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.quotas.keys import ENFORCE, RATES, Rate
from proxy.quotas.reading import MAX_GLOBS, MAX_PROBLEMS, parse_quotas
from proxy.roles import Role

LEADER_RATE = "leader.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    "written",
    [
        f"[brokers.101]\n{LEADER_RATE} = 5",
        f'[brokers.101]\n"{LEADER_RATE}" = 5',
        "[brokers.101.leader.replication]\nthrottled.rate = 5",
        "[brokers.101.leader]\n'replication.throttled.rate' = 5",
        f'brokers.101."{LEADER_RATE}" = 5',
    ],
)
def test_dotted_and_quoted_keys_mean_the_same(written: str) -> None:
    quota_file = parse_quotas(written.encode())
    assert quota_file.base.brokers[101].get(RATES[Role.LEADER]) == Rate(5.0)


def test_sections_by_kind() -> None:
    quota_file = parse_quotas(
        f"""
        [brokers.default]
        {LEADER_RATE} = "1MiB/s"
        [brokers.7]
        {LEADER_LIST} = "*"
        [topics.orders]
        {LEADER_LIST} = "0:7"
        until = 2026-12-01T06:00:00Z
        [topics."a*"]
        {LEADER_LIST} = "*"
        [topics."abc-*"]
        {LEADER_LIST} = "*"
        [topics."[abcdefgh]b*"]
        {LEADER_LIST} = "*"
        [mode]
        enforce = false
        """.encode()
    )
    base = quota_file.base
    assert base.broker_default is not None
    assert base.broker_default.values == {RATES[Role.LEADER]: Rate(2.0**20)}
    assert list(base.brokers) == [7]
    assert base.topics["orders"].until == datetime(2026, 12, 1, 6, tzinfo=UTC)
    assert list(base.globs) == ["a*", "abc-*", "[abcdefgh]b*"]
    assert base.mode is not None
    assert base.mode.get(ENFORCE) is False
    assert len(list(quota_file.sections())) == 7


def test_the_hash_is_of_the_bytes() -> None:
    one, other = parse_quotas(b"# one"), parse_quotas(b"# other")
    assert one.hash != other.hash
    assert one == parse_quotas(b"# one")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("x", "quotas.toml: not TOML: Expected '=' after a key"),
        ("a = 1\nb =", "not TOML: Invalid value (at"),
        (
            "rate = 5",
            "rate: unknown key; expected brokers, peers, racks, topics, clients, users, listener, mode or prior",
        ),
        ("[racks.'a\"b']", 'racks."a"b": expected a rack (broker.rack) without quotes and backslashes'),
        (
            '[racks."a\\tb"]',
            'without quotes and backslashes and control characters, of 1 to 249 characters, found "a\\tb"',
        ),
        (f"[racks.{'b' * 250}]", "of 1 to 249 characters, found"),
        (
            "[racks.b]\nleader.replication.throttled.replicas = '*'",
            "follower.replication.throttled.rate, until (leader.replication.throttled.replicas belongs in [brokers.…]",
        ),
        ("[racks.eu.b]\nleader.replication.throttled.rate = 1", 'a rack name with dots needs quotes: [racks."eu.b"]'),
        ("[racks.b]\nleader.replication.throttled.rate = {}", "a rate that sets itself belongs to a broker"),
        ("schedules = 5", "schedules: schedules were removed; instead, a cron job that runs `throttle-sidecar set"),
        ("a = 1\n[[schedules]]\nx = 1\n[[schedules]]", "KEY VALUE --for 8h` (line 2)"),
        ("[auto.signals.p99]\nurl = 'x'", "auto: signals by queries were removed; the sidecar measures whether"),
        ("[brokers.1]\nschedules = []", "brokers.1.schedules: unknown key"),
        ("brokers = 5", "quotas.toml: brokers: expected a table, found 5"),
        ("[brokers]\n1 = 5", "quotas.toml: brokers.1: expected a table, found 5"),
        ("[brokers.abc]", 'brokers.abc: expected a broker id or "default", found "abc"'),
        ("[brokers.007]", "brokers.007: expected a broker id"),
        ("[brokers.-1]", "brokers.-1: expected a broker id"),
        ("[brokers.2147483648]", "brokers.2147483648: expected a broker id"),
        ("[peers.9999999999]", "peers.9999999999: expected the other broker's id"),
        (f"[brokers.1]\n{LEADER_RATE} = -1", f"brokers.1.{LEADER_RATE}: expected bytes per second"),
        (
            f'[brokers.1]\n{LEADER_RATE} = 1\n"{LEADER_RATE}" = 2',
            f"brokers.1.{LEADER_RATE}: set twice, as a dotted key and as a quoted one",
        ),
        ("[brokers.1]\nleader.rate = 1", "brokers.1.leader.rate: unknown key; expected one of leader.repl"),
        (f'[brokers.1]\n{LEADER_LIST} = "0:1"', 'expected "*" or "" (partitions are listed per topic'),
        (f"[topics.a]\n{LEADER_RATE} = 'x'", f"topics.a.{LEADER_RATE}: expected bytes per second"),
        (f"[topics.a]\n{LEADER_RATE} = {{ within = '2h', max = 9 }}", "a rate that sets itself belongs to a broker"),
        (f"[peers.b]\n{LEADER_RATE} = 1", 'peers.b: expected the other broker\'s id, found "b"'),
        (f"[peers.102]\n{LEADER_RATE} = -1", f"peers.102.{LEADER_RATE}: "),
        (f"[peers.102]\n{LEADER_RATE} = {{ auto = true }}", "a rate that sets itself belongs to a broker"),
        (
            "[peers.102]\nleader.replication.throttled.replicas = '*'",
            "(leader.replication.throttled.replicas belongs in [brokers.…] or [topics.…])",
        ),
        ("[peers.102]\nfoo = 1", "peers.102.foo: unknown key; expected one of leader.replication.throttled.rate, "),
        ("peers = 3", "peers: expected a table, found 3"),
        (
            "".join(f"[peers.{each}]\n{LEADER_RATE} = 1\n" for each in range(101)),
            "peers: expected at most 100 with a rate",
        ),
        (
            "".join(f"[topics.t{each}]\n{LEADER_RATE} = 1\n" for each in range(101)),
            "topics: expected at most 100 with a rate, found 101",
        ),
        (f'[topics.a]\n{LEADER_LIST} = "*,0:1"', f"topics.a.{LEADER_LIST}: expected"),
        (f'[topics.a.b]\n{LEADER_LIST} = "*"', 'needs quotes: [topics."a.b"]'),
        (f'[topics.a.b.c]\n{LEADER_LIST} = "*"', 'needs quotes: [topics."a.b.c"]'),
        ("[topics.a.b]\nuntil = 2026-12-01T06:00:00Z", 'needs quotes: [topics."a.b"]'),
        ("[topics.a.b]", 'needs quotes: [topics."a.b"]'),
        ('[topics."a b"]', 'topics."a b": expected a topic name or glob'),
        ("[topics.a]\nuntil = 2026-12-01T06:00:00", "expected a date and time with an offset"),
        ("[topics.a]\nuntil = 2026-12-01", "expected a date and time with an offset"),
        ("[topics.a]\nuntil = 9999-12-31T23:59:59-05:00", "expected a date and time with an offset"),
        ("[topics.a]\nuntil = 0001-01-01T00:00:00+05:00", "expected a date and time with an offset"),
        ('[topics.a]\nuntil = "tomorrow"', 'found "tomorrow"'),
        ("[mode]\nenforce = 1", "mode.enforce: expected true or false, found 1"),
        ("[mode]\nenforced = true", "mode.enforced: unknown key; expected enforce or until (did you mean enforce?)"),
        (
            "[broker.101]\nx = 1",
            "mode or priorities (did you mean brokers?)",
        ),
        ("[brokers.1]\nleader.rate = 1", "(did you mean leader.replication.throttled.rate?)"),
        ("[brokers.1]\nleader.replication.throtled.rate = 1", "(did you mean leader.replication.throttled.rate?)"),
        (
            "[topics.a]\nleader.replication.throttled.replica = '*'",
            "(did you mean leader.replication.throttled.replicas?)",
        ),
    ],
)
def test_a_problem_is_named_by_its_place(written: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(written.encode())
    assert problem in str(caught.value)


def test_every_problem_is_found() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(f"a = 1\n[brokers.x]\n{LEADER_RATE} = true\n[mode]\nenforce = 0".encode())
    assert len(caught.value.problems) == 4


def test_of_very_many_problems_the_first_are_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(b"".join(b"a%d = 1\n" % n for n in range(10_000)))
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert caught.value.problems[-1] == "quotas.toml: there may be more problems; these are the first 100"


LONG = "a" * 100_000


@pytest.mark.parametrize(
    "written",
    [
        f'[topics."{LONG}"]\n' + "".join(f"key{n} = 1\n" for n in range(120)),
        f'[topics."{LONG}.{LEADER_RATE}"]\n"{LONG}.{LEADER_RATE}" = 1\n',
        f'[brokers."{LONG}"]\n[peers."{LONG}"]\n[racks."{LONG}"]\n',
        f'[priorities]\n"{LONG}" = 1\norder = ["{LONG}"]\n',
        f'[brokers.1]\n{LEADER_RATE} = {{ "{LONG}" = 1 }}\n[mode]\n"{LONG}" = 1\n["{LONG}"]\n',
        f'["{LONG}"]\n["{LONG}"]\n',
    ],
)
def test_of_a_name_without_end_only_the_beginning_is_told(written: str) -> None:
    """/readyz says it at each probe, and each problem has the path to its key: 202 KB made a message of 20 MB."""
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(written.encode())
    assert max(map(len, caught.value.problems)) < 2500
    assert "more characters" in str(caught.value)


def test_a_path_that_is_long_and_no_longer_than_may_be_is_told_whole() -> None:
    path = f'topics."{"a." * 124}b"'
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(f'[topics."{"a." * 124}b"]\n{LEADER_RATE} = -1'.encode())
    assert f"quotas.toml: {path}.{LEADER_RATE}: expected bytes" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 10000, b"a = " + b"[" * 100000])
def test_any_bytes_are_refused_as_configuration(content: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"not TOML|at most 16 deep"):
        parse_quotas(content)


VALUES = (
    "1", '"x"', "true", "[]", '["mon"]', "{}", "{a = 1}", "22:00:00", "22:00:00.5", "2026-01-01", "2026-01-01T00:00:00",
    "2026-01-01T00:00:00Z", '"22:00"', '"Europe/Berlin"', '"Europe"', '"\\u0000"', '[["mon"]]', "nan", '"x/../../y"',
)  # fmt: skip
KEYS = ("until", LEADER_RATE, LEADER_LIST, "x")
TABLE_KEYS = ("finish_by", "within", "timezone", "auto", "min", "max")


@given(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.dictionaries(st.sampled_from(TABLE_KEYS), st.sampled_from(VALUES)),
)
def test_a_section_of_any_values_is_read_or_refused_by_its_place(
    written: dict[str, str], table: dict[str, str]
) -> None:
    lines = [f"{key} = {value}" for key, value in written.items()]
    source = ", ".join(f"{key} = {value}" for key, value in table.items())
    try:
        parse_quotas(
            "\n".join(["[brokers.1]", f"follower.replication.throttled.rate = {{ {source} }}", *lines]).encode()
        )
    except ConfigurationError as error:
        places = {problem.split(": ")[1] for problem in error.problems}
        assert all(place.startswith("brokers.1") for place in places), error  # noqa: PT017 - of each that there is


def test_so_many_globs_and_no_more() -> None:
    """Each may be compared with every topic's name."""
    globs = "".join(f'[topics."a{n}*"]\nleader.replication.throttled.replicas = "*"\n' for n in range(MAX_GLOBS + 1))
    with pytest.raises(ConfigurationError, match=f"topics: expected at most {MAX_GLOBS} globs, found 501"):
        parse_quotas(globs.encode())


@pytest.mark.parametrize(
    "text",
    [
        f"[brokers.1]\nleader.replication.throttled.rate = {'9' * 250}",
        f"[brokers.1]\nleader.replication.throttled.rate = 0x{'f' * 250}",
        f'[brokers.1]\nleader.replication.throttled.rate = "{"9" * 5000}"',
        f'[topics.a]\nleader.replication.throttled.replicas = "{"9" * 5000}:1"',
        f'[topics.a]\nleader.replication.throttled.replicas = "{"9" * 18}:1"',
        f'[topics."{"a" * 5000}"]\nleader.replication.throttled.replicas = "*"',
        "[brokers.1]\n" + "a." * 3000 + "b = 1",
    ],
    ids=range(7),
)
def test_a_hostile_value_is_a_message_of_some_length(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_quotas(text.encode())
    assert len(str(refused.value)) < 6000
