"""As many files may be open as the kernel allows, and where that is little, operators are told how many connections."""

from __future__ import annotations

import math
import resource
import subprocess
import sys

import pytest

from proxy.process import open_files

RAISED = """
import resource
from proxy.process import open_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
open_files.raise_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard), resource.getrlimit(resource.RLIMIT_NOFILE)
assert open_files.limit() == open_files.limit_of_run()
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    subprocess.run([sys.executable, "-c", RAISED], check=True)


def test_where_the_kernel_refuses_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    open_files.raise_limit()
    assert (open_files.limit(), open_files.limit_of_run()) == (1024, math.inf)


@pytest.mark.parametrize(
    ("files", "most", "wanted", "is_told"),
    [
        (1024, 480, 10_000, True),
        (1024, 480, 500, False),
        (20_000, 9968, 10_000, False),
        (1024, 480, 0, False),
        (10, 1, 10_000, True),
        (math.inf, math.inf, 10_000, False),
    ],
)
def test_much_fewer_connections_than_wanted_are_told(files: float, most: float, wanted: int, *, is_told: bool) -> None:
    assert open_files.most_connections(files) == most
    told = open_files.too_few(files, wanted)
    assert (told is not None) is is_told
    if told is not None:
        assert told.startswith(f"{most:.0f} connections at most, because {files:.0f} files may be open")
        assert "needs 20064" in told
