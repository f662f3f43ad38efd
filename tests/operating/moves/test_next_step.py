from __future__ import annotations

import json

import pytest

from operating.fleet.members import Member, Reply
from operating.moves.cluster_view import ClusterView, PartitionState
from operating.moves.next_step import (
    Held,
    Step,
    are_overrides,
    concerned_brokers,
    kept_reassignment,
    next_step,
    obstacles,
    reassignment_of,
    refuse_second,
    throttle_as_before,
    unknown_label,
)
from operating.moves.verification import Progress, Stage
from proxy.errors import ConfigurationError
from reassignment import Document, Ongoing, Throttle, TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVE = Document({A: (101, 104), B: (102, 104)})
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def override(label: str | None, *changes: tuple[str, str, object], **more: object) -> dict[str, object]:
    return {
        "id": "abcd",
        "label": label,
        "until": None,
        "changes": [{"place": place, "key": key, "value": value} for place, key, value in changes],
        **more,
    }


def held(overrides: dict[int, list[dict[str, object]]], silent: dict[int, str] | None = None) -> Held:
    replies = tuple(Reply(Member(f"http://{n}", n), error=error) for n, error in (silent or {}).items())
    return Held({n: Member(f"http://{n}", n) for n in overrides}, overrides, replies)


@pytest.mark.parametrize(
    ("stages", "throttled", "silent", "step"),
    [
        # Nothing of it has begun.
        ([Stage.NOT_STARTED, Stage.NOT_STARTED], [], [], Step.THROTTLE),
        # Killed within the overrides, and after them.
        ([Stage.NOT_STARTED, Stage.NOT_STARTED], [101], [], Step.THROTTLE),
        ([Stage.NOT_STARTED, Stage.NOT_STARTED], [101, 102, 104], [], Step.EXECUTE),
        # A broker of it whose sidecar is dead is not moved to unthrottled.
        ([Stage.NOT_STARTED, Stage.NOT_STARTED], [101, 102], [104], Step.THROTTLE),
        # A part was refused, or cancelled by somebody else.
        ([Stage.MOVING, Stage.NOT_STARTED], [101, 102, 104], [], Step.EXECUTE),
        ([Stage.DONE, Stage.NOT_STARTED], [101, 102, 104], [], Step.EXECUTE),
        # Under way.
        ([Stage.MOVING, Stage.MOVING], [101, 102, 104], [], Step.WAIT),
        ([Stage.DONE, Stage.MOVING], [101, 102, 104], [], Step.WAIT),
        ([Stage.BEHIND, Stage.DONE], [101, 102, 104], [], Step.WAIT),
        ([Stage.AWAY, Stage.DONE], [101, 102, 104], [], Step.WAIT),
        # Its throttle ended, or was undone; what is silent is no reason to wait for nothing.
        ([Stage.MOVING, Stage.MOVING], [], [], Step.THROTTLE),
        ([Stage.MOVING, Stage.MOVING], [101, 102], [104], Step.WAIT),
        # Killed after the end.
        ([Stage.DONE, Stage.DONE], [101, 102, 104], [], Step.REMOVE),
        ([Stage.DONE, Stage.DONE], [104], [101], Step.REMOVE),
        ([Stage.DONE, Stage.DONE], [], [], Step.REMOVE),
    ],
)
def test_every_state_has_its_next_step(
    stages: list[Stage], throttled: list[int], silent: list[int], step: Step
) -> None:
    found = [Progress(partition, stage, (101, 104)) for partition, stage in zip((A, B), stages, strict=True)]
    concerned = () if {*stages} == {Stage.DONE} else (101, 102, 104)
    assert next_step(found, concerned, throttled, silent) is step


def test_who_sends_or_fetches_is_concerned_until_it_is_in_place() -> None:
    view = ClusterView(
        {A: PartitionState(101, (101, 104), (101, 104)), B: PartitionState(102, (102, 103, 104), (102, 103))},
        {B: Ongoing((102, 104, 103), (104,), (103,)), TopicPartition("clicks", 0): Ongoing((7, 8), (8,), ())},
        {},
        frozenset({101, 102, 103, 104}),
    )
    assert concerned_brokers(MOVE, view) == {102, 103, 104}
    gone = Document({**MOVE.assignment, TopicPartition("gone", 0): (101, 104)})
    assert concerned_brokers(gone, view) == {102, 103, 104}


def test_what_cannot_go_on_is_named() -> None:
    found = [Progress(A, Stage.MISSING, ()), Progress(B, Stage.ELSEWHERE, ())]
    missing, elsewhere = obstacles(found)
    assert missing == "orders-0: no such partition"
    assert elsewhere.startswith("orders-1: already moving to other replicas than these, by another reassignment: ")
    assert obstacles([Progress(A, Stage.MOVING, ())]) == []


