"""The guard at work: asks the sidecar, decides, changes the way, tells; at the end leaves nothing behind.

Blocking. Questions are asked in a thread of their own, so that none delays a change. Invariant: however the guard ends,
its chains are removed from the kernel. Only after SIGKILL they stay, and the next guard that starts takes them over.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError

from . import kernel
from .decision import Answer, Guard, Way
from .questions import Questions, ask_ready
from .refusals import Refusals
from .reporting import say, write_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .ways import Ways

_WRITE_SECONDS = 10.0
_ASKING = (signal.SIGTERM, signal.SIGINT)
"""Signals that ask the guard to end. They are heard even if they were ignored at its start: a shell ignores SIGINT for
jobs in the background."""
_ENDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Other signals that end a process by default, and that are really sent: SIGHUP when a terminal closes, the last two by
habit."""
_ADVICE = (
    "mend what iptables complains of (the key error); the guard tries again at least every 5 s, and until then traffic "
    "may go as it went before"
)
_TRUST = (
    "the sidecar counts as alive, and its traffic is not led around it; but whether it is ready cannot be seen: name "
    "the authority of http.tls in SSL_CERT_FILE, and where it wants a certificate, one in THROTTLE_CERTIFICATE_FILE "
    "(of the package: in guard.env), and restart the guard"
)
RESET_SECONDS = 600.0
"""For this long after the way back, a connection that still goes around the sidecar is reset as soon as it sends
something. After that there is none left: brokers close a connection that is idle for connections.max.idle.ms, 10
minutes by default."""


class Guarding:
    """`url`: of the sidecar's HTTP. `textfile`: where metrics are written, if anywhere."""

    def __init__(self, ways: Ways, url: str, *, after_seconds: float, broker: int, textfile: Path | None) -> None:
        self._ways = ways
        self._url = url
        self._after_seconds = after_seconds
        self._broker = broker
        self._textfile = textfile
        self._stop = threading.Event()
        self._written_at = 0.0
        self._not_written: str | None = None
        """Why the textfile could not be written last; None: it was."""
        self._distrust = ""
        """Why the sidecar cannot be trusted, as it was told last; "" once it can."""
        self._refusals = Refusals()
        self._around = False
        """Some traffic is led around the sidecar: from the first table that leads it there, until iptables has taken
        the whole way back."""

    def run(self) -> None:
        """Until a signal ends it. Raises ConfigurationError if the first look at the rules fails."""
        began = time.monotonic()
        kernel.apply(self._ways, None)
        # To lead around takes as many calls of iptables as this took. The machine may be busier then, so twice the time
        # is allowed.
        lead_seconds = 2 * (time.monotonic() - began)
        guard = Guard(self._after_seconds, time.monotonic(), lead_seconds=lead_seconds)
        say("guard_started", broker=self._broker, url=self._url, after_seconds=self._after_seconds)
        with self._signals():
            try:
                self._watch(guard)
            finally:
                self._undo(guard)
        say("guard_stopped", broker=self._broker, changes=guard.changes)

    def _watch(self, guard: Guard) -> None:
        in_force: Way | None = None
        wanted: Way | None = None
        through_since = 0.0
        questions = Questions(partial(ask_ready, self._url))
        questions.start()
        while not self._stop.is_set():
            answered = questions.wait(guard.patience_seconds(time.monotonic()))
            answer, now, distrust = (None, time.monotonic(), "") if answered is None else answered
            self._tell_distrust(answer, distrust)
            silent = guard.silent_seconds(now)
            changed = guard.take(answer, now)
            if changed:
                wanted, through_since = guard.way, now
                say(f"guard_{guard.way.value}", broker=self._broker, silent_seconds=round(silent, 2))
            elif wanted is Way.THROUGH and now - through_since > RESET_SECONDS:
                wanted = None
            held = self._around, self._refusals.last
            if (wanted is not in_force or self._refusals.last) and self._apply(wanted):
                in_force = wanted
            changed |= held != (self._around, self._refusals.last)
            if changed or now - self._written_at > _WRITE_SECONDS:
                self._write(guard, now)

    def _undo(self, guard: Guard) -> None:
        """Where the rules cannot be taken away, the metrics stay as well: nothing else goes on telling of them."""
        try:
            kernel.apply(self._ways, None)
        except ConfigurationError:
            self._refusals.refused(None, time.monotonic())
            self._write(guard, time.monotonic())
            raise
        self._take_metrics_away()

    def _tell_distrust(self, answer: Answer | None, distrust: str) -> None:
        """Once per cause, until the sidecar is trusted."""
        if distrust and distrust != self._distrust:
            self._distrust = distrust
            say("guard_distrusts_sidecar", broker=self._broker, error=distrust, advice=_TRUST)
        elif answer is Answer.READY:
            self._distrust = ""

    def _apply(self, way: Way | None) -> bool:
        """Return whether `way` is in force now. What is refused is tried again at a later look."""
        if not self._refusals.may_try(way, time.monotonic()):
            return False
        told = {"broker": self._broker, "way": "none" if way is None else way.value}
        try:
            kernel.apply(self._ways, way)
        except ConfigurationError as error:
            self._around |= isinstance(error, kernel.PartlyTakenError)
            if self._refusals.refused(way, time.monotonic()):
                attempts = self._refusals.attempts
                say("guard_refused", **told, attempts=attempts, error=str(error), advice=_ADVICE)
            return False
        self._around = way is Way.AROUND
        over = self._refusals.taken(time.monotonic())
        if over is not None:
            say("guard_accepted", **told, attempts=over.attempts, refused_seconds=round(over.seconds, 2))
        return True

    def _write(self, guard: Guard, now: float) -> None:
        if self._textfile is None:
            return
        self._written_at = now
        try:
            write_metrics(self._textfile, guard, self._broker, around=self._around, refused=self._refusals.last)
        except OSError as error:
            # Once per cause: it is tried again every few seconds.
            if str(error) != self._not_written:
                say("guard_metrics_not_written", broker=self._broker, error=str(error))
            self._not_written = str(error)
        else:
            self._not_written = None

    def _take_metrics_away(self) -> None:
        """node_exporter would go on telling of them, and an alert that traffic goes around would never end."""
        if self._textfile is None:
            return
        try:
            self._textfile.unlink(missing_ok=True)
        except OSError as error:
            say("guard_metrics_not_removed", broker=self._broker, error=str(error))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        # A signal that is ignored stays ignored, such as SIGHUP under nohup.
        heard = (*_ASKING, *(each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN))
        before = {each: signal.signal(each, lambda *_: self._stop.set()) for each in heard}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
