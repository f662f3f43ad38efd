"""Of the files that a plan is written to, all are written or none."""

from __future__ import annotations

import json
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from operating.commands.plan_writing import write_files
from proxy.errors import ConfigurationError
from proxy.quotas.whole_file import MOST_BYTES
from reassignment import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from reassignment import RoleName

    Sidecar = Callable[..., Result]

MIB = 1 << 20
RATES: dict[tuple[int, RoleName], int] = {(101, "leader"): MIB, (102, "leader"): MIB, (104, "follower"): MIB}
MOVE = Throttle(RATES, {"leader": {"orders": ((0, 101), (0, 102))}, "follower": {"orders": ((0, 104),)}})
OURS = "# ours\n"
LONG = "# long\n" * 1000


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """As on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def written(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def mount_config_map(directory: Path, name: str) -> None:
    (directory / "..1").mkdir()
    (directory / "..1" / name).write_text(OURS)
    (directory / "..data").symlink_to("..1")
    (directory / name).symlink_to(f"..data/{name}")


def test_a_file_that_cannot_be_replaced_is_found_before_any_is_written(tmp_path: Path, sidecar: Sidecar) -> None:
    row = {"topic": "orders", "partition": 0}
    for name, replicas in (("cur", [101, 102]), ("move", [101, 104])):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"version": 1, "partitions": [{**row, "replicas": replicas}]})
        )
    quotas = tmp_path / "quotas"
    quotas.mkdir()
    (quotas / "quotas-101.toml").write_text(OURS)
    mount_config_map(quotas, "quotas-104.toml")
    before = written(quotas)
    result = sidecar("plan", tmp_path / "move.json", "--current", tmp_path / "cur.json", "--rate", "5MB/s",
                     "--per-broker", quotas)  # fmt: skip
    assert result.exit_code == 1
    assert f"{quotas / 'quotas-104.toml'}: is mounted from a Kubernetes ConfigMap" in result.stderr
    assert "nothing is written, in none of 3 files" in result.stderr
    assert written(quotas) == before


@pytest.mark.parametrize(
    ("before", "problems"),
    [
        # The first is changed, the second is made, the third does not fit on the disk.
        ({"quotas-101.toml": OURS, "quotas-104.toml": LONG}, ["2 that had been written are put back"]),
        ({"quotas-101.toml": LONG}, ["nothing is written, in none of 3 files"]),
    ],
)
def test_what_was_written_before_a_file_that_cannot_be_is_put_back(
    tmp_path: Path, before: dict[str, str], problems: list[str]
) -> None:
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    with files_of_at_most(1000), pytest.raises(ConfigurationError, match="File too large") as refused:
        write_files(MOVE, tmp_path / "move.json", None, tmp_path, None)
    assert list(refused.value.problems[1:]) == problems
    assert written(tmp_path) == before


def test_what_cannot_be_put_back_is_named(tmp_path: Path) -> None:
    """The file was longer than the disk takes by now."""
    (tmp_path / "quotas-101.toml").write_text("".join(f"[topics.t{n}]\nuntil = 2020-01-01T00:00:00Z\n"
                                                      'leader.replication.throttled.replicas = "*"\n'
                                                      for n in range(20)))  # fmt: skip
    (tmp_path / "quotas-104.toml").write_text(LONG)
    with files_of_at_most(1000), pytest.raises(ConfigurationError, match="File too large") as refused:
        write_files(MOVE, tmp_path / "move.json", None, tmp_path, None)
    told = f"could not be put back, the change stays there: {tmp_path / 'quotas-101.toml'}: cannot be replaced: "
    assert refused.value.problems[1].startswith(told)
    assert sorted(written(tmp_path)) == ["quotas-101.toml", "quotas-104.toml"]


def test_of_one_file_nothing_is_said_of_others(tmp_path: Path) -> None:
    (tmp_path / "quotas.toml").write_text(LONG)
    with files_of_at_most(1000), pytest.raises(ConfigurationError, match="File too large") as refused:
        write_files(MOVE, tmp_path / "move.json", tmp_path / "quotas.toml", None, None)
    assert len(refused.value.problems) == 1


def test_a_new_file_that_no_sidecar_would_read_is_not_made(tmp_path: Path) -> None:
    topics = {f"topic-{number}": ((0, 101),) for number in range(MOST_BYTES // 50)}
    with pytest.raises(ConfigurationError, match=f"q.toml: expected at most {MOST_BYTES} bytes, found"):
        write_files(
            Throttle(RATES, {"leader": topics, "follower": {}}), tmp_path / "move.json", tmp_path / "q.toml", None, None
        )
    assert written(tmp_path) == {}
