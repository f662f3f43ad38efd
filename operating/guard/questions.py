"""Asks the sidecar whether it is ready, again and again, in a thread: an answer that never comes holds up nobody.

Knows HTTP, not what follows from an answer. Invariants: one question is open at a time. Every question is answered,
with `Answer.NONE` if its connection fails or says nothing for `_TIMEOUT_SECONDS`. Who speaks TLS is alive, also where
the guard does not trust its certificate, or it the guard's. If the guard itself cannot ask, because it cannot read a
token's file for example, that does not count as the sidecar's silence: `wait` raises that error.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError, UnreachableError

from ..asking import DistrustError, RefusedError, ask
from .decision import LOOK_SECONDS, Answer

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT_SECONDS = 1.0


class Answered(NamedTuple):
    """`at`: when it was, by time.monotonic. `distrust`: why who answered cannot be trusted, if so."""

    answer: Answer
    at: float
    distrust: str = ""


class Questions:
    """`put`: asks one question and returns its answer, or raises DistrustError; blocking."""

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
                try:
                    self._answers.put(Answered(self._put(), time.monotonic()))
                except DistrustError as error:
                    self._answers.put(Answered(Answer.ALIVE, time.monotonic(), str(error)))
                time.sleep(max(began + LOOK_SECONDS - time.monotonic(), 0.0))
        except ConfigurationError as error:
            failure = error
        finally:
            self._answers.put(failure)


def ask_ready(url: str) -> Answer:
    """Ask the sidecar at `url` once, whether it is ready.

    Raises:
        DistrustError: somebody answers, whose certificate is not believed, or who wants one.
        ConfigurationError: it cannot be asked.
    """
    try:
        ask(url, "/readyz", timeout_seconds=_TIMEOUT_SECONDS)
    except DistrustError:
        raise
    except RefusedError:
        return Answer.ALIVE
    except UnreachableError:
        return Answer.NONE
    return Answer.READY
