from __future__ import annotations

import pytest

from proxy.files.suggestions import did_you_mean

KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate", "until", "mode.enforce")


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("leader.replication.throtled.rate", "leader.replication.throttled.rate"),
        ("folower.replication.throttled.rate", "follower.replication.throttled.rate"),
        ("leader.rate", "leader.replication.throttled.rate"),
        ("follower.throttled.rate", "follower.replication.throttled.rate"),
        ("untill", "until"),
        ("mode.enforced", "mode.enforce"),
        ("rate", None),
        ("replicas", None),
        ("", None),
        (".", None),
    ],
)
def test_what_was_probably_meant(found: str, meant: str | None) -> None:
    assert did_you_mean(found, KEYS) == ("" if meant is None else f" (did you mean {meant}?)")


def test_where_nothing_is_known_nothing_was_meant() -> None:
    assert did_you_mean("until", ()) == ""
