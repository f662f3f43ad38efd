"""Reads the addition to a broker's pod, as the chart renders it (deploy/helm): one JSON file.

    {"pods": ["kafka-0", …],
     "spec": {"hostAliases": […], "imagePullSecrets": […], "initContainers": […], "volumes": […]}}

Invariant: every `Addition` has a sidecar, and each of its parts has the key that distinguishes it from the others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

SIDECAR = "throttle-sidecar"
MAX_BYTES = 1024 * 1024

Part = dict[str, Any]
"""An element of a list in a pod's spec, as JSON has it."""


class _Spec(msgspec.Struct, forbid_unknown_fields=True):
    initContainers: list[Part]  # noqa: N815 - Kubernetes' name
    volumes: list[Part] = []
    hostAliases: list[Part] = []  # noqa: N815
    imagePullSecrets: list[Part] = []  # noqa: N815


class _File(msgspec.Struct, forbid_unknown_fields=True):
    pods: list[str]
    spec: _Spec


_FILE = msgspec.json.Decoder(_File)


@dataclass(frozen=True, slots=True)
class Addition:
    """`pods`: the names of the pods that have a proxy.toml. `mark`: a hash, which is the same as long as the addition
    is."""

    pods: frozenset[str]
    containers: tuple[Part, ...]
    volumes: tuple[Part, ...]
    host_aliases: tuple[Part, ...]
    pull_secrets: tuple[Part, ...]
    mark: str

    @property
    def sidecar(self) -> Part:
        return next(each for each in self.containers if each["name"] == SIDECAR)

    @property
    def ports(self) -> dict[int, str]:
        """The ports that the added containers listen on, each with its container's name."""
        return {
            port["containerPort"]: container["name"]
            for container in self.containers
            for port in container.get("ports", [])
        }

    @property
    def redirects(self) -> bool:
        """True if the broker's connections are redirected. The rules except the sidecar's own connections by its user,
        so no other container may run as that user."""
        return len(self.containers) > 1


def read_addition(path: Path) -> Addition:
    """Read the file. Blocking. Raises ConfigurationError, which names the file and the key."""
    content = read_bytes(path)
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{path}: expected at most {MAX_BYTES} bytes, found {len(content)}")
    try:
        found = _FILE.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    problems = [*_nameless("initContainers", "name", found.spec.initContainers)]
    problems += _nameless("volumes", "name", found.spec.volumes)
    problems += _nameless("hostAliases", "ip", found.spec.hostAliases)
    problems += _nameless("imagePullSecrets", "name", found.spec.imagePullSecrets)
    if not problems and SIDECAR not in {each["name"] for each in found.spec.initContainers}:
        problems.append(f"spec.initContainers: expected one with the name {SIDECAR}")
    if problems:
        raise ConfigurationError([f"{path}: {problem}" for problem in problems])
    spec = found.spec
    mark = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]
    return Addition(
        frozenset(found.pods),
        tuple(spec.initContainers),
        tuple(spec.volumes),
        tuple(spec.hostAliases),
        tuple(spec.imagePullSecrets),
        mark,
    )


def _nameless(where: str, key: str, parts: list[Part]) -> list[str]:
    return [
        f"spec.{where}[{position}].{key}: expected text, found {part.get(key)!r}"
        for position, part in enumerate(parts)
        if not isinstance(part.get(key), str)
    ]
