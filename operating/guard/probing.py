"""Asks the sidecar whether it is ready, again and again, and tries the ways around it by connections through them, also
while all others go through it. Both in threads: an answer that never comes holds up nothing.

One question is open at a time. Each is answered, with `Answer.NONE` if its connection fails or says nothing for
`_TIMEOUT_SECONDS`. If the guard itself cannot ask, that does not count as the sidecar's silence: `Questions.wait`
raises that error.

A connection that is made proves its way: a rule resets those of the guard's own that would meet the sidecar.
One that is not made proves nothing, since whom it leads to may be down; so the same end is dialled without a detour as
well. Nothing is sent. Invariant: a way is called blocked only if its other end answered afterwards to who dialled it
directly.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.settings import Address
from proxy.control.directory import control_path
from proxy.errors import ConfigurationError, UnreachableError

from ..asking import RefusedError, ask
from ..http_client import UNIX
from .decision import LOOK_SECONDS, Answer
from .rules import AROUND_MARK, DIRECT_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .ways import Ways


TIMEOUT_SECONDS = 1.0
_TRIES = 2
_MAX_AT_ONCE = 16
_TIMEOUT_SECONDS = 1.0


class Target(NamedTuple):
    """A connection to `dialled` has to end at `real`."""

    dialled: Address
    real: Address

    def __str__(self) -> str:
        return str(self.real) if self.dialled == self.real else f"{self.dialled} to {self.real}"


class Proof(NamedTuple):
    """The result of a probe through the detour.

    Of `unreachable` ways the other end does not answer on this host; `blocked` ones do not lead there
    although it answers.
    """

    verified: int
    unreachable: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class Prover:
    """Proves in the background; `prove` blocks."""

    def __init__(self, prove: Callable[[], Proof]) -> None:
        self._prove = prove
        self._proofs: queue.SimpleQueue[tuple[int, Proof]] = queue.SimpleQueue()
        self._number = 0
        self.pending = False

    def start(self) -> None:
        """Begin anew, and abandon the probe begun before."""
        self._number += 1
        self.pending = True
        threading.Thread(target=self._run, args=(self._number,), name="proof", daemon=True).start()

    def take_proof(self) -> Proof | None:
        """Return the result, once."""
        while not self._proofs.empty():
            number, proof = self._proofs.get()
            if number == self._number:
                self.pending = False
                return proof
        return None

    def _run(self, number: int) -> None:
        self._proofs.put((number, self._prove()))


def targets(ways: Ways) -> tuple[Target, ...]:
    """Return whom to dial. Blocking, for no time: it asks the kernel for addresses of this host."""
    detours = (Target(Address(each.dialled or _own_address(each.real), each.port), each.real) for each in ways.detours)
    return (*detours, *(Target(each, each) for each in ways.leaders))


def prove(aimed_at: Sequence[Target], dial: Callable[[Address, int], str]) -> Proof:
    """`dial`: as below."""
    with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
        found = list(zip(aimed_at, pool.map(lambda each: _prove(each, dial), aimed_at), strict=True))
    return Proof(
        verified=sum(said is None for _, said in found),
        unreachable=tuple(f"{each}: {said[1]}" for each, said in found if said and not said[0]),
        blocked=tuple(f"{each}: {said[1]}" for each, said in found if said and said[0]),
    )


def _prove(each: Target, dial: Callable[[Address, int], str]) -> tuple[bool, str] | None:
    """Return whether the way is blocked, and by what error; None: neither."""
    error = ""
    for _ in range(_TRIES):
        error = dial(each.dialled, AROUND_MARK)
        if not error:
            return None
    return not dial(each.real, DIRECT_MARK), error


def dial(address: Address, mark: int) -> str:
    """Dial an address with a mark on the packets, hang up, and return why it could not; "" if it could."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
            made.settimeout(TIMEOUT_SECONDS)
            made.connect(tuple(address))
    except TimeoutError:
        return f"no answer within {TIMEOUT_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _own_address(real: Address) -> str:
    """Return the address of this host that would dial it; a loopback address if none can."""
    family = socket.AF_INET6 if ":" in real.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as aimed:
        try:
            aimed.connect(tuple(real))
        except OSError:
            return "127.0.0.1" if family == socket.AF_INET else "::1"
        return str(aimed.getsockname()[0])


class Answered(NamedTuple):
    """An answer and its time `at`, by time.monotonic."""

    answer: Answer
    at: float


class Questions:
    """`put`: asks a question and returns its answer; blocking."""

    def __init__(self, put: Callable[[], Answer]) -> None:
        self._put = put
        self._answers: queue.SimpleQueue[Answered | ConfigurationError] = queue.SimpleQueue()
        """The answers that the guard has not taken yet: five a second while it runs iptables, so some hundreds at
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
