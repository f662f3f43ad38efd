"""What a mount shows after quotas were pushed, and what then holds."""

from __future__ import annotations

from proxy.config.pushed_quotas import LATE_SECONDS, MOST_OLDER, Pushed, PushedQuotas, Verdict
from proxy.quotas import parse_quotas


def pushed(text: str, since: float = 0.0) -> Pushed:
    return Pushed(text.encode(), parse_quotas(text.encode()), since)


FIRST, SECOND = pushed("# first\n"), pushed("# second\n")


def test_without_a_push_the_file_holds() -> None:
    assert PushedQuotas().look("anything") is Verdict.HOLDS


def test_an_older_mount_does_not_undo_a_push_until_it_shows_it() -> None:
    quotas = PushedQuotas()
    quotas.push(FIRST, ["old"])
    assert [quotas.look("old"), quotas.look("old")] == [Verdict.IS_OLDER] * 2
    assert quotas.look(FIRST.quota_file.hash) is Verdict.CAUGHT_UP
    assert quotas.look("old") is Verdict.HOLDS  # somebody has put it back, in the cluster


def test_of_two_pushes_the_first_is_older_when_the_mount_shows_it() -> None:
    quotas = PushedQuotas()
    quotas.push(FIRST, ["old"])
    quotas.push(SECOND, [])
    assert [quotas.look(each) for each in ("old", FIRST.quota_file.hash)] == [Verdict.IS_OLDER] * 2
    assert quotas.look(SECOND.quota_file.hash) is Verdict.CAUGHT_UP


def test_back_to_what_was_before_is_a_push_like_any_other() -> None:
    quotas = PushedQuotas()
    quotas.push(FIRST, ["old"])
    quotas.push(SECOND, [FIRST.quota_file.hash])
    quotas.push(FIRST, [SECOND.quota_file.hash])
    assert quotas.look(SECOND.quota_file.hash) is Verdict.IS_OLDER
    assert quotas.look(FIRST.quota_file.hash) is Verdict.CAUGHT_UP


def test_a_mount_with_what_nobody_told_of_has_the_last_word() -> None:
    quotas = PushedQuotas()
    quotas.push(FIRST, ["old"])
    assert quotas.look("another's edit") is Verdict.REPLACES
    assert quotas.current is None


def test_a_mount_that_never_shows_it_is_late() -> None:
    quotas = PushedQuotas()
    assert not quotas.is_late(1e9)
    quotas.push(pushed("# x\n", since=100.0), [])
    assert not quotas.is_late(99.0 + LATE_SECONDS)
    assert quotas.is_late(100.0 + LATE_SECONDS)


def test_what_is_remembered_has_a_bound() -> None:
    quotas = PushedQuotas()
    quotas.push(FIRST, [f"old{n}" for n in range(2 * MOST_OLDER)])
    assert quotas.look(f"old{2 * MOST_OLDER - 1}") is Verdict.IS_OLDER
    assert quotas.look("old0") is Verdict.REPLACES
