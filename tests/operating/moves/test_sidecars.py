from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from operating.moves.sidecars import still_throttled
from proxy.errors import UnreachableError
from reassignment import TopicPartition
from tests.proxy.fake_sidecar import FakeSidecar, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

PROPOSED = {TopicPartition("orders", 0): (101,), TopicPartition("orders", 12): (101,)}


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Where a sidecar says this to be its configuration."""
    with serving(FakeSidecar({"/config": (200, body)})) as server:
        yield server.url
        assert server.paths == ["/config"]


def config(leader: dict[str, str], follower: dict[str, str]) -> bytes:
    roles = {"leader": {"replicas": leader}, "follower": {"replicas": follower}}
    return json.dumps({"effective_quotas": {"hash": "x", **roles}}).encode()


@pytest.mark.parametrize(
    ("leader", "follower", "found"),
    [
        ({}, {}, []),
        ({"orders": "0,5,12"}, {}, ["throttles as leader: orders 0,12"]),
        ({"orders": "5"}, {"orders": "12", "clicks": "0"}, ["throttles as follower: orders 12"]),
        # `*` and globs are no move's.
        ({"*": "*", "ord*": "0"}, {"orders": "*"}, []),
    ],
)
def test_what_a_sidecar_still_throttles(leader: dict[str, str], follower: dict[str, str], found: list[str]) -> None:
    with answering(config(leader, follower)) as url:
        assert [str(left) for left in still_throttled(url + "/", PROPOSED)] == [f"{url}/: {line}" for line in found]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"<html>",
        b'{"effective_quotas": "\xff"}',
        b'{"effective_quotas": {"leader": {"replicas": {"orders": "\xff"}}}}',
        b'{"effective_quotas": null}',
        b'{"effective_quotas": {"leader": {"replicas": {"orders": 0}}, "follower": {"replicas": {}}}}',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_who_is_no_sidecar_is_not_taken_for_a_clean_one(body: bytes) -> None:
    with answering(body) as url, pytest.raises(UnreachableError, match=f"{url}: the answer to /config is not a"):
        still_throttled(url, PROPOSED)


def test_nobody_there_and_no_url_are_errors() -> None:
    with pytest.raises(UnreachableError, match=r"http://127.0.0.1:1/config: no answer from a sidecar: .*refused"):
        still_throttled("http://127.0.0.1:1", PROPOSED)
    with pytest.raises(UnreachableError, match="kafka-101: expected a URL like"):
        still_throttled("kafka-101", PROPOSED)
