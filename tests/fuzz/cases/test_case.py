"""Cases are functions of their seeds, are bounded, and survive being written down."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from fuzz.cases.case import Case, generator
from fuzz.cases.http import http_case
from fuzz.cases.kafka import answer_case, pool, request_case
from fuzz.cases.mutations import MAX_BYTES, MUTATIONS, chunks, mutated, prefixed
from fuzz.cases.random_fetches import exchange
from fuzz.findings import Finding, cases_of
from fuzz.invariant import Breach, Broken
from fuzz.scenes.quota_files import ODD, hostile_file
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, request_layout, response_layout
from protocol.wire.apis import API_FETCH, APIS
from protocol.wire.headers import peek_request
from protocol.wire.layout import parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAMILIES = [request_case, answer_case, http_case]


@pytest.mark.parametrize("make", FAMILIES)
def test_a_case_is_made_again_by_its_seed_and_number(make: Callable[[int, int], Case]) -> None:
    assert [make(5, n) for n in range(50)] == [make(5, n) for n in range(50)]
    assert make(5, 1) != make(6, 1) != make(6, 2)


@pytest.mark.parametrize("make", FAMILIES)
def test_a_case_survives_json(make: Callable[[int, int], Case]) -> None:
    for number in range(50):
        case = make(1, number)
        assert Case.from_json(json.loads(json.dumps(case.as_json()))) == case


def test_requests_are_of_every_api_and_every_version_of_fetch() -> None:
    heads = [peek_request(frame, 0, len(frame)) for frame in pool().requests]
    fetches = {head.api_version for head in heads if head is not None and head.api_key == API_FETCH}
    assert fetches == set(SUPPORTED_FETCH_VERSIONS)
    sent = b"".join(chunk for number in range(1500) for chunk in request_case(1, number).chunks)
    assert all(key.to_bytes(2) in sent for key in APIS)


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
def test_what_mutations_begin_with_is_right_in_every_byte(version: int) -> None:
    for seed in range(20):
        one = exchange(random.Random(seed), version)
        asked = parse_whole(request_layout(version), one.request).topics
        answered = parse_whole(response_layout(version), one.answer).responses
        assert sum(len(topic.partitions) for topic in asked) == sum(len(topic.partitions) for topic in answered)


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_every_mutation_takes_whatever_there_is(mutate: Callable[[random.Random, bytearray], None]) -> None:
    changed = 0
    for size in (0, 1, 2, 3, 7, 100):
        for seed in range(30):
            before = bytes(range(size))
            data = bytearray(before)
            mutate(random.Random(seed), data)
            changed += data != before
    assert changed > 30


def test_what_is_mutated_stays_bounded_and_chunks_lose_nothing() -> None:
    for seed in range(200):
        data = mutated(random.Random(seed), bytes(MAX_BYTES - 10), times=8)
        assert len(data) <= MAX_BYTES
        short = data[: seed * 3]
        assert b"".join(chunks(random.Random(seed), short)) == short


def test_a_prefix_lies_as_often_as_it_is_told_to() -> None:
    frames = [prefixed(random.Random(seed), bytes(20), lies=0.5) for seed in range(200)]
    honest = sum(frame[:4] == (20).to_bytes(4) for frame in frames)
    assert 60 < honest < 140


def test_quota_files_are_of_every_kind() -> None:
    made = [hostile_file(generator(1, "quota-files", number)) for number in range(400)]
    assert {said for _, said in made} == {*ODD, "mutated", "its lines at random"}


def test_a_finding_is_kept_with_all_that_sends_it_again(tmp_path: Path) -> None:
    breach = Breach(Broken.DIED, 'File "/x/proxy/a.py", line 3, in f\nValueError: no')
    case = request_case(1, 2)
    found = Finding(
        "requests", "none", 1, breach, (case,), shown_again=True, after_frames=9, after_seconds=0.5
    )  # fmt: skip
    path = found.save(tmp_path)
    assert cases_of(path) == ("none", [case])
    assert breach.signature == "died /x/proxy/a.py:3 f ValueError"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"\.json: not a corpus file"):
        cases_of(path)
