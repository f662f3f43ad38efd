"""Reads an AdmissionReview (admission.k8s.io/v1) and makes the patch for its pod, or the reason to refuse it. Pure: a
pod is what its JSON says.

Idempotent: a pod that has its sidecar gets nothing more. Invariants: nothing that a pod has is altered or removed;
every review that can be read is answered under its own uid; a review of anything but a new pod passes untouched.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from .addition import SIDECAR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .addition import Addition, Part


ASKS = "kafka-throttle-sidecar/inject"
"""The label by which a pod asks; its value is "true"."""
MAX_NAME_CHARACTERS = 253
"""The longest name that Kubernetes allows for a pod, a namespace or a review."""
_MAX_PROBLEMS = 10
_MAX_REASON_CHARACTERS = 4096
"""The most characters of a refusal. Names in it are whatever stands in a pod's spec, and it is both answered and
logged."""
MARK = "kafka-throttle-sidecar/injected"
"""The annotation of a pod that was given a sidecar; its value is the addition's `mark`."""

Operation = dict[str, Any]
"""An operation of a JSON patch (RFC 6902)."""
VERSION = "admission.k8s.io/v1"
_FORBIDDEN = 403
_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARACTERS)]
"""A text that is answered or logged: without the limit, a megabyte could be sent that goes into each answer and into
the log."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a pod: a patch, which may be empty, with warnings for the pod's author; or a refusal with its
    reason."""

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str | None = None


def decide(pod: dict[str, Any], addition: Addition) -> Decision:
    """Return what is added to a pod that is about to be made. Raises nothing: a pod of another shape is a refusal."""
    try:
        return _decide(pod, addition)
    except (AttributeError, KeyError, TypeError) as error:
        return Decision(refusal=f"this is no pod as Kubernetes has them: {error}")


def _decide(pod: dict[str, Any], addition: Addition) -> Decision:
    metadata, spec = pod.get("metadata") or {}, pod["spec"]
    if (metadata.get("labels") or {}).get(ASKS) != "true":
        return Decision()
    has = {each["name"] for each in _own_containers(spec)}
    if SIDECAR in has:
        same = (metadata.get("annotations") or {}).get(MARK) == addition.mark
        said = f"the pod has a container {SIDECAR} already, which is left as it is"
        return Decision(warnings=() if same else (said,))
    name = metadata.get("name") or ""
    problems = [*islice(_problems(name, spec, has, addition), _MAX_PROBLEMS)]
    if problems:
        who = f"pod {name[:MAX_NAME_CHARACTERS]}" if name else "a pod without a name"
        told = f"{who} cannot have a throttle sidecar: {'; '.join(problems)}"
        return Decision(refusal=told if len(told) <= _MAX_REASON_CHARACTERS else f"{told[:_MAX_REASON_CHARACTERS]}…")
    return Decision((*_mark(metadata, addition), *_add(spec, addition)))


def _problems(name: str, spec: dict[str, Any], has: set[str], addition: Addition) -> Iterator[str]:
    """Yield every reason why the pod cannot have a sidecar, each as a whole clause."""
    if name not in addition.pods:
        known = ", ".join(sorted(addition.pods)[:10]) or "none"
        yield f"there is no proxy.toml for a pod of this name, expected one of {known}: add it to the chart's `brokers`"
    if spec.get("hostNetwork"):
        yield "spec.hostNetwork is true, so its ports and names would be the node's"
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        yield f"spec.os.name is {spec['os']['name']}, the sidecar is for linux"
    for each in addition.containers:
        if each["name"] in has:
            yield f"it has a container {each['name']} of its own"
    yield from _taken_ports(spec, addition)
    yield from _taken_names(spec, addition)
    yield from _taken_volumes(spec, addition)
    yield from _same_user(spec, addition)
    yield from _unreadable_secrets(spec, addition)


