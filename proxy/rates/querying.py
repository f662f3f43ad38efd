"""Asks Prometheus for the signals that the operator named, every few seconds.

Trio's side of `query_state`. Each server is waited for in a thread, never on the loop. Invariant: a signal that is lost
is logged once, and once more when it is back; nothing is asked while no rate goes by it.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trio

from ..threads import in_thread
from .query_state import AbsurdError, QueryState, parse_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..logs.log import Log
    from ..quotas.query_signals import QuerySignal
    from .signals import Reading

QUERY_SECONDS = 5.0
TIMEOUT_SECONDS = 3.0
MOST_ANSWER_BYTES = 1 << 20


def ask_prometheus(signal: QuerySignal) -> bytes:
    """Blocking. Raises OSError, urllib's errors among them, and ValueError for a host that is none."""
    import http.client  # with mail: no start needs it, nor the next two, and few rates
    import urllib.error
    import urllib.parse

    from ..http.outgoing import opener, read_whole

    url = f"{signal.url}/api/v1/query?{urllib.parse.urlencode({'query': signal.query})}"
    context = ssl.create_default_context() if url.startswith("https:") else None
    try:
        try:
            with opener(context).open(url, timeout=TIMEOUT_SECONDS) as answer:
                content = read_whole(answer, most_bytes=MOST_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            # A query that is refused comes with its reason as JSON, like an answer.
            with error:
                return error.read(MOST_ANSWER_BYTES)
    except http.client.HTTPException as error:
        # HTTPException is no OSError: the server does not speak HTTP, or ends in the middle of a chunk.
        raise OSError(f"expected an answer over HTTP: {type(error).__name__}: {str(error).strip()[:200]}") from error
    return content


class Querying:
    """Of one process."""

    def __init__(self, log: Log, ask: Callable[[QuerySignal], bytes] = ask_prometheus) -> None:
        self._log = log
        self._ask = ask
        self._wanted: tuple[QuerySignal, ...] = ()
        self._states: dict[str, QueryState] = {}
        self._threads: dict[str, trio.CapacityLimiter] = {}
        """One for each signal: a query that hangs keeps no other signal from being asked for."""
        self._told: set[str] = set()
        self._changed = trio.Event()

    def want(self, signals: Sequence[QuerySignal], now: float) -> None:
        """These are to be asked for from now on, and no other."""
        if tuple(signals) == self._wanted:
            return
        self._wanted = tuple(signals)
        kept = {name: state for name, state in self._states.items() if state.signal in self._wanted}
        self._states = {each.name: kept.get(each.name) or QueryState(each, now) for each in self._wanted}
        self._threads = {
            name: self._threads[name] if name in kept else trio.CapacityLimiter(1) for name in self._states
        }
        self._told &= self._states.keys()
        self._changed.set()

    def readings(self) -> list[Reading]:
        return [state.reading() for state in self._states.values()]

    def lost(self, now: float) -> dict[str, str]:
        """Return for each signal why it is lost; an empty text for a signal that is not lost."""
        return {name: state.why_lost() if state.is_lost(now) else "" for name, state in self._states.items()}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for name, state in self._states.items():
                    nursery.start_soon(self._query, state, self._threads[name])
            self._tell(trio.current_time())
            with trio.move_on_after(QUERY_SECONDS if self._states else float("inf")):
                await self._changed.wait()

    async def _query(self, state: QueryState, threads: trio.CapacityLimiter) -> None:
        with trio.move_on_after(2 * TIMEOUT_SECONDS) as waited:
            try:
                content = await in_thread(self._ask, state.signal, limiter=threads)
                state.took(parse_answer(content), trio.current_time())
            except (OSError, ValueError) as error:  # the second: of a host that is no host
                state.failed(f"{state.signal.url}: {error}")
            except AbsurdError as error:
                state.failed(str(error))
        if waited.cancelled_caught:
            state.failed(f"{state.signal.url}: no answer in {2 * TIMEOUT_SECONDS:g} s")

    def _tell(self, now: float) -> None:
        for name, why in self.lost(now).items():
            if why and name not in self._told:
                self._log.error("auto_signal_lost", signal=name, error=why)
                self._told.add(name)
            elif not why and name in self._told:
                self._log.info("auto_signal_back", signal=name)
                self._told.discard(name)
