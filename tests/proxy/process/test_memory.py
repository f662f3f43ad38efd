"""What a process may have of memory where it runs in a container."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from proxy.process.memory import container_limit, most_bytes, resident_bytes

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20


def group(mount: Path, name: str, limit: str | None) -> None:
    folder = mount / name
    folder.mkdir(parents=True, exist_ok=True)
    if limit is not None:
        (folder / "memory.max").write_text(limit)


@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({"": None, "pod": "536870912\n", "pod/c": "max\n"}, "0::/pod/c\n", 512 * MIB),
        ({"pod": "536870912", "pod/c": "268435456"}, "0::/pod/c\n", 256 * MIB),
        ({"": "1048576"}, "0::/\n", MIB),
        ({"pod": "max"}, "0::/pod\n", 0),
        ({}, "0::/nowhere\n", 0),
        ({"pod": "nonsense"}, "0::/pod\n", 0),
        ({"pod": "1048576"}, "12:memory:/pod\n", 0),
    ],
)
def test_the_least_of_a_container_and_of_those_around_it_counts(
    tmp_path: Path, limits: dict[str, str | None], own: str, expected: int
) -> None:
    for name, limit in limits.items():
        group(tmp_path / "mount", name, limit)
    (tmp_path / "cgroup").write_text(own)
    assert container_limit(tmp_path / "cgroup", tmp_path / "mount") == expected


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert container_limit(tmp_path / "cgroup", tmp_path) == 0


@pytest.mark.parametrize(
    ("wanted", "limit", "expected"),
    [(1024, 0, 1024), (1024, 512, 460), (256, 512, 256), (0, 512, 0)],
)
def test_a_container_is_not_to_be_killed(wanted: int, limit: int, expected: int) -> None:
    assert most_bytes(wanted * MIB, limit * MIB) // MIB == expected


def test_the_process_knows_what_it_has() -> None:
    assert 10 * MIB < resident_bytes() < 100_000 * MIB


def test_what_the_process_has_is_known_without_a_free_descriptor() -> None:
    """It counted as nothing, and a process out of descriptors went on accepting whatever its memory."""
    assert resident_bytes() > MIB
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = resident_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found > MIB
