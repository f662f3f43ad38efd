from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from proxy import quotas_save
from proxy.errors import ConfigurationError
from proxy.quotas_save import save_quotas

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "# old\n", "[brokers.101]\nleader.replication.throttled.rate = 5\n"


@pytest.fixture
def quotas(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_text(OLD)
    path.chmod(0o640)
    return path


def test_the_file_is_replaced_by_one_rename_and_keeps_its_mode(quotas: Path) -> None:
    with quotas.open() as still_open:
        save_quotas(quotas, NEW)
        assert still_open.read() == OLD
    assert quotas.read_text() == NEW
    assert stat.S_IMODE(quotas.stat().st_mode) == 0o640
    assert list(quotas.parent.iterdir()) == [quotas]


def test_a_new_file_can_be_read_by_the_sidecars_user(tmp_path: Path) -> None:
    save_quotas(tmp_path / "new.toml", NEW)
    assert stat.S_IMODE((tmp_path / "new.toml").stat().st_mode) == 0o644


def test_what_check_refuses_is_not_written(quotas: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"quotas.toml: brokers.101.leader.*rate: expected"):
        save_quotas(quotas, NEW.replace("5", "-5"))
    assert quotas.read_text() == OLD


def test_a_link_is_followed(quotas: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to("quotas.toml")
    save_quotas(link, NEW)
    assert link.is_symlink()
    assert quotas.read_text() == NEW


def test_a_config_maps_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """As the kubelet lays it out: quotas.toml -> ..data/quotas.toml, ..data -> ..2026_11_21."""
    (tmp_path / "..2026_11_21").mkdir()
    (tmp_path / "..2026_11_21" / "quotas.toml").write_text(OLD)
    (tmp_path / "..data").symlink_to("..2026_11_21")
    (tmp_path / "quotas.toml").symlink_to("..data/quotas.toml")
    with pytest.raises(ConfigurationError, match=r"mounted from a ConfigMap.*kubectl edit configmap"):
        save_quotas(tmp_path / "quotas.toml", NEW)
    assert (tmp_path / "quotas.toml").read_text() == OLD


def test_a_directory_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A path through a file stands in for a read-only mount, which root does not notice by modes."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot be replaced: Not a directory: .*writable"):
        save_quotas(tmp_path / "file" / "quotas.toml", NEW)


def test_a_write_that_fails_leaves_nothing_behind(quotas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(quotas_save.os, "fsync", full)
    with pytest.raises(ConfigurationError, match="No space left on device"):
        save_quotas(quotas, NEW)
    assert (quotas.read_text(), list(quotas.parent.iterdir())) == (OLD, [quotas])
