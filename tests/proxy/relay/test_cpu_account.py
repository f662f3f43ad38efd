from __future__ import annotations

import pytest

from proxy.relay.poller import FREE_SHARE, LITTLE_SECONDS, MAX_SECONDS, CpuAccount


def share(*turns: tuple[float, float], born: float = 100.0) -> CpuAccount:
    """After turns that (began, lasted)."""
    made = CpuAccount(born)
    for began, lasted in turns:
        made.used(began, began + lasted, lasted)
    return made


@pytest.mark.parametrize(
    ("of", "now", "excess"),
    [
        (share(born=101.0), 101.0, MAX_SECONDS),
        (share(born=101.0), 101.0 + MAX_SECONDS / FREE_SHARE, 0.0),
        (share((101.0, 0.010)), 101.010, 0.010),
        (share((101.0, 0.010)), 101.060, 0.005),
        (share((101.0, 0.010), (102.0, 0.001)), 102.001, 0.001),  # what it did not use is not saved up
        (share((101.0, 60.0)), 161.0, MAX_SECONDS),  # nor does it wait for ever for what it had
    ],
)
def test_what_was_had_beyond_an_easy_share_wears_off(of: CpuAccount, now: float, excess: float) -> None:
    assert of.debt(now) == pytest.approx(excess, abs=1e-6)


def test_a_newcomer_is_not_easy_before_it_was_seen_to_be() -> None:
    made = share(born=101.0)
    assert made.debt(101.0) > LITTLE_SECONDS
    assert made.debt(101.0 + MAX_SECONDS / FREE_SHARE) <= LITTLE_SECONDS
    assert share((102.0, 10.0)).rank <= share(born=112.0).rank


def test_time_in_which_other_processes_had_the_core_is_nobodys() -> None:
    made = CpuAccount(100.0)
    made.used(101.0, 101.5, 0.0001)
    assert made.debt(101.5) == pytest.approx(0.0001)


def test_who_has_had_less_stays_before_who_has_had_more() -> None:
    one, other = share((101.49, 0.010)), share((101.5, 0.002))
    assert other.rank < one.rank
    for later in (0.0, 0.1, 0.2):
        assert other.debt(101.6 + later) < one.debt(101.6 + later)
