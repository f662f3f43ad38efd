"""From what was measured in a second to pressures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from proxy.rates import rate_controller
from proxy.rates.rate_controller import HostWatch
from proxy.rates.signals import (
    RELEARN_SECONDS,
    HostCounters,
    HostReading,
    OwnBest,
    Signal,
    Signals,
    parse_interfaces,
    parse_pressure,
    read_counters,
    reading,
)
from proxy.threads import NoThreadError
from proxy.throttle.peer_latencies import LatencySample, PeerLatencySample

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


def pressures(signals: Signals, times: LatencySample, now: float, host: HostReading | None = None) -> dict[str, float]:
    found = signals.read(times, now, at_least=False, host=host)
    return {reading.signal: reading.pressure for reading in found}


def times(**brokers: tuple[float, float]) -> LatencySample:
    """Pauses and waits for answers, by broker."""
    return LatencySample({broker: PeerLatencySample(*each) for broker, each in brokers.items()})


def test_twice_its_own_best_is_as_much_as_may_be() -> None:
    signals = Signals()
    assert pressures(signals, times(b=(0.020, 0.008)), 0.0) == {
        Signal.IN_SYNC_FOLLOWERS: 0,
        Signal.CATCH_UP_READS: 0,
    }
    found = pressures(signals, times(b=(0.040, 0.012)), 1.0)
    assert found[Signal.IN_SYNC_FOLLOWERS] == pytest.approx(1)
    assert found[Signal.CATCH_UP_READS] == pytest.approx(0.5)


def test_a_rise_by_less_than_five_milliseconds_is_noise() -> None:
    best = OwnBest(Signal.CATCH_UP_READS, "a wait")
    best.read(0.0002, 0.0, at_least=False)
    found = best.read(0.002, 1.0, at_least=False)
    assert found is not None
    assert found.pressure < 0.5
    assert found.words == "a wait of 2.0 ms (0.2 ms at best)"


def test_a_pause_and_an_answer_may_be_five_milliseconds_longer() -> None:
    signals = Signals()
    pressures(signals, times(b=(0.0007, 0.0007)), 0.0)
    found = pressures(signals, times(b=(0.0057, 0.0027)), 1.0)
    assert found[Signal.IN_SYNC_FOLLOWERS] == pytest.approx(1)
    assert found[Signal.CATCH_UP_READS] == pytest.approx(0.4)


def test_a_few_pauses_between_two_looks_are_compared_with_the_same_best() -> None:
    signals = Signals()
    assert signals.pause_bounds("b") == (math.inf, math.inf)
    assert signals.read_pauses({}, 0.0) == []
    pressures(signals, times(b=(0.0007, 0.0007)), 0.0)
    assert signals.pause_bounds("b") == pytest.approx((0.0007, 0.0057))
    (found,) = signals.read_pauses({"b": 0.0107}, 0.5)
    assert (found.signal, found.seen_at) == (Signal.IN_SYNC_FOLLOWERS, 0.5)
    assert found.pressure == pytest.approx(2)


def test_what_was_not_measured_says_nothing() -> None:
    assert pressures(Signals(), LatencySample(), 0.0) == {}


def test_what_is_slow_at_the_least_rate_for_half_a_minute_is_its_best() -> None:
    best = OwnBest(Signal.CATCH_UP_READS, "a wait")
    best.read(0.010, 0.0, at_least=False)
    found = [best.read(0.050, float(second), at_least=True) for second in range(1, 40)]
    before, after = found[int(RELEARN_SECONDS) - 2], found[int(RELEARN_SECONDS) + 1]
    assert before is not None
    assert after is not None
    assert before.pressure == pytest.approx(4)
    assert after.pressure == 0


def test_a_replica_that_falls_out_of_sync_hurts_for_five_seconds() -> None:
    signals = Signals()
    assert Signal.IN_SYNC_REPLICAS not in pressures(signals, LatencySample(), 2.0)
    assert pressures(signals, LatencySample(fell_behind=True), 3.0)[Signal.IN_SYNC_REPLICAS] == 2
    assert Signal.IN_SYNC_REPLICAS in pressures(signals, LatencySample(), 7.9)
    assert Signal.IN_SYNC_REPLICAS not in pressures(signals, LatencySample(), 8.0)


def test_each_broker_is_compared_with_its_own_best_and_the_slowest_counts() -> None:
    """A follower that is far away is not slow."""
    signals = Signals()
    assert set(pressures(signals, times(near=(0.001, 0.001), far=(0.040, 0.040)), 0.0).values()) == {0}
    found = pressures(signals, times(near=(0.011, 0.001), far=(0.040, 0.040)), 1.0)
    assert found == {Signal.IN_SYNC_FOLLOWERS: pytest.approx(2), Signal.CATCH_UP_READS: 0}
    assert signals.pause_bounds("far") == pytest.approx((0.040, 0.080))


def test_a_broker_that_is_gone_begins_anew() -> None:
    signals = Signals()
    for now, pause in enumerate((0.001, 0.020)):
        pressures(signals, times(b=(pause, 0.001)), float(now))
    pressures(signals, LatencySample(), 2.0)
    assert pressures(signals, times(b=(0.020, 0.001)), 3.0)[Signal.IN_SYNC_FOLLOWERS] == 0


def test_what_the_host_says() -> None:
    found = pressures(Signals(), LatencySample(), 0.0, HostReading(0.2, 0.85, "eth0"))
    assert found == {Signal.IO_PRESSURE: pytest.approx(0.5), Signal.NETWORK: pytest.approx(1.0)}
    assert pressures(Signals(), LatencySample(), 0.0, HostReading(None, None)) == {}


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
        raise NoThreadError("can't start new thread")

    monkeypatch.setattr(rate_controller, "in_thread", no_thread)
    watch = HostWatch()
    await watch.look()
    assert watch.reading is None
