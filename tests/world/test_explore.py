"""Some of the scenes that `make simulation` draws, and that judges notice what they are there for."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.throttle.role_throttle import RoleThrottle

from . import explore
from .__main__ import main
from .explore import drawn, judged, mesh, smallest
from .scene import Scene
from .shares import fair_shares

pytestmark = pytest.mark.timeout(300)  # of a busy machine
STARVED = 0.0
"""The share below which a scene fails here; `make simulation` asks for more."""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", explore.KINDS)
def test_scenes_hold(kind: str, seed: int) -> None:
    report = judged(kind, seed, drawn(kind, seed), least_share=STARVED)
    assert report.complaints == []
    assert report.shares


@pytest.mark.parametrize("seed", [1013, 1014, 1033, 1110, 1140, 5062])
def test_over_slow_lines_and_beside_those_whom_another_budget_holds_up_all_have_their_shares(seed: int) -> None:
    """Some had 0.20 to 0.77 of them: a grant took so long that a topic's budget was full meanwhile, or credits were
    kept for connections that their peer's rate held up. Of seed 5062 the quota was
    not used: all was kept for one over a slow line."""
    report = judged("tree", seed, drawn("tree", seed))
    assert [each for each in report.shares if each.ratio < explore.FAIR] == []


@pytest.mark.parametrize(("seed", "least"), [(5018, 0.55), (5175, 0.55), (5249, 0.8), (5342, 0.5)])
def test_a_follower_with_a_sidecar_of_its_own_asks_for_more_than_a_topic_that_its_leader_throttles(
    seed: int, least: float
) -> None:
    """It had 0.21 to 0.48 of its share: of the topic least came, so that went first, and was all that was asked for."""
    report = judged("tree", seed, drawn("tree", seed))
    assert [each for each in report.shares if each.ratio < least] == []


def test_a_scene_that_fails_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has twice of its share: of a scene that is asked for it one fetcher is left."""
    monkeypatch.setattr(explore, "SECONDS", dict.fromkeys(explore.KINDS, 2.0))
    monkeypatch.setattr(explore, "SETTLED", dict.fromkeys(explore.KINDS, 0.5))
    scene = mesh(1)
    report = judged("mesh", 1, scene, least_share=3.0)
    found, smaller = smallest(report, scene, least_share=3.0)
    assert len(scene.fetches) == 3
    assert len(found.fetches) == 1
    assert smaller.complaints[0].startswith("share: ")


def test_a_budget_that_lets_more_through_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge reads the quotas themselves, not the throttle that is to keep them."""
    before = RoleThrottle._put_in_force

    def twice(self: RoleThrottle, quota: object, now: float) -> None:
        before(self, quota, now)
        self.budget.change_rate(2 * self.quota.bytes_per_second, now)

    monkeypatch.setattr(RoleThrottle, "_put_in_force", twice)
    report = judged("tree", 4, drawn("tree", 4), least_share=STARVED)
    assert Counter(each.split(":")[0] for each in report.complaints)["budget"]


def test_the_command_prints_what_was_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "SECONDS", dict.fromkeys(explore.KINDS, 2.0))
    assert main(["--count", "1", "--seed", "5", "--jobs", "1", "--least-share", "0", "--kind", "fault"]) == 0
    printed = capsys.readouterr().out
    assert "seed 5" in printed
    assert "1 scenes" in printed
    assert "storm" in printed


def test_shares_are_those_of_the_quotas_alone() -> None:
    scene = drawn("tree", 1)
    world = type("World", (), {"scene": scene, "sidecars": {}})()
    assert fair_shares(world).keys() == {(n, t) for f in scene.fetches for n in f.names() for t in f.topics}
    assert isinstance(scene, Scene)
