from __future__ import annotations

from lab.sidecars.exposition import parse_exposition


def test_names_labels_and_values() -> None:
    text = """# HELP up Whether.
# TYPE up gauge
up 1.0
limit{role="leader"} +Inf
limit{role="follower",topic="a b"} 3 1700000000
"""
    assert parse_exposition(text) == {
        "up": {"": 1.0},
        "limit": {'role="leader"': float("inf"), 'role="follower",topic="a b"': 3.0},
    }
