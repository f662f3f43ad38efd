"""A ConfigMap as a pod sees it: whole versions, swapped, in the place of a file that was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kubernetes.mounts import MountedConfigMap

if TYPE_CHECKING:
    from pathlib import Path


def test_every_version_is_seen_whole_and_the_one_before_is_gone(tmp_path: Path) -> None:
    (tmp_path / "quotas.toml").write_text("a file of one's own")
    mount = MountedConfigMap(tmp_path, {"quotas.toml": "1", "other": "a"})
    assert [(tmp_path / name).read_text() for name in ("quotas.toml", "other")] == ["1", "a"]
    assert (tmp_path / "quotas.toml").readlink().as_posix() == "..data/quotas.toml"
    mount.publish({"quotas.toml": "2", "other": "b"})
    assert [(tmp_path / name).read_text() for name in ("quotas.toml", "other")] == ["2", "b"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("..version")] == ["..version-2"]
