from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.files.replacement import create_file, edit_file, remove_file

ACCESS = "system.posix_acl_access"


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """As the kernel takes it: tag, permissions and id of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
USER_4321_READS = access_list((1, 6, NOBODY), (2, 4, 4321), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))
"""Owner rw, user 4321 r, group nothing, mask r, others nothing."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_bytes(b"old")
    return path


def edit(path: Path, text: bytes = b"+new") -> bytes:
    after, _ = edit_file(path, lambda before: (before + text, None))
    return after


def test_the_file_is_replaced_not_written_into(path: Path) -> None:
    path.chmod(0o640)
    before = path.stat().st_ino
    with path.open("rb") as reader:
        assert edit_file(path, lambda found: (found + b"+new", len(found))) == (b"old+new", 3)
        assert reader.read() == b"old"
    assert path.read_bytes() == b"old+new"
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o7777 == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["quotas.toml"]


def test_what_stays_the_same_is_not_touched(path: Path) -> None:
    before = path.stat()
    edit(path, b"")
    assert path.stat() == before


def test_owner_and_group_stay(path: Path) -> None:
    owner = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    edit(path)
    assert (path.stat().st_uid, path.stat().st_gid) == owner


def test_the_access_control_list_stays(path: Path) -> None:
    """Of a file whose group may not read it, though user 4321 may, the mode alone says that the group may."""
    path.chmod(0o600)
    os.setxattr(path, ACCESS, USER_4321_READS)
    os.setxattr(path, "user.note", b"ours")
    edit(path)
    assert path.read_bytes() == b"old+new"
    assert (os.getxattr(path, ACCESS), os.getxattr(path, "user.note")) == (USER_4321_READS, b"ours")
    assert path.stat().st_mode & 0o7777 == 0o640


def test_a_file_without_an_access_control_list_gets_none_of_its_directory(path: Path) -> None:
    path.chmod(0o640)
    os.setxattr(path.parent, "system.posix_acl_default", USER_4321_READS)
    edit(path)
    assert path.read_bytes() == b"old+new"
    assert ACCESS not in os.listxattr(path)
    assert path.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EPERM, "the new file would not have its access control list (system.posix_acl_access): Operation not"),
        (errno.ENOSPC, "the new file would not have its access control list (system.posix_acl_access): No space left"),
    ],
)
def test_a_file_whose_access_control_list_cannot_be_copied_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: str
) -> None:
    def refuse(file: int, name: str, value: bytes) -> None:
        raise OSError(number, os.strerror(number))

    os.setxattr(path, ACCESS, USER_4321_READS)
    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(ConfigurationError) as caught:
        edit(path)
    assert str(caught.value).startswith(f"{path}: cannot be replaced: {error}")
    assert path.read_bytes() == b"old"
    assert [each.name for each in path.parent.iterdir()] == ["quotas.toml"]


def test_where_the_filesystem_has_no_attributes_nothing_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: Path | int) -> list[str]:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "listxattr", refuse)
    edit(path)
    assert path.read_bytes() == b"old+new"


def test_where_the_platform_has_no_attributes_nothing_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "listxattr")
    edit(path)
    assert path.read_bytes() == b"old+new"


def test_a_link_stays_and_what_it_leads_to_is_replaced(path: Path) -> None:
    link = path.parent / "elsewhere" / "link.toml"
    link.parent.mkdir()
    link.symlink_to("../quotas.toml")
    edit(link)
    assert link.is_symlink()
    assert path.read_bytes() == b"old+new"


def mounted_config_map(directory: Path) -> Path:
    """As the kubelet lays one out."""
    (directory / "..2026_11_21").mkdir(parents=True)
    (directory / "..2026_11_21" / "quotas.toml").write_bytes(b"old")
    (directory / "..data").symlink_to("..2026_11_21")
    (directory / "quotas.toml").symlink_to("..data/quotas.toml")
    return directory / "quotas.toml"


def test_a_config_map_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = mounted_config_map(tmp_path / "mount")
    (tmp_path / "conf").symlink_to("mount")
    for reached in (path, tmp_path / "conf" / "quotas.toml", tmp_path / "mount" / "..data" / "quotas.toml"):
        with pytest.raises(ConfigurationError) as caught:
            edit(reached)
        assert str(caught.value).startswith(f"{reached}: is mounted from a Kubernetes ConfigMap")
        assert "kubectl edit configmap NAME" in str(caught.value)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, "the mount is read-only; edit the file where it is mounted from"),
        (errno.EBUSY, "this one file is mounted by itself; mount its directory instead"),
        (errno.EACCES, "run this as the file's owner"),
        (errno.ENOSPC, "cannot be replaced: No space left on device"),
    ],
)
def test_what_cannot_be_replaced_stays_and_says_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ConfigurationError) as caught:
        edit(path)
    assert str(caught.value).startswith(f"{path}: cannot be replaced: ")
    assert advice in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [each.name for each in path.parent.iterdir()] == ["quotas.toml"]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path / "none" / "none.toml"):
        with pytest.raises(ConfigurationError) as caught:
            edit(path)
        assert str(caught.value) == f"{path}: cannot be read: No such file or directory"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigurationError, match="Too many levels of symbolic links"):
        edit(tmp_path / "a")


def test_what_is_refused_has_not_been_written(path: Path) -> None:
    def refuse(before: bytes) -> tuple[bytes, None]:
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError, match="no"):
        edit_file(path, refuse)
    assert path.read_bytes() == b"old"
    assert [each.name for each in path.parent.iterdir()] == ["quotas.toml"]


def test_of_two_editors_at_once_both_have_their_change(path: Path) -> None:
    threads = [threading.Thread(target=edit, args=(path, bytes([letter]))) for letter in b"abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_bytes().removeprefix(b"old")) == sorted(b"abcdefgh")


def test_a_lock_that_is_never_given_back_is_not_waited_for_without_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may read the directory may take it: an operator was left waiting without a word."""
    monkeypatch.setattr("proxy.files.replacement.LOCK_SECONDS", 0.1)
    before = path.read_bytes()
    holder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match=r"has had its lock for 0\.1 s, and nothing is changed"):
            edit_file(path, lambda _: (b"other", None))
    finally:
        os.close(holder)
    assert path.read_bytes() == before
    assert edit_file(path, lambda _: (b"other", None)) == (b"other", None)


def test_a_file_that_somebody_made_meanwhile_stays(path: Path) -> None:
    assert not create_file(path, b"new")
    assert path.read_bytes() == b"old"
    path.unlink()
    assert create_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in path.parent.iterdir()] == ["quotas.toml"]


def test_where_no_file_can_be_made_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none/quotas.toml: cannot be written: No such file or directory"):
        create_file(tmp_path / "none" / "quotas.toml", b"new")


def test_what_was_made_is_removed_unless_it_has_changed(path: Path) -> None:
    link, made = path.with_name("link.toml"), path.with_name("made.toml")
    link.symlink_to("made.toml")
    assert create_file(link, b"new")
    with pytest.raises(ConfigurationError, match=r"link.toml: somebody else has changed it meanwhile"):
        remove_file(link, b"newer")
    assert made.read_bytes() == b"new"
    remove_file(link, b"new")
    assert (made.exists(), link.is_symlink()) == (False, True)
    with pytest.raises(ConfigurationError, match=r"link.toml: cannot be removed: No such file"):
        remove_file(link, b"new")