def _own_containers(spec: dict[str, Any]) -> Iterable[Part]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _taken_ports(spec: dict[str, Any], addition: Addition) -> Iterator[str]:
    for container in _own_containers(spec):
        for port in container.get("ports") or []:
            if port.get("protocol", "TCP") == "TCP" and port["containerPort"] in addition.ports:
                who = addition.ports[port["containerPort"]]
                yield f"container {container['name']} has port {port['containerPort']}, on which {who} is to listen"


def _taken_names(spec: dict[str, Any], addition: Addition) -> Iterator[str]:
    led = {name: each["ip"] for each in spec.get("hostAliases") or [] for name in each.get("hostnames") or []}
    for each in addition.host_aliases:
        for name in each.get("hostnames", []):
            if led.get(name, each["ip"]) != each["ip"]:
                yield f"spec.hostAliases leads {name} to {led[name]}, it is to lead to the sidecar at {each['ip']}"


def _taken_volumes(spec: dict[str, Any], addition: Addition) -> Iterator[str]:
    there = {each["name"] for each in spec.get("volumes") or []}
    for each in addition.volumes:
        if each["name"] in there:
            yield f"it has a volume {each['name']} of its own"


def _same_user(spec: dict[str, Any], addition: Addition) -> Iterator[str]:
    if not addition.redirects:
        return
    user = (addition.sidecar.get("securityContext") or {}).get("runAsUser")
    of_all = (spec.get("securityContext") or {}).get("runAsUser")
    for container in spec.get("containers") or []:
        if (container.get("securityContext") or {}).get("runAsUser", of_all) == user:
            yield f"container {container['name']} is to run as user {user}, whose connections are not redirected"


def _unreadable_secrets(spec: dict[str, Any], addition: Addition) -> Iterator[str]:
    """Yield a missing fsGroup. A Secret's files belong to it, or else to group 0, and exclude all others. A
    sidecar that cannot read its keys does not start, and the broker waits for it without a word. The webhook gives the
    pod no fsGroup itself, since that changes whom every other volume belongs to as well, the broker's data included."""
    context = spec.get("securityContext") or {}
    if context.get("fsGroup") is not None or 0 in (context.get("supplementalGroups") or []):
        return
    names = ", ".join(each["name"] for each in addition.volumes if "secret" in each)
    if names:
        user = (addition.sidecar.get("securityContext") or {}).get("runAsUser")
        yield (
            f"spec.securityContext.fsGroup is missing: without one user {user}, who {SIDECAR} runs as, cannot read the "
            f"Secrets of volumes {names}"
        )


def _mark(metadata: dict[str, Any], addition: Addition) -> Iterator[Operation]:
    if metadata.get("annotations") is None:
        yield {"op": "add", "path": "/metadata/annotations", "value": {}}
    yield {"op": "add", "path": f"/metadata/annotations/{MARK.replace('/', '~1')}", "value": addition.mark}


def _add(spec: dict[str, Any], addition: Addition) -> Iterator[Operation]:
    """Put the added containers before the pod's own init containers, which may want to reach brokers already;
    everything else after the pod's own."""
    for key, parts, place in (
        ("initContainers", tuple(reversed(addition.containers)), "0"),
        ("volumes", addition.volumes, "-"),
        ("hostAliases", _missing(spec, "hostAliases", addition.host_aliases), "-"),
        ("imagePullSecrets", _missing(spec, "imagePullSecrets", addition.pull_secrets), "-"),
    ):
        if parts and not spec.get(key):
            yield {"op": "add", "path": f"/spec/{key}", "value": []}
        for part in parts:
            yield {"op": "add", "path": f"/spec/{key}/{place}", "value": part}


def _missing(spec: dict[str, Any], key: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return what the pod does not have exactly so. The names of one address are usually one entry of `hostAliases`,
    but a second entry for it is allowed: the API server accepts it, and the kubelet keeps both."""
    return tuple(each for each in parts if each not in (spec.get(key) or []))


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
    """A question of the API server's."""

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
        """The namespace and name of the pod, for the log."""
        metadata = (self._request.object or {}).get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        told = name[:MAX_NAME_CHARACTERS] if isinstance(name, str) else ""
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
