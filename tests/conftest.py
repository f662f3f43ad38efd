"""What all tests share: which examples Hypothesis draws, and how it treats a machine that is busy with other tests.

`make test` draws the same examples each time, so whether a change may land does not depend on luck. New ones are drawn
by `make explore`, and whole clusters by `make simulation`; what either finds becomes a test of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from collections.abc import Generator

# How fast inputs are generated says how busy the machine is, nothing of the code: seven invariants "failed" of it
# beside other suites. A test that never ends is pytest-timeout's.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True, database=None)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def private_sockets() -> Generator[Path]:
    """The folder below which a sidecar that this test starts has its private sockets: broker ids repeat in tests that
    run at the same time."""
    folder, before = tempfile.mkdtemp(prefix="run-"), os.environ.get("RUNTIME_DIRECTORY")
    os.environ["RUNTIME_DIRECTORY"] = folder
    try:
        yield Path(folder)
    finally:
        if before is None:
            del os.environ["RUNTIME_DIRECTORY"]
        else:
            os.environ["RUNTIME_DIRECTORY"] = before
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def notified_within(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds within which a change of a watched file is seen if the kernel tells of it; without, it takes longer.

    tests/system holds the promise of 250 ms, which a machine that is busy with other tests breaks now and then."""
    monkeypatch.setattr("proxy.files.watching._LOOK_AGAIN_MS", 20_000)
    return 15.0


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") in (None, "same"):
        _draw_no_constants_of_ours()
    _end_on_sigterm_as_on_ctrl_c()


def _draw_no_constants_of_ours() -> None:
    """Hypothesis draws constants that stand in the local modules that are imported by then, also where it is to draw
    the same examples each time. So these depended on which tests had run before in the same process."""
    assert hasattr(providers, "is_local_module_file"), (
        "expected Hypothesis to ask `is_local_module_file` whose constants it draws: see where this version does, or "
        "the examples of a test depend on the tests before it (tests/test_same_examples.py)"
    )
    providers.is_local_module_file = lambda _: False


def _end_on_sigterm_as_on_ctrl_c() -> None:
    """SIGTERM ends a run of tests as Ctrl-C does: mounts, network namespaces and rules of iptables are undone, which
    Python would leave behind, since it ends on the spot.

    A script that starts a run with `&` has it ignore Ctrl-C, and all that it starts. Then SIGTERM would be ignored as
    well, and so would be the Ctrl-C that tests send to commands."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Ctrl-C that leaves a nursery is in a group, which pytest takes for a failure, and goes on with the next test."""
    try:
        return (yield)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from group


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trio can start no thread, as where pids.max of a cgroup is used up."""

    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("trio.to_thread.run_sync", no_thread)
