"""Where quotas are kept, read and replaced as a whole: a file or a key of a ConfigMap. Several sidecars may share it.

Blocking. Knows no quotas. Invariant: only the content that was read is replaced; if somebody else was faster, nothing
is.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes
from proxy.files.replacement import edit_file, refuse_config_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .file import ConfigMapKey

KUBECTL_SECONDS = 30.0
_MOST_TOLD = 500
"""The most characters that are told of kubectl's error."""


class Store(Protocol):
    """`name` leads every message about it."""

    @property
    def name(self) -> str: ...

    def read(self) -> bytes:
        """Raises ConfigurationError."""

    def check_writable(self) -> None:
        """Raise ConfigurationError if it is known before the write that the store cannot be written."""

    def replace(self, before: bytes, after: bytes) -> None:
        """Raises ConfigurationError; then the store is as it was."""


@dataclass(frozen=True, slots=True)
class FileStore:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self) -> bytes:
        return read_bytes(self.path)

    def check_writable(self) -> None:
        refuse_config_map(self.path)
        # A link is followed: what it leads to is replaced.
        folder = Path(os.path.realpath(self.path)).parent
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ConfigurationError(f"{self.path}: cannot be replaced: {folder} is not writable for this user")

    def replace(self, before: bytes, after: bytes) -> None:
        def change(found: bytes) -> tuple[bytes, None]:
            if found != before:
                raise ConfigurationError(f"{self.path}: somebody else has changed it meanwhile: look, and try again")
            return after, None

        edit_file(self.path, change)


@dataclass(frozen=True, slots=True)
class ConfigMapStore:
    """Works by kubectl, which has the operator's access to the cluster: contexts, tokens, plugins that log in. A
    library would have to be told all of that again, and brings thirty megabytes."""

    key: ConfigMapKey
    kubectl: tuple[str, ...] = ("kubectl",)

    @property
    def name(self) -> str:
        return str(self.key)

    def read(self) -> bytes:
        said = self._run(["get", "-o", "json"])
        try:
            document = json.loads(said)
            content = document["data"][self.key.key]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{self.name}: has no such key, or kubectl's answer is no ConfigMap") from error
        if not isinstance(content, str):
            raise ConfigurationError(f"{self.name}: expected text, found {type(content).__name__}")
        if document.get("immutable") is True:
            raise ConfigurationError(f"{self.name}: is immutable: make another, and name that in the pods")
        return content.encode()

    def check_writable(self) -> None:
        self._patch([], "--dry-run=server")

    def replace(self, before: bytes, after: bytes) -> None:
        """Replace it by one JSON patch (RFC 6902). Its `test` fails if somebody else was faster; the server tests and
        replaces in one step."""
        path = f"/data/{self.key.key.replace('~', '~0').replace('/', '~1')}"
        self._patch(
            [
                {"op": "test", "path": path, "value": before.decode()},
                {"op": "replace", "path": path, "value": after.decode()},
            ]
        )

    def _patch(self, operations: list[dict[str, Any]], *options: str) -> None:
        self._run(["patch", "--type=json", "--patch-file=/dev/stdin", *options], json.dumps(operations).encode())

    def _run(self, verb: Sequence[str], said: bytes = b"") -> bytes:
        place = ["configmap", self.key.name, f"--namespace={self.key.namespace}"]
        command = [*self.kubectl, verb[0], *place, *verb[1:], f"--request-timeout={KUBECTL_SECONDS:.0f}s"]
        try:
            done = subprocess.run(command, input=said, capture_output=True, timeout=2 * KUBECTL_SECONDS, check=False)
        except FileNotFoundError as error:
            raise ConfigurationError(f"{self.name}: {self.kubectl[0]}: is not there: install kubectl") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(f"{self.name}: {self.kubectl[0]}: {error}") from error
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip()[:_MOST_TOLD]
            raise ConfigurationError(f"{self.name}: {' '.join(command[:3])}: {reason or f'exit {done.returncode}'}")
        return done.stdout
