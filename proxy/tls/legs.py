"""Opens the legs of a sidecar at its start, and reads their files again when they change.

Once a second it is looked at which files the paths lead to, links followed. So a rename, an edit in place and the swap
of a symbolic link (Kubernetes' secrets) are all noticed. Files that could not be opened or read are tried again at each
look. Invariants: keys that are in use were good as a whole. After a change that is not good, or to a certificate that
is not valid now where the one in use is, the last good ones stay in use; the change is counted, logged once, and shown
until a good one comes.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigurationError
from ..files.reading import Identities, identities_of, no_answer, silent
from ..threads import in_thread
from .handshakes import Handshakes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..config.settings_tables import LimitSettings
    from ..config.tls_settings import LegSettings, RoleTls
    from ..logs.log import Log
    from .contexts import Loaded
    from .leg import Leg

LOOK_SECONDS = 1.0
HANGS_SECONDS = 5.0
"""The time of a look beyond which the disk hangs."""
OUTCOMES = ("success", "failed")


@dataclass(slots=True)
class _Kept:
    """The last known state of a leg's files."""

    leg: Leg
    seen: Identities
    """The files as they were when they were read last: they are in use, or they were refused."""
    pending: Identities | None = None
    """The files as the last look found them, if they have changed since `seen`. They are read only when the next look
    finds them the same. Otherwise a key could be read before its new certificate is there."""
    error: str | None = None
    unread: bool = False
    """True if a file could not be opened or read, because a permission or a descriptor was missing, or if a certificate
    is not valid now. When that ends, the file looks the same, so it is tried again at each look."""
    hangs: bool = False
    """True if the disk of its files does not answer."""
    outcomes: Counter[str] = field(default_factory=Counter)
    threads: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))
    """A limiter of one look at a time: while the disk keeps it waiting, no other begins."""


