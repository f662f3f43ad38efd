"""From what was measured in a second to pressures."""

from __future__ import annotations

import math

import pytest

from proxy.rates.host import HostReading
from proxy.rates.signals import RELEARN_SECONDS, OwnBest, Signal, Signals
from proxy.throttle.peer_latencies import LatencySample, PeerLatencySample


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