@pytest.mark.parametrize(
    ("stage", "overrides", "problem"),
    [
        (Stage.NOT_STARTED, {101: [override("m")], 104: []}, "m: this move has been begun, its throttle is at"),
        (Stage.DONE, {101: [override("m")], 104: [override("m")]}, "throttle is at brokers 101, 104: go on with it: R"),
        (Stage.MOVING, {101: [], 104: []}, "orders-0: already moving to these replicas, without a throttle"),
        (Stage.ELSEWHERE, {101: [], 104: []}, "orders-0: already moving to other replicas than these"),
        (Stage.MISSING, {101: [], 104: []}, "orders-0: no such partition"),
    ],
)  # fmt: skip
def test_a_second_move_is_refused(stage: Stage, overrides: dict[int, list[dict[str, object]]], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        refuse_second([Progress(A, stage, (101, 104))], held(overrides), "m", resume="R", adopt="A", cancel="C")


def test_a_first_move_is_not_refused() -> None:
    there = held({101: [override("other")], 104: []})
    refuse_second([Progress(A, Stage.NOT_STARTED, (101, 104))], there, "m", resume="R", adopt="A", cancel="C")


def test_of_an_unknown_label_it_is_said_which_there_are() -> None:
    there = {101: [override("b"), override("a"), override(None)], 102: [override("b")]}
    assert unknown_label("x", held(there, {104: "http://104: no answer"})) == (
        "x: no sidecar that answers has an override with this label; labels there are: a (broker 101), "
        "b (brokers 101-102); http://104: no answer"
    )
    assert unknown_label("", held({101: []})).endswith("labels there are: none at all")


def test_overrides_keep_the_reassignment_for_another_machine() -> None:
    kept = kept_reassignment(MOVE)
    there = {101: [override("m", reassignment=kept)], 104: [override("m"), override("n", reassignment="{}")]}
    assert reassignment_of("m", held(there)) == MOVE
    assert reassignment_of("x", held(there)) is None
    with pytest.raises(ConfigurationError, match="override n: expected"):
        reassignment_of("n", held(there))
    there[104].append(override("m", reassignment=kept_reassignment(Document({A: (101, 103)}))))
    with pytest.raises(ConfigurationError, match="2 different reassignments have this label"):
        reassignment_of("m", held(there))


def test_a_reassignment_that_is_too_long_is_not_kept() -> None:
    many = Document({TopicPartition("orders", n): (101, 104) for n in range(5000)})
    assert kept_reassignment(many) is None
    few = Document({TopicPartition("orders", n): (101, 104) for n in range(4000)})
    assert len(json.loads(kept_reassignment(few) or "")["partitions"]) == 4000


@pytest.mark.parametrize(
    ("overrides", "rates", "finish_by"),
    [
        ({101: [override("m", ("broker", RATES[0], "5MiB/s"))]}, {(104, "follower"): 5 << 20}, None),
        (
            {101: [override("m", ("broker", RATES[0], 1000), ("broker", RATES[1], 2000))]},
            {(104, "follower"): 2000},
            None,
        ),
        (
            {101: [override("m", ("broker", RATES[0], {"finish_by": "06:00", "max": "1KiB/s"}))]},
            {(104, "follower"): 1024},
            "06:00",
        ),
        ({101: [override("other", ("broker", RATES[0], 5))]}, None, None),
        # Set by hand under the label of the move.
        ({101: [override("m", ("broker", RATES[0], "unlimited"))]}, None, None),
        ({101: [override("m", ("topics.orders", "leader.replication.throttled.replicas", "0:101"))]}, None, None),
    ],
)
def test_who_lacks_the_throttle_has_the_largest_rate_of_the_others(
    overrides: dict[int, list[dict[str, object]]], rates: object, finish_by: str | None
) -> None:
    wanted = Throttle({(101, "leader"): 1, (104, "follower"): 1}, {"leader": {}, "follower": {}})
    found = throttle_as_before(wanted, held(overrides), "m")
    assert (found and found.rates, found and found.finish_by) == (rates, finish_by)


@pytest.mark.parametrize("value", ["fast", None, -1, {"max": []}, {}])
def test_a_rate_that_is_none_is_said(value: object) -> None:
    with pytest.raises(ConfigurationError, match="override m: rate: expected"):
        throttle_as_before(Throttle({}, {}), held({101: [override("m", ("broker", RATES[0], value))]}), "m")


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        (["2026-12-01T00:00:00Z", "2026-12-02T00:00:00+00:00"], "2026-12-02T00:00:00+00:00"),
        (["2026-12-01T00:00:00Z", None], None),
        ([], None),
    ],
)
def test_a_throttle_that_is_set_again_ends_when_the_last_would_have(ends: list[str | None], last: str | None) -> None:
    found = held({101: [override("m", until=end) for end in ends]}).end_of("m")
    assert (found and found.isoformat()) == last


def test_an_end_that_is_none_is_said() -> None:
    with pytest.raises(ConfigurationError, match="override m: until: expected a date"):
        held({101: [override("m", until="never")]}).end_of("m")


@pytest.mark.parametrize(
    ("answer", "is_one"),
    [
        ({"overrides": []}, True),
        ({"overrides": [override("m", ("broker", RATES[0], 5), reassignment="{}")]}, True),
        (None, False),
        ({}, False),
        ({"overrides": {}}, False),
        ({"overrides": [5]}, False),
        ({"overrides": [{"label": "m"}]}, False),
        ({"overrides": [override("m", reassignment=5)]}, False),
        ({"overrides": [override(["m"])]}, False),
        ({"overrides": [{"label": "m", "changes": [{"place": "broker"}]}]}, False),
        ({"overrides": [{"label": "m", "changes": [{"place": "broker", "key": 5, "value": 5}]}]}, False),
    ],
)
def test_an_answer_that_is_not_a_sidecars_is_told_apart(answer: object, is_one: bool) -> None:
    assert are_overrides(answer) is is_one
