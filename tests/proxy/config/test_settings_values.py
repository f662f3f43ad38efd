from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.settings_values import (
    Address,
    format_duration,
    parse_address,
    parse_duration_seconds,
    parse_server_name,
)
from proxy.errors import InvalidValueError


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("kafka-101.example.org:9092", "kafka-101.example.org", 9092),
        ("[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("localhost:0", "localhost", 0),
    ],
)
def test_an_address_is_read_and_shown_the_same(written: str, host: str, port: int) -> None:
    assert parse_address(written) == (host, port)
    assert str(parse_address(written)) == written


@pytest.mark.parametrize(
    "written",
    ["foo", "foo:", ":9092", "::1:9092", "[::1]", "a b:1", "http://a:1", "a:b", "a:123456", 9092, None],
)
def test_what_is_no_address_is_refused(written: object) -> None:
    with pytest.raises(InvalidValueError, match="expected host:port, found"):
        parse_address(written)


@pytest.mark.parametrize("host", ["kafka..101", ".kafka", "k" * 64])
def test_a_host_that_nobody_could_look_up_is_refused(host: str) -> None:
    """It would end each connection with an error that nobody expects."""
    with pytest.raises(InvalidValueError, match="expected a host name whose parts have 1 to 63 characters, found"):
        parse_address(f"{host}:9092")
    with pytest.raises(InvalidValueError):
        parse_server_name(host)


def test_ports_end() -> None:
    with pytest.raises(InvalidValueError, match='expected a port of at most 65535, found "a:65536"'):
        parse_address("a:65536")


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("0.0.0.0:1", "127.0.0.2:1", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
    ],
)
def test_listeners_collide(one: str, other: str, *, collide: bool) -> None:
    assert parse_address(one).collides_with(parse_address(other)) is collide
    assert parse_address(other).collides_with(parse_address(one)) is collide


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("0.0.0.0:1", "127.0.0.2:1", True),
        ("0.0.0.0:1", "127.0.0.2:2", False),
        ("0.0.0.0:0", "127.0.0.2:0", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("[::]:1", "[::1]:1", True),
        ("[::]:1", "127.0.0.1:1", False),
    ],
)
def test_every_interface_overlaps_each(one: str, other: str, *, overlap: bool) -> None:
    assert parse_address(one).overlaps(parse_address(other)) is overlap
    assert parse_address(other).overlaps(parse_address(one)) is overlap


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("100ms", 0.1), ("10s", 10.0), ("1.5 s", 1.5), ("2m", 120.0), ("1h", 3600.0), ("0ms", 0.0)],
)
def test_a_duration_is_read(written: str, seconds: float) -> None:
    assert parse_duration_seconds(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["100", "ms", "-1s", "1 day", 5, None, "1S"])
def test_a_duration_needs_a_unit(written: object) -> None:
    with pytest.raises(InvalidValueError, match='expected a duration like "250ms" or "10s", found'):
        parse_duration_seconds(written)


@given(st.text())
def test_any_text_is_an_address_or_refused(written: str) -> None:
    try:
        address = parse_address(written)
    except InvalidValueError:
        return
    assert isinstance(address, Address)
    assert parse_address(str(address)) == address


@given(st.integers(1, 10**9))
def test_a_duration_is_read_as_it_is_written(milliseconds: int) -> None:
    assert round(parse_duration_seconds(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@pytest.mark.parametrize(("seconds", "written"), [(0.25, "250ms"), (1.0, "1s"), (90.0, "90s"), (900.0, "15m")])
def test_a_duration_is_written_in_the_largest_unit_it_is_whole_in(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written
