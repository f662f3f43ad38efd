"""AdmissionReview (admission.k8s.io/v1), in and out. Pure.

Invariant: every review that can be read is answered under its own uid. A review of anything but a new pod passes
untouched.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from .injecting import MOST_NAME_CHARACTERS, Decision, decide

if TYPE_CHECKING:
    from .addition import Addition

VERSION = "admission.k8s.io/v1"
_FORBIDDEN = 403
_Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME_CHARACTERS)]
"""For texts that are answered or logged: without the limit, a megabyte could be sent that goes into each answer and
into the log."""


class _Kind(msgspec.Struct):
    group: str
    kind: str


class _Request(msgspec.Struct):
    uid: _Name
    kind: _Kind
    operation: str
    namespace: _Name = ""
    object: dict[str, Any] | None = None


class _Review(msgspec.Struct):
    apiVersion: str  # noqa: N815 - Kubernetes' name
    kind: str
    request: _Request


_REVIEW = msgspec.json.Decoder(_Review)


class NoReviewError(Exception):
    """The content is no AdmissionReview; the message says where."""


class Review:
    """One question of the API server's."""

    def __init__(self, content: bytes) -> None:
        """Read a review. Raises NoReviewError."""
        try:
            found = _REVIEW.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NoReviewError(f"expected an AdmissionReview: {error}") from error
        if (found.apiVersion, found.kind) != (VERSION, "AdmissionReview"):
            raise NoReviewError(f"expected {VERSION} AdmissionReview, found {found.apiVersion} {found.kind}")
        self._request = found.request

    @property
    def pod(self) -> str:
        """Where and what it is, for the log."""
        metadata = (self._request.object or {}).get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        told = name[:MOST_NAME_CHARACTERS] if isinstance(name, str) else ""
        return f"{self._request.namespace}/{told or '?'}"

    def decide(self, addition: Addition) -> Decision:
        asked = self._request
        is_pod = (asked.kind.group, asked.kind.kind) == ("", "Pod")
        if not is_pod or asked.operation != "CREATE" or asked.object is None:
            return Decision()
        return decide(asked.object, addition)

    def answer(self, decision: Decision) -> bytes:
        """Return the review that goes back."""
        response: dict[str, Any] = {"uid": self._request.uid, "allowed": decision.refusal is None}
        if decision.refusal is not None:
            response["status"] = {"code": _FORBIDDEN, "reason": "Forbidden", "message": decision.refusal}
        if decision.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(decision.patch)).decode()
        if decision.warnings:
            response["warnings"] = decision.warnings
        return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