class Legs:
    """The legs of a sidecar, made by `open_legs`; `run` keeps them current."""

    def __init__(self, kept: Mapping[str, _Kept], log: Log) -> None:
        self._kept = kept
        self._log = log

    def of(self, settings: LegSettings | None) -> Leg | None:
        """Return the leg with these settings; None for plaintext."""
        return None if settings is None else self._kept[settings.name].leg

    def __iter__(self) -> Iterator[Leg]:
        return (kept.leg for kept in self._kept.values())

    @property
    def warnings(self) -> list[str]:
        """The warnings for the operator, ready to print."""
        found = [
            f"{name}: the last good keys stay in use: {kept.error}"
            for name, kept in self._kept.items()
            if kept.error is not None
        ]
        found += [
            f"{name}: the last good keys stay in use: the disk of its files does not answer"
            for name, kept in self._kept.items()
            if kept.hangs
        ]
        now = time.time()
        for leg in self:
            found += [
                f"{leg.name}: a certificate of its {what} has expired: new connections that need it fail"
                for what, expires in leg.loaded.expires.items()
                if expires <= now
            ]
        return found

    def reloads(self) -> Iterator[tuple[tuple[str, str], float]]:
        """Return the number of reloads by leg and outcome: ((leg, outcome), count)."""
        for name, kept in self._kept.items():
            for outcome in OUTCOMES:
                yield (name, outcome), kept.outcomes[outcome]

    async def run(self) -> None:
        """Check the files once a second, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            async with trio.open_nursery() as nursery:
                for kept in self._kept.values():
                    nursery.start_soon(self._look_in_time, kept)

    async def _look_in_time(self, kept: _Kept) -> None:
        """Check the files for a bounded time: if the disk hangs, a later look uses what it finds."""
        with trio.move_on_after(HANGS_SECONDS) as waited:
            await in_thread(self._look, kept, limiter=kept.threads)
        kept.hangs = waited.cancelled_caught

    def _look(self, kept: _Kept) -> None:
        """Read the files; runs in a thread."""
        now = identities_of(kept.leg.settings.files)
        if now == kept.seen:
            kept.pending = None
            if kept.unread:
                self._read(kept, now)
        elif now != kept.pending:
            kept.pending = now
        else:
            self._read(kept, now)

    def _read(self, kept: _Kept, now: Identities) -> None:
        again, kept.pending, kept.seen = now == kept.seen, None, now
        leg = kept.leg
        try:
            loaded = _load(leg.settings)
            _refuse_invalid(loaded, leg.loaded, time.time())
        except ConfigurationError as error:
            unread = isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, ssl.SSLError)
            kept.unread = unread or isinstance(error, _NotValidError)
            if again and str(error) == kept.error:
                return
            kept.outcomes["failed"] += 1
            kept.error = str(error)
            self._log.error("tls_keys_refused", leg=leg.name, error=kept.error)
            return
        leg.loaded, kept.error, kept.unread = loaded, None, False
        kept.outcomes["success"] += 1
        self._log.info("tls_keys_renewed", leg=leg.name, expires=_shown(loaded.expires))


def open_legs(roles: Sequence[RoleTls], *, limits: LimitSettings, log: Log) -> Legs:
    """Read the files of all legs. Blocking. Raises ConfigurationError with every problem.

    A disk that hangs is such a problem: there is nothing to start with, since keys are kept in no other place. Whatever
    starts the process tries again. If another process was to be replaced by this one, that one goes on.
    """
    # Two sets of places, so that strangers who dial us do not keep those waiting whom we dial.
    listening, dialling = (Handshakes(limits.max_tls_handshakes, limits.tls_handshake_seconds) for _ in range(2))
    kept: dict[str, _Kept] = {}
    problems: list[str] = []
    of_all = [leg for role in roles for leg in role.legs]
    hanging = unanswered(of_all)
    for settings in of_all:
        if settings.name in hanging:
            problems += hanging[settings.name]
            continue
        seen = identities_of(settings.files)
        try:
            handshakes = listening if settings.listens else dialling
            kept[settings.name] = _Kept(_leg(settings, handshakes, log), seen)
        except ConfigurationError as error:
            problems += (f"{settings.name}: {problem}" for problem in error.problems)
        if not settings.verifies_names:
            log.warning("tls_names_not_verified", leg=settings.name)
    if problems:
        raise ConfigurationError(problems)
    return Legs(kept, log)


def unanswered(legs: Sequence[LegSettings]) -> dict[str, list[str]]:
    """Return by leg the problems to tell, for legs with files whose disk does not answer; other legs are left out. The
    disk is asked for all files at once. Blocking."""
    hanging = silent(dict.fromkeys(path for leg in legs for path in leg.files))
    found = {leg.name: [f"{leg.name}: {no_answer(path)}" for path in leg.files if path in hanging] for leg in legs}
    return {name: problems for name, problems in found.items() if problems}


def _leg(settings: LegSettings, handshakes: Handshakes, log: Log) -> Leg:
    """Make a leg. The modules that parse keys are imported here and not above: to load them takes an eighth of a
    start's CPU, and a sidecar without keys never needs them."""
    from .leg import Leg

    return Leg(settings, _load(settings), handshakes, log)


def _load(settings: LegSettings) -> Loaded:
    from .contexts import load

    return load(settings)


class _NotValidError(ConfigurationError):
    """A certificate is not valid now."""


def _refuse_invalid(fresh: Loaded, in_use: Loaded, now: float) -> None:
    """Refuse a certificate that is not valid in place of one that is: a renewal that went wrong, or too early. Raises
    ConfigurationError if a certificate that is valid would be replaced by one that is not: a renewal that went wrong,
    or too early."""
    for new, old in zip(fresh.identities, in_use.identities, strict=True):
        if old.is_valid(now) and not new.is_valid(now):
            first, last, until = (_time(when) for when in (*new.valid, old.valid[1]))
            raise _NotValidError(
                f"{new.place}: expected a certificate that is valid now, found one that is valid from {first} to "
                f"{last}; the one in use is valid until {until}"
            )


def _shown(expires: dict[str, float]) -> dict[str, str]:
    return {what: _time(when) for what, when in expires.items()}


def _time(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
