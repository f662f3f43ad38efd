"""AdmissionReviews in and out, good and bad."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.injection.addition import Addition
from operating.injection.injecting import NoReviewError, Review
from operating.injection.server import BOUNDS, MAX_REVIEW_BYTES

from .pods import addition, pod

ADDITION = Addition(frozenset(), ({"name": "throttle-sidecar"}, {"name": "throttle-redirect"}), (), (), (), "mark")
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def review(of: dict[str, Any] | None, **request: Any) -> bytes:
    asked = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "kafka",
        "operation": "CREATE",
        "object": of,
        "oldObject": None,
        **request,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


@pytest.fixture
def follower(tmp_path: Path) -> Addition:
    return addition(tmp_path)


def answered(content: bytes, adds: Addition) -> dict[str, Any]:
    asked = Review(content)
    found = json.loads(asked.answer(asked.decide(adds)))
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = found["response"]
    assert response["uid"] == UID
    return response


def test_a_pod_is_answered_with_a_patch(follower: Addition) -> None:
    response = answered(review(pod()), follower)
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert {operation["op"] for operation in patch} == {"add"}


def test_a_refusal_is_a_403_with_its_reason(follower: Addition) -> None:
    response = answered(review(pod(hostNetwork=True)), follower)
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert "hostNetwork" in response["status"]["message"]
    assert "patch" not in response


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
    ],
)
def test_what_is_no_pod_being_made_passes_untouched(follower: Addition, request_: dict[str, Any]) -> None:
    assert answered(review(pod(), **request_), follower) == {"uid": UID, "allowed": True}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "truncated"),
        (b"\xff", ""),
        (b"[]", "array"),
        (b"{}", "apiVersion"),
        (b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"u","kind":{"group":"","kind":"Pod"},"operation":"CREATE"}}',
         "found v1 Pod"),
        (b"[" * 100_000, ""),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}', "request.uid"),
    ],
)  # fmt: skip
def test_what_is_no_review_says_where(content: bytes, why: str) -> None:
    with pytest.raises(NoReviewError, match="expected") as caught:
        Review(content)
    assert why in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["metadata", "labels", "spec", "containers", "name", "ports", "volumes", "hostAliases", "annotations",
         "kafka-throttle-sidecar/inject", "initContainers", "securityContext", "os"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), JSON))
def test_whatever_a_pod_looks_like_there_is_an_answer(pod: dict[str, Any]) -> None:
    asked = Review(review(pod))
    assert asked.answer(asked.decide(ADDITION))


MIB = 1 << 20
FILLED = {
    "spec": [
        "{}", '{"":{}}', '{"ab":{}}', "[[]]", '{"name":"a"}', '{"name":"a","ports":[{"containerPort":9092}]}',
    ],
    "containers": [
        '{"name":"a"}', '{"name":"b","ports":[{"containerPort":9092}]}', '{"name":"throttle-redirect"}',
    ],
    "hostAliases": ['{"ip":"10.0.0.1","hostnames":["kafka-102"]}'],
}  # fmt: skip


def filled(where: str, unit: str) -> bytes:
    """The longest review there may be: of a pod in whose spec something is said without end."""
    whole = review(pod()).decode()
    count = (MAX_REVIEW_BYTES - len(whole) - 100) // (len(unit) + 1)
    parts = ",".join([unit] * count)
    if where == "spec":
        return whole.replace('"spec": {', f'"spec": {{"x": [{parts}],', 1).encode()
    if f'"{where}": [' in whole:
        return whole.replace(f'"{where}": [', f'"{where}": [{parts},', 1).encode()
    return whole.replace('"spec": {', f'"spec": {{"{where}": [{parts}],', 1).encode()


@pytest.mark.parametrize(("where", "unit"), [(where, unit) for where, units in FILLED.items() for unit in units])
def test_the_longest_reviews_stay_below_the_memory_of_the_webhooks_pod(
    follower: Addition, where: str, unit: str
) -> None:
    """Whatever is in them. Beside it are the process, and as many bodies as there may be connections."""
    content = filled(where, unit)
    assert len(content) > MAX_REVIEW_BYTES * 0.99
    tracemalloc.start()
    try:
        response = answered(content, follower)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    chart = (Path(__file__).parents[3] / "deploy" / "helm" / "templates" / "webhook.yaml").read_text()
    (limit,) = re.findall(r"limits: \{memory: ([0-9]+)Mi\}", chart)
    bodies = BOUNDS.connections * MAX_REVIEW_BYTES
    assert 48 * MIB + bodies + peak < int(limit) * MIB
    assert len(json.dumps(response)) < 16 * 1024


@pytest.mark.parametrize("key", ["uid", "namespace"])
def test_what_is_told_back_and_logged_has_a_length(key: str) -> None:
    with pytest.raises(NoReviewError, match=rf"length <= 253 - at `\$\.request\.{key}`"):
        Review(review(pod(), **{key: "k" * 254}))


def test_a_name_without_end_is_neither_logged_nor_told_whole(follower: Addition) -> None:
    long = pod(containers=[{"name": "n" * MIB, "ports": [{"containerPort": 9092}]}])
    long["metadata"]["name"] = "k" * MIB
    asked = Review(review(long))
    assert asked.pod == f"kafka/{'k' * 253}"
    refusal = asked.decide(follower).refusal
    assert refusal is not None
    assert len(refusal) < 5000
    assert refusal.startswith("pod kkk")
