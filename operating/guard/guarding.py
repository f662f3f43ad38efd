"""The guard at work: asks the sidecar, decides, changes the way, proves it, tells; at the end leaves nothing behind.

Blocking. Questions and proofs have threads of their own, so that none delays a change. Invariants: however the guard
ends, its chains are removed from the kernel; only after SIGKILL they stay, and the next guard that starts takes them
over. `guard_around` is logged once connections have taken the way, `guard_through` once iptables has led them back.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError

from .decision import Answer, Guard, Way
from .probing import Prover, Questions
from .reporting import say, write_metrics
from .rule_keeper import RuleKeeper
from .rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .probing import Proof
    from .rule_keeper import Filter

_WRITE_SECONDS = 10.0
_ASKING = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask the guard to end. They are handled even if they were ignored at its start: a shell ignores
SIGINT for jobs in the background."""
_ENDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""The other signals that end a process by default and that operators send: SIGHUP when a terminal closes, the last two
by habit."""
_BLOCKED = (
    "the other end answers directly, but not by this way: look for a firewall rule, a full connection table "
    "(net.netfilter.nf_conntrack_max), or, with a transparent egress, --ports that differ from redirect.sh's"
)
_NOT_RESET = (
    "connections to a hung sidecar stay until request.timeout.ms: this kernel lacks CONFIG_INET_DIAG_DESTROY, or the "
    "guard lacks CAP_NET_ADMIN"
)
PROVE_SECONDS = 60.0
PROVE_BLOCKED_SECONDS = 5.0
RESET_SECONDS = 600.0
"""The time after the way back during which a connection that still goes around the sidecar is reset as soon as it sends
something. After that there is none left: brokers close a connection that is idle for connections.max.idle.ms, 10
minutes by default."""


class Edges(NamedTuple):
    """The guard's side effects.

    `ask`: is the sidecar alive; `prove`: do connections get around it; `reset`: those that it has taken, how many.
    `reset` raises OSError, `ask` as `Questions` says.
    """

    packet_filter: Filter
    ask: Callable[[], Answer]
    prove: Callable[[], Proof]
    reset: Callable[[], int]


class Guarding:
    """`asked`: whom, for the log. `textfile`: where metrics are written, if anywhere."""

    def __init__(
        self, edges: Edges, *, asked: str, after_seconds: float, broker: int, textfile: Path | None = None
    ) -> None:
        self._edges = edges
        self._asked = asked
        self._after_seconds = after_seconds
        self._broker = broker
        self._textfile = textfile
        self._stop = threading.Event()
        self._rules = RuleKeeper(edges.packet_filter, broker)
        self._prover = Prover(edges.prove)
        self._prove_at = 0.0
        self._proof: Proof | None = None
        """The proof of the rules in force; None: not proved yet."""
        self._told_proof: tuple[str, tuple[str, ...]] | None = None
        self._written_at = 0.0
        self._not_written: str | None = None
        """The reason why the textfile could not be written last; None: it was."""
        self._resets = True
        """True if the kernel can reset connections, as far as it is known."""
        self._through_since = float("-inf")
        self._ended_silence: float | None = None
        """The seconds for which the sidecar had been silent, while it answers again and traffic is still to be led back
        through it; else None."""
        self._changes = 0
        """The number of times that `leads_around` has changed."""

    def run(self) -> None:
        """Run until a signal ends it. Raises ConfigurationError if its rules are refused at the start."""
        with self._signals():
            began = time.monotonic()
            self._rules.put_first(Rules.STANDBY)
            # To lead around takes as many calls of iptables as this took. The machine may be busier then, so twice the
            # time is allowed.
            lead_seconds = 2 * (time.monotonic() - began)
            guard = Guard(self._after_seconds, time.monotonic(), lead_seconds=lead_seconds)
            say("guard_started", broker=self._broker, socket=self._asked, after_seconds=self._after_seconds)
            try:
                self._watch(guard)
            finally:
                self._undo()
        say("guard_stopped", broker=self._broker, changes=self._changes)

    def _watch(self, guard: Guard) -> None:
        questions = Questions(self._edges.ask)
        questions.start()
        while not self._stop.is_set():
            answered = questions.wait(guard.patience_seconds(time.monotonic()))
            answer, now = (None, time.monotonic()) if answered is None else answered
            silent = guard.silent_seconds(now)
            news = guard.process_answer(answer, now)
            if news:
                self._ended_silence = None if guard.way is Way.AROUND else silent
                if guard.way is Way.AROUND:
                    say("guard_sidecar_silent", broker=self._broker, silent_seconds=round(silent, 2))
                self._through_since = now
            held = self._rules.leads_around, self._rules.refused
            self._hold(guard.way, now)
            news |= held != (self._rules.leads_around, self._rules.refused)
            news |= self._take_proof(time.monotonic())
            if news or now - self._written_at > _WRITE_SECONDS:
                self._write(now)

    def _hold(self, way: Way, now: float) -> None:
        recently = now - self._through_since <= RESET_SECONDS
        wanted = Rules.AROUND if way is Way.AROUND else Rules.BACK if recently else Rules.STANDBY
        around = self._rules.leads_around
        taken = self._rules.hold(wanted)
        self._changes += around != self._rules.leads_around
        if taken:
            self._proof = None
            self._prove_at = now
            if wanted is Rules.AROUND:
                self._reset()
            elif self._ended_silence is not None and not self._rules.leads_around:
                say("guard_through", broker=self._broker, silent_seconds=round(self._ended_silence, 2))
                self._ended_silence = None

    def _reset(self) -> None:
        try:
            count = self._edges.reset()
        except OSError as error:
            if self._resets:
                say("guard_cannot_reset", broker=self._broker, error=str(error), advice=_NOT_RESET)
            self._resets = False
        else:
            if count:
                say("guard_reset_connections", broker=self._broker, count=count)

    def _take_proof(self, now: float) -> bool:
        """Begin a proof if it is time, and take a finished proof; return whether there was one."""
        if now >= self._prove_at:
            self._prover.start()
            self._prove_at = now + PROVE_SECONDS
        proof = self._prover.take_proof()
        if proof is None:
            return False
        self._proof = proof
        if proof.blocked:
            self._prove_at = now + PROVE_BLOCKED_SECONDS
        self._tell_proof(proof)
        return True

    def _tell_proof(self, proof: Proof) -> None:
        event = "guard_around" if self._rules.leads_around else "guard_proved"
        if not proof.verified:
            event = "guard_not_proved"
        if proof.blocked:
            event = "guard_no_way_around"
        if (event, proof.blocked) != self._told_proof:
            self._told_proof = event, proof.blocked
            more = {"blocked": proof.blocked, "advice": _BLOCKED} if proof.blocked else {}
            say(event, broker=self._broker, verified=proof.verified, unreachable=proof.unreachable, **more)

    def _undo(self) -> None:
        """Remove the rules. Where that fails the metrics stay as well: nothing else goes on reporting them."""
        try:
            self._rules.take_away()
        except ConfigurationError:
            self._write(time.monotonic())
            raise
        self._take_metrics_away()

    def _write(self, now: float) -> None:
        if self._textfile is None:
            return
        self._written_at = now
        rules = self._rules
        try:
            write_metrics(
                self._textfile, self._changes, self._broker, around=rules.leads_around, refused=rules.refused,
                proof=self._proof,
            )  # fmt: skip
        except OSError as error:
            # Once per cause: it is tried again every few seconds.
            if str(error) != self._not_written:
                say("guard_metrics_not_written", broker=self._broker, error=str(error))
            self._not_written = str(error)
        else:
            self._not_written = None

    def _take_metrics_away(self) -> None:
        """Delete the metrics: node_exporter would go on exposing them, and an alert that traffic goes around would
        never end."""
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
