"""AdmissionReviews in and out, good and bad."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.injection.addition import Addition
from operating.injection.reviews import NoReviewError, Review

from .pods import addition, pod

if TYPE_CHECKING:
    from pathlib import Path

ADDITION = Addition(frozenset(), ({"name": "throttle-sidecar"}, {"name": "throttle-redirect"}), (), (), "mark")
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
