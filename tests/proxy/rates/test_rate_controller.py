"""What is chosen is put in force, told and recorded; on real files, under a virtual clock."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.diagnostics.replica_stats import ReplicaStats
from proxy.diagnostics.role_rates import RoleRates
from proxy.quota_files import reload
from proxy.quota_files.last_good_keeper import LastGoodKeeper
from proxy.quota_files.reload import QuotaWatch
from proxy.rates.choice import HeldBy
from proxy.rates.rate_controller import RateController
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.link import Link
from proxy.throttle.peer_latencies import STANDING_PAUSES
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.conversation import settings
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from proxy.quotas import Quotas

MIB = 1024 * 1024
KEY = "leader.replication.throttled.rate"
LISTED = 'leader.replication.throttled.replicas = "*"'
WITHIN = f'[brokers.default]\n{KEY} = {{ within = "1000s", max = "50MiB/s" }}\n{LISTED}\n'
BEGINNING = datetime(2026, 11, 1, 22, tzinfo=UTC)
BEHIND = ReplicaStats(behind=2, lag_messages=1000, lag_bytes=9600.0 * MIB)
"""10 MiB/s for the 960 s that are left but for the reserve."""


@pytest.fixture(autouse=True)
def real_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock jumps to whatever is waited for next while a thread reads: not to the disk's limit."""
    monkeypatch.setattr(reload, "READ_SECONDS", math.inf)


class Looks:
    """What the replica_stats_task and the quota_checks would tell."""

    def __init__(self) -> None:
        self.found = BEHIND
        self.hangs = False

    async def refresh(self) -> None:
        await trio.sleep(1e9 if self.hangs else 0)

    def last(self, role: Role) -> ReplicaStats:
        return self.found if role is Role.LEADER else ReplicaStats()

    def passing(self, _: Role) -> RoleRates:
        return RoleRates()


class Rig:
    """A watch of a real file, both roles' throttles, and the rate_controller between them."""

    def __init__(self, path: Path) -> None:
        self.path, self.log, self.looks = path, RecordedLog(), Looks()
        self._began = trio.current_time()
        state = path.with_name("state")
        self.watch = QuotaWatch.open(path, broker_id=1, log=self.log, state=state)
        self.watch._clock = self.now
        self.watch.starts.kept = {key: BEGINNING.timestamp() for key in self.watch.starts.kept}
        self.keeper = LastGoodKeeper(state, self.watch, self.log)
        current: Quotas = self.watch.current
        self.throttles = {
            role: RoleThrottle(role, settings(), quotas=current, statistics=RoleStatistics(), now=trio.current_time())
            for role in Role
        }
        self.follower = Link(self.throttles[Role.LEADER], "102")
        self.come()
        self.told: list[tuple[Role, str, float]] = []
        self.rate_controller = RateController(
            self.watch, self.throttles, self.looks, self.looks, self._changed, self.log
        )

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=trio.current_time() - self._began)

    def _changed(self, role: Role, reason: str) -> None:
        self.told.append((role, reason, self.rate(role)))

    def rate(self, role: Role = Role.LEADER) -> float:
        return self.throttles[role].quota.bytes_per_second

    def come(self, *pauses: float) -> None:
        """The follower, which has brought records for long, is back after so many seconds each time."""
        timings, now = self.follower.replicas.timings, trio.current_time()
        timings.proven_seconds, timings.proven_at = 1000, now
        if not self.throttles[Role.LEADER].timings.brokers:
            self.throttles[Role.LEADER].timings.take_sample([self.follower], now)
        for seconds in pauses:
            self.throttles[Role.LEADER].timings.came_back(self.follower, seconds, 0, now)

    async def write(self, content: str) -> None:
        self.path.write_text(content)
        await self.watch.reload("watch")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_text(WITHIN)
    return path


