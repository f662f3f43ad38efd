"""/proc and /sys as kernels write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.rates import rate_controller
from proxy.rates.host import HostCounters, HostReading, parse_interfaces, parse_pressure, read_counters, reading
from proxy.rates.rate_controller import HostWatch

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

PRESSURE = """\
some avg10=1.50 avg60=0.90 avg300=0.20 total=123456789
full avg10=0.00 avg60=0.00 avg300=0.00 total=23456789
"""
INTERFACES = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9999999    2776    0    0    0     0          0         0  9999999    2776    0    0    0     0       0          0
  eth0: 1000000    1000    0    0    0     0          0         0  2000000    1000    0    0    0     0       0          0
"""  # noqa: E501 - as the kernel writes it


def test_pressure_is_time_that_something_waited() -> None:
    assert parse_pressure(PRESSURE) == pytest.approx(123.456789)
    assert parse_pressure("") is None
    assert parse_pressure("full avg10=0.00 total=5\n") is None


def test_interfaces_without_the_loopback() -> None:
    assert parse_interfaces(INTERFACES) == {"eth0": (1_000_000, 2_000_000)}
    assert parse_interfaces("eth0: 5 6\neth1: a b c d e f g h i j") == {}


def test_counters_of_a_root(tmp_path: Path) -> None:
    for path, text in (
        ("proc/pressure/io", PRESSURE),
        ("proc/net/dev", INTERFACES),
        ("sys/class/net/eth0/speed", "10000\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert read_counters(tmp_path) == HostCounters(
        pytest.approx(123.456789), {"eth0": (1_000_000, 2_000_000)}, {"eth0": 1.25e9}
    )
    (tmp_path / "sys/class/net/eth0/speed").write_text("-1\n")
    assert read_counters(tmp_path).link_bytes_per_second == {}


def test_a_root_without_any_of_it(tmp_path: Path) -> None:
    assert read_counters(tmp_path) == HostCounters(None, {}, {})


def test_shares_of_the_time_between_two_looks() -> None:
    before = HostCounters(10.0, {"eth0": (0, 0), "eth1": (0, 0)}, {"eth0": 1000.0})
    after = HostCounters(10.5, {"eth0": (500, 1800), "eth1": (10**9, 0)}, {"eth0": 1000.0})
    assert reading(before, after, 2.0) == HostReading(0.25, 0.9, "eth0")
    assert reading(before, before._replace(io_stalled_seconds=None), 2.0).io_share is None
    assert reading(after, before, 2.0) == HostReading(0.0, 0.0, "eth0")


async def test_a_watch_tells_of_two_looks_that_are_near(mock_clock: MockClock) -> None:
    looks = iter([HostCounters(float(at), {}, {}) for at in range(4)])
    watch = HostWatch(lambda: next(looks))
    await watch.look()
    assert watch.reading is None
    mock_clock.jump(2)
    await watch.look()
    assert watch.reading == HostReading(0.5, None)
    mock_clock.jump(60)
    await watch.look()
    assert watch.reading is None


async def test_where_no_thread_is_to_be_had_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that chooses rates failed, and rates that set themselves stayed as they were."""

    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(rate_controller, "in_thread", no_thread)
    watch = HostWatch()
    await watch.look()
    assert watch.reading is None
