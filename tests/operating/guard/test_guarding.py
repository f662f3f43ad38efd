"""The guard as a process: whatever ends it, it undoes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_GUARD = """
import signal
import operating.guard.kernel as kernel
from operating.guard.guarding import Guarding
kernel.apply = lambda ways, way: print("apply", way, flush=True)
# Whatever the tests inherited: a shell's jobs in the background ignore some.
signal.signal(signal.{name}, signal.SIG_IGN if {ignores} else signal.SIG_DFL)
Guarding(None, "http://127.0.0.1:9", after_seconds=0.5, broker=101, textfile=None).run()
"""
"""Of a sidecar that is not there; the kernel's packet filter is only told about."""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_whatever_signal_ends_it_its_rules_are_gone(name: str) -> None:
    """A terminal that is closed sends SIGHUP, and traffic would go on without a throttle, and without a guard."""
    status, last = _ended_by(name, then=None, ignores=False)
    assert (status, last) == (0, "apply None")


def test_who_asks_for_its_end_is_heard_although_the_signal_was_ignored() -> None:
    """As in a job that a shell began in the background."""
    assert _ended_by("SIGINT", then=None, ignores=True) == (0, "apply None")


def test_what_is_ignored_does_not_end_it() -> None:
    """That is what nohup is for."""
    status, last = _ended_by("SIGHUP", then="SIGTERM", ignores=True)
    assert (status, last) == (0, "apply None")


def _ended_by(name: str, *, then: str | None, ignores: bool) -> tuple[int, str]:
    """Return the exit status, and what was done last to the packet filter."""
    text = _GUARD.format(name=name, ignores=ignores)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            while "AROUND" not in guard.stdout.readline():
                assert guard.poll() is None
            guard.send_signal(signal.Signals[name])
            if then is not None:
                with pytest.raises(subprocess.TimeoutExpired):
                    guard.wait(1.0)
                guard.send_signal(signal.Signals[then])
            said, _ = guard.communicate(timeout=30)
        finally:
            guard.kill()
    return guard.returncode, [line for line in f"apply AROUND\n{said}".splitlines() if line.startswith("apply")][-1]