async def test_it_begins_at_the_least_and_is_chosen_at_once(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = Rig(path)
    assert rig.rate() == 65536
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(0.1)
    chosen = pytest.approx(10 * MIB, rel=0.01)
    assert rig.rate() == rig.throttles[Role.LEADER].budget._bucket.rate == chosen
    assert [(role, reason) for role, reason, _ in rig.told] == [(Role.LEADER, "rate")]
    assert rig.rate(Role.FOLLOWER) == float("inf")
    assert rig.rate_controller.choice(Role.FOLLOWER) is None
    (line,) = [line for line in rig.log.lines if line["event"] == "rate_chosen"]
    assert (line["role"], line["held_by"], line["bytes_per_second"]) == ("leader", "deadline", rig.rate())


async def test_what_a_deadline_needs_is_the_floor_of_what_does_not_hurt(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = Rig(path)
    await rig.write(WITHIN.replace("within", "auto = true, within"))
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(0.1)
    assert rig.throttles[Role.LEADER].floor_bytes_per_second == pytest.approx(10 * MIB, rel=0.01)
    await rig.write(WITHIN.replace('within = "1000s"', 'auto = true, min = "3MiB/s"'))
    await trio.sleep(2)
    nursery.start_soon(rig.rate_controller.apply_changes, Role.LEADER)
    await trio.sleep(2)
    assert rig.throttles[Role.LEADER].floor_bytes_per_second == 3 * MIB


async def test_as_time_goes_by_more_is_needed_and_few_lines_are_written(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = Rig(path)
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(500.5)
    assert rig.rate() == pytest.approx(9600 / 460 * MIB, rel=0.05)
    assert len([event for event in rig.log.events if event == "rate_chosen"]) < 12
    await trio.sleep(460)
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert (choice.late, rig.rate()) == (True, 50 * MIB)
    assert rig.log.events.count("deadline_late") == 1
    rig.looks.found = ReplicaStats()
    await trio.sleep(20)
    assert rig.log.events.count("deadline_late_ended") == 1
    assert rig.rate() == 65536


async def test_a_look_that_hangs_is_none_and_the_next_one_counts(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = Rig(path)
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(0.5)
    rig.looks.hangs = True
    await trio.sleep(20)
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert (choice.held_by, rig.rate()) == (HeldBy.LAG_UNKNOWN, 50 * MIB)
    rig.looks.hangs = False
    await trio.sleep(8)
    assert rig.rate() < 11 * MIB


async def test_a_change_of_the_file_is_chosen_within_its_bounds(path: Path, nursery: trio.Nursery) -> None:
    rig = Rig(path)
    for role in Role:
        nursery.start_soon(rig.rate_controller.apply_changes, role)
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(0.05)
    await rig.write(WITHIN.replace("50MiB/s", "5MiB/s"))
    await trio.sleep(0.05)
    assert rig.rate() == 5 * MIB
    await rig.write(f"[brokers.default]\n{KEY} = 1000000\n{LISTED}")
    await trio.sleep(0.05)
    assert (rig.rate(), rig.rate_controller.choice(Role.LEADER)) == (1_000_000, None)
    await rig.write(WITHIN)
    await trio.sleep(0.05)
    assert rig.rate() == pytest.approx(10 * MIB, rel=0.02)
    assert [reason for _, reason, rate in rig.told if rate == rig.rate()][-1] == "change"


async def test_a_catch_up_that_nobody_followed_is_over_when_a_deadline_holds_again(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """By day another rate holds, under which that of the night has ended: what is behind now began since."""
    rig = Rig(path)
    nightly = WITHIN.replace('within = "1000s"', 'finish_by = "06:00"')
    await rig.write(nightly)
    nursery.start_soon(rig.rate_controller.apply_changes, Role.LEADER)
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(10)
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert (choice.finish_by, choice.late) == (datetime(2026, 11, 2, 6, tzinfo=UTC), False)
    await rig.write(f"[brokers.default]\n{KEY} = 1000000\n{LISTED}")
    rig.looks.found = ReplicaStats()
    await trio.sleep(24 * 3600)
    rig.looks.found = BEHIND
    await rig.write(nightly)
    await trio.sleep(10)
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert (choice.finish_by, choice.late) == (datetime(2026, 11, 3, 6, tzinfo=UTC), False)
    assert rig.rate() < MIB


async def test_a_restart_does_not_begin_within_anew(path: Path, nursery: trio.Nursery) -> None:
    rig = Rig(path)
    nursery.start_soon(rig.keeper.run)
    with trio.fail_after(30):
        while not rig.keeper.writes["written"]:  # noqa: ASYNC110 - the keeper tells nobody
            await trio.sleep(0.01)
    again = QuotaWatch.open(path, broker_id=1, log=rig.log, state=path.with_name("state"))
    assert set(again.starts.kept.values()) == {BEGINNING.timestamp()}


async def test_lists_and_what_is_remembered_of_them_outlive_a_chosen_rate(path: Path) -> None:
    rig = Rig(path)
    throttle = rig.throttles[Role.LEADER]
    lists, before = throttle.selection.lists, throttle.quota
    assert throttle.quota.selects("orders", 3)
    rig.rate_controller.step(trio.current_time())
    assert throttle.quota is not before
    assert throttle.selection.lists is lists
    assert throttle.quota._resolved is before._resolved


AUTO = f'[brokers.default]\n{KEY} = {{ auto = true, min = "10MiB/s", max = "800MiB/s" }}\n{LISTED}\n'


async def test_a_rate_that_does_not_hurt_follows_what_connections_say(
    path: Path, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Leaders answer in 10 ms until more than 100 MiB/s are asked for, then in 100 ms."""
    await trio.Path(path).write_text(AUTO)
    rig = Rig(path)
    throttle, now = rig.throttles[Role.LEADER], trio.current_time()
    rates = []
    for second in range(60):
        throttle.statistics.throttled_bytes_catching_up += int(rig.rate())
        rig.come()
        rig.follower.replicas.timings.answered(0.1 if rig.rate() > 100 * MIB else 0.01)
        rig.rate_controller.step(now + second)
        rates.append(rig.rate() / MIB)
    assert rates[:4] == pytest.approx([10, 40, 160, 80], rel=0.01)
    assert 45 < min(rates[20:]) <= max(rates[20:]) < 125
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert choice.auto
    held = {line["held_by"] for line in rig.log.lines if line["event"] == "rate_chosen"}
    assert "catch_up_reads" in held
    assert throttle.timings.are_wanted
    rig.looks.found = ReplicaStats()
    rig.rate_controller.step(now + 70)
    assert rig.rate() == 10 * MIB
    assert not throttle.timings.are_wanted


async def under_a_rate_that_does_not_hurt(path: Path, nursery: trio.Nursery, content: str = AUTO) -> Rig:
    """At 40 MiB/s, of which 30 were used in the last half of a second; followers have come back in 1 ms at best."""
    await trio.Path(path).write_text(content)
    rig = Rig(path)
    # A look at the host is a thread's, and the virtual clock does not wait for threads.
    rig.rate_controller._host.look = trio.lowlevel.checkpoint
    throttle = rig.throttles[Role.LEADER]
    throttle.change_rate(40 * MIB, trio.current_time())
    rig.come(0.001)
    nursery.start_soon(rig.rate_controller.run)
    await trio.sleep(0.5)
    assert rig.rate() == 40 * MIB
    throttle.statistics.throttled_bytes_catching_up += 15 * MIB
    rig.told.clear()
    return rig


def are_late(rig: Rig, milliseconds: float = 11.0) -> None:
    rig.come(*[milliseconds / 1000] * STANDING_PAUSES)


async def test_late_followers_are_given_way_to_at_once_and_once_between_two_looks(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = await under_a_rate_that_does_not_hurt(path, nursery)
    are_late(rig)
    await trio.sleep(0.01)
    assert rig.told == [(Role.LEADER, "pressed", pytest.approx(0.86 * 30 * MIB))]
    choice = rig.rate_controller.choice(Role.LEADER)
    assert choice is not None
    assert choice.held_by == "in_sync_followers"
    are_late(rig)
    await trio.sleep(0.9)
    assert len(rig.told) == 1
    await trio.sleep(0.1)
    assert [reason for _, reason, _ in rig.told] == ["pressed", "rate"]


async def test_eight_connections_that_claim_to_be_a_broker_and_are_late_do_not_lower_the_rate(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody asked them for a password. They pushed the rate to `min` within three seconds; now they have to bring the
    broker's records for half as long as the broker has."""
    rig = await under_a_rate_that_does_not_hurt(path, nursery)
    leader = rig.throttles[Role.LEADER]
    fakes = [Link(leader, "102") for _ in range(8)]
    for _ in range(600):
        await trio.sleep(0.1)
        leader.statistics.throttled_bytes_catching_up += int(rig.rate() / 10)
        rig.come(0.001)
        for fake in fakes:
            fake.replicas.timings.records_go_on(trio.current_time(), in_sync=True)
            for _ in range(STANDING_PAUSES):
                leader.timings.came_back(fake, 0.011, 0, trio.current_time())
    assert rig.rate() > 200 * MIB
    assert not any(line.get("held_by") == "in_sync_followers" for line in rig.log.lines)


async def test_followers_that_are_a_little_late_are_looked_at_again(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = await under_a_rate_that_does_not_hurt(path, nursery)
    are_late(rig, 7.0)
    await trio.sleep(0.9)
    assert rig.told == []
    are_late(rig, 7.0)
    await trio.sleep(0.2)
    assert [reason for _, reason, _ in rig.told] == ["rate"]
    assert 15 * MIB < rig.rate() < 28 * MIB


async def test_at_the_least_rate_late_followers_change_nothing(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What is slow even then becomes their best, after half a minute in which they were never faster."""
    rig = await under_a_rate_that_does_not_hurt(path, nursery, AUTO.replace("10MiB/s", "40MiB/s"))
    for _ in range(70):
        are_late(rig)
        await trio.sleep(1)
    assert rig.told == []
    assert rig.rate_controller._roles[Role.LEADER].signals.pause_bounds("102") == pytest.approx((0.011, 0.022))


async def test_under_a_rate_of_the_file_nobody_is_pressed(
    path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    rig = await under_a_rate_that_does_not_hurt(path, nursery)
    nursery.start_soon(rig.rate_controller.apply_changes, Role.LEADER)
    await rig.write(f"[brokers.default]\n{KEY} = 1000000\n{LISTED}")
    await trio.sleep(2)
    are_late(rig)
    await trio.sleep(2)
    assert (rig.rate(), [reason for _, reason, _ in rig.told]) == (1_000_000, ["change"])
