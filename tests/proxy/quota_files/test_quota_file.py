"""On real files: what is kept, what is refused, and what a crash in the middle leaves."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.config.settings import state_beside, state_place
from proxy.errors import ConfigurationError
from proxy.quota_files.quota_file import MAX_BYTES, keep_last_good, load_last_good, load_quotas_file, read_quotas_file
from proxy.quotas.keys import ENFORCE
from tests.open_files import open_files

if TYPE_CHECKING:
    from collections.abc import Callable


QUOTAS = b'# \xc3\xa4\r\n[brokers.1]\nleader.replication.throttled.rate = "10MB/s"\t# "quoted"\n'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_what_was_kept_comes_back_byte_for_byte(state: Path) -> None:
    assert load_last_good(state) is None
    assert keep_last_good(state, QUOTAS, 1234.5)
    kept = load_last_good(state)
    assert kept is not None
    assert (kept.content, kept.saved_at) == (QUOTAS, 1234.5)
    assert kept.quota_file.base.brokers[1].path == "brokers.1"


def test_what_is_kept_already_is_not_written_again(state: Path) -> None:
    keep_last_good(state, QUOTAS, 1.0)
    before = state.stat()
    assert not keep_last_good(state, QUOTAS, 2.0)
    assert os.path.samestat(state.stat(), before)
    assert keep_last_good(state, b"# others", 3.0)


def test_it_is_never_taken_for_a_quotas_file(state: Path) -> None:
    keep_last_good(state, QUOTAS, 1.0)
    with pytest.raises(ConfigurationError, match="not TOML"):
        load_quotas_file(state)


def test_it_is_beside_the_file_under_a_name_of_its_own(tmp_path: Path) -> None:
    assert state_beside(tmp_path / "quotas.toml") == tmp_path / ".quotas.toml.last-good"
    assert state_place(tmp_path / "quotas.toml", {}) == state_beside(tmp_path / "quotas.toml")


@pytest.mark.parametrize("said", ["/var/lib/sidecar", "/var/lib/sidecar:/var/lib/other"])
def test_a_service_manager_names_the_place(said: str) -> None:
    environ = {"STATE_DIRECTORY": said}
    assert state_place(Path("/etc/sidecar/quotas.toml"), environ) == Path("/var/lib/sidecar/quotas.toml.last-good")


def edited(change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    def edit(state: Path) -> None:
        written = json.loads(state.read_text("utf-8"))
        change(written)
        state.write_text(json.dumps(written), "utf-8")

    return edit


def instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def replace(state: Path) -> None:
        state.unlink()
        make(state)

    return replace


def wrong_but_whole(state: Path) -> None:
    text = "[brokers.1]\nleader.replication.throttled.rate = -1\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    edited(lambda written: written.update(quotas=text, sha256=digest))(state)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda state: state.write_bytes(b""), "expected the last good quotas"),
        (lambda state: state.write_bytes(state.read_bytes()[:-40]), "expected the last good quotas"),
        (lambda state: state.write_bytes(b"\xff\x00"), "expected the last good quotas"),
        (lambda state: state.write_bytes(b'{"x":' + b"[" * 20_000), "expected the last good quotas"),
        (lambda state: state.write_bytes(QUOTAS), "expected the last good quotas"),
        (edited(lambda written: written.update(quotas="# lifted")), "sha256: does not match"),
        (edited(lambda written: written.update(schema=2)), "schema: expected 1, found 2"),
        (wrong_but_whole, "brokers.1.leader.replication.throttled.rate: expected"),
        (instead(os.mkfifo), "found a named pipe"),
        (instead(lambda state: state.mkdir()), "found a directory"),
        (instead(lambda state: state.symlink_to("nowhere")), "cannot be read"),
    ],
)
def test_what_is_damaged_is_said_and_never_used(state: Path, damage: Callable[[Path], object], expected: str) -> None:
    keep_last_good(state, QUOTAS, 1.0)
    damage(state)
    with pytest.raises(ConfigurationError, match=expected) as refused:
        load_last_good(state)
    assert str(state) in str(refused.value)


def test_damage_is_repaired_by_the_next_good_quotas(state: Path) -> None:
    state.write_bytes(b"{")
    assert keep_last_good(state, QUOTAS, 1.0)
    assert load_last_good(state) is not None


def test_what_a_crash_left_half_written_is_neither_read_nor_in_the_way(state: Path) -> None:
    keep_last_good(state, QUOTAS, 1.0)
    left = state.with_name("state.new")
    left.write_bytes(b'{"schema":1,' * 1000)
    kept = load_last_good(state)
    assert kept is not None
    assert kept.content == QUOTAS
    keep_last_good(state, b"# others", 2.0)
    assert sorted(path.name for path in state.parent.iterdir()) == ["state"]


def test_many_sidecars_that_share_a_file_leave_one_that_is_whole(state: Path) -> None:
    def keep(number: int) -> None:
        for round_ in range(20):
            keep_last_good(state, f"# {number} {round_}".encode() * (1 + number * 100), 1.0)
            assert load_last_good(state) is not None

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_last_good(state) is not None
    assert [path.name for path in state.parent.iterdir()] == ["state"]


def test_a_lock_that_is_never_given_back_is_not_waited_for_without_end(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sidecar that is stopped with it kept the others from keeping anything, and none could say why."""
    monkeypatch.setattr("proxy.files.reading.LOCK_SECONDS", 0.1)
    keep_last_good(state, QUOTAS, 1.0)
    written = state.with_name("state.new")
    holder = os.open(written, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        open_before = open_files()
        with pytest.raises(ConfigurationError) as raised:
            keep_last_good(state, b"# others", 2.0)
        assert open_files() - open_before == set()
    finally:
        os.close(holder)
    assert str(raised.value) == (
        f"{written}: another process has had its lock for 0.1 s, and the last good quotas are not kept: "
        f"`fuser {written}` tells which; to keep them takes milliseconds"
    )
    kept = load_last_good(state)
    assert kept is not None
    assert kept.content == QUOTAS
    assert keep_last_good(state, b"# others", 3.0)


def test_a_place_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        keep_last_good(tmp_path / "nowhere" / "state", QUOTAS, 1.0)


def test_a_disk_that_takes_a_part_leaves_what_was_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills takes what it can, and says so only to the next write: half a file was given the name of the
    good one, and the next start had no quotas."""
    keep_last_good(state, QUOTAS, 1.0)
    pwrite, left = os.pwrite, [100]

    def fills_up(descriptor: int, data: bytes, offset: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = pwrite(descriptor, data[: left[0]], offset)
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "pwrite", fills_up)
    with pytest.raises(OSError, match="No space left"):
        keep_last_good(state, b"# others", 2.0)
    kept = load_last_good(state)
    assert kept is not None
    assert kept.content == QUOTAS


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text("[mode]\nenforce = false")
    mode = load_quotas_file(path).base.mode
    assert mode is not None
    assert mode.get(ENFORCE) is False


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        load_quotas_file(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_a_file_caught_while_it_is_written_lifts_no_quota(tmp_path: Path, content: str) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="found nothing"):
        load_quotas_file(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"#" * (MAX_BYTES + 1), f"expected at most {MAX_BYTES} bytes"),
        (b"#" * MAX_BYTES, None),
        (b"# none", None),
    ],
    ids=range(3),
)
def test_how_long_a_file_may_be(tmp_path: Path, content: bytes, problem: str | None) -> None:
    path = tmp_path / "q.toml"
    path.write_bytes(content)
    if problem is None:
        assert list(read_quotas_file(path).quota_file.sections()) == []
        return
    with pytest.raises(ConfigurationError, match=f"q.toml: {problem}"):
        read_quotas_file(path)
