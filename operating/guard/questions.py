"""Asks the sidecar whether it is ready, again and again, in a thread: an answer that never comes holds up nobody.

Knows what is asked, not what follows from an answer. Invariants: one question is open at a time. Every question is
answered, with `Answer.NONE` if its connection fails or says nothing for `_TIMEOUT_SECONDS`. If the guard itself cannot
ask, that does not count as the sidecar's silence: `wait` raises that error.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from proxy.control.directory import control_path
from proxy.errors import ConfigurationError, UnreachableError

from ..asking import RefusedError, ask
from ..http_client import UNIX
from .decision import LOOK_SECONDS, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TIMEOUT_SECONDS = 1.0


class Answered(NamedTuple):
    """An answer and its time `at`, by time.monotonic."""

    answer: Answer
    at: float


class Questions:
    """`put`: asks one question and returns its answer; blocking."""

    def __init__(self, put: Callable[[], Answer]) -> None:
        self._put = put
        self._answers: queue.SimpleQueue[Answered | ConfigurationError] = queue.SimpleQueue()
        """Answers pile up while the guard runs iptables and does not take them: five a second, so some hundreds at
        most."""

    def start(self) -> None:
        threading.Thread(target=self._ask_on, name="questions", daemon=True).start()

    def wait(self, seconds: float) -> Answered | None:
        """Return the oldest answer that was not returned yet; None if there is none within `seconds`.

        Raises ConfigurationError: it cannot be asked.
        """
        try:
            found = self._answers.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(found, ConfigurationError):
            raise found
        return found

    def _ask_on(self) -> None:
        """Ask until that is not possible any more. Then the error takes the place of the next answer."""
        failure = ConfigurationError("expected to go on asking the sidecar; the error is above")
        try:
            while True:
                began = time.monotonic()
                self._answers.put(Answered(self._put(), time.monotonic()))
                time.sleep(max(began + LOOK_SECONDS - time.monotonic(), 0.0))
        except ConfigurationError as error:
            failure = error
        finally:
            self._answers.put(failure)


def ask_ready(directory: Path) -> Answer:
    """Ask the sidecar once whether it is ready, at the private socket that only its own user and root can make.

    Raises ConfigurationError: it cannot be asked.
    """
    try:
        ask(f"{UNIX}{directory}", "/readyz", timeout_seconds=_TIMEOUT_SECONDS)
    except RefusedError:
        return Answer.ALIVE
    except UnreachableError:
        return Answer.NONE
    return Answer.READY


def assert_can_be_asked(directory: Path, public_url: str) -> None:
    """Raise ConfigurationError if a sidecar that runs could not be heard: it would be led around, though it is well."""
    socket = control_path(directory)
    try:
        socket.lstat()
    except PermissionError as error:
        raise ConfigurationError(f"{socket}: expected to be root or the sidecar's own user: {error}") from error
    except OSError:
        try:
            ask(public_url, "/healthz", timeout_seconds=_TIMEOUT_SECONDS)
        except RefusedError:
            pass
        except UnreachableError:
            return
        raise ConfigurationError(
            f"{socket}: expected the socket of the sidecar that answers at {public_url}, found none: name its "
            "directory in proxy.toml (control.directory); if the sidecar could not make one, its log says why "
            "(control_unavailable)"
        ) from None
