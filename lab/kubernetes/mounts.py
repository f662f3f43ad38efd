"""A ConfigMap as a kubelet mounts it in a pod: the files of a version, swapped whole by one symlink.

    quotas.toml -> ..data/quotas.toml, ..data -> ..version-7, ..version-7/quotas.toml

Invariant: a reader sees one version or the next, never a file that is half written.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class MountedConfigMap:
    """A directory as a pod sees it. `data` is the ConfigMap's; files of these names make way."""

    def __init__(self, directory: Path, data: Mapping[str, str]) -> None:
        self.directory = directory
        self._versions = 0
        directory.mkdir(exist_ok=True)
        self.publish(data)
        for key in data:
            link = directory / f"..{key}"
            link.symlink_to(f"..data/{key}")
            link.rename(directory / key)

    def publish(self, data: Mapping[str, str]) -> None:
        """Show another version."""
        self._versions += 1
        fresh = self.directory / f"..version-{self._versions}"
        fresh.mkdir()
        for key, text in data.items():
            (fresh / key).write_text(text, encoding="utf-8")
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.directory / "..data")
        shutil.rmtree(self.directory / f"..version-{self._versions - 1}", ignore_errors=True)
