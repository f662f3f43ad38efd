"""Cuts a call of OpenSSL that does not return, since the loop that relays every connection waits for that call.

OpenSSL goes on reading as long as no data comes. A peer that asks for new keys again and again (KeyUpdate,
RFC 8446 4.6.3), 27 bytes each time, kept one read busy for 0.7 s with half a megabyte, and could have done so for ever
(measured). Python has no way to tell OpenSSL to stop. But OpenSSL's next read of the socket can be made to find the end
of the stream: until the call is over, the socket's number leads to a closed socket.

    loop:    begin ── OpenSSL reads, reads, reads, finds an end ── end: puts the socket back, and says that it was cut
    watcher:                      cut ─┘

A call is measured by the core's time that it took, since a machine may be busy, or the process stopped. Knows one
thread's calls, one at a time. Invariants: between two calls every number leads to its own socket; what was cut is never
read from again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

READ_SECONDS = 0.05
"""The time of a core that a read may take, from when the watcher first saw it. Sixteen full records take 0.2 ms, and 13
ms on a core that has no instructions for AES (20 MB/s). So a peer that sends nothing but data is never cut."""
HANDSHAKE_SECONDS = 0.5
"""The time of a core that a handshake's step may take: a signature of an RSA key of 8192 bits takes 30 ms of a fast
core, and several times as much of a slow one."""
LOOK_SECONDS = 0.01
_NONE = -1


class TlsWatchdog:
    """Watches the calls of one thread, which calls `begin` and `end`."""

    def __init__(self) -> None:
        self._most_seconds = READ_SECONDS
        self._calls = 0
        self._number = _NONE
        """The number of the socket that is read from in a call that has not ended."""
        self._kept = _NONE
        """A descriptor that leads to that socket once its own number does not."""
        self._cutting = threading.Lock()
        self._ended: socket.socket | None = None
        self._clock = _NONE

    def begin(self, number: int, most_seconds: float = READ_SECONDS) -> None:
        """Watch a call that reads from this socket, until `end`."""
        if self._ended is None:
            self._start()
        # The order matters: a watcher that is about to cut the last call must find another call, or no number yet.
        self._calls += 1
        self._most_seconds = most_seconds
        self._number = number

    def end(self) -> bool:
        """End the watch. Return True if the call was cut: then its connection has to be closed."""
        with self._cutting:
            number, kept = self._number, self._kept
            self._number = self._kept = _NONE
        if kept == _NONE:
            return False
        os.dup2(kept, number, inheritable=False)
        os.close(kept)
        return True

    def _start(self) -> None:
        self._ended, other = socket.socketpair()
        other.close()
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            # Without a thread to be had, calls are as long as they are.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._watch, name="tls_watchdog", daemon=True).start()

    def _watch(self) -> None:
        seen, since = 0, 0.0
        while True:
            time.sleep(LOOK_SECONDS)
            calls = self._calls
            if self._number == _NONE:
                continue
            used = time.clock_gettime(self._clock)
            if calls != seen:
                seen, since = calls, used
            elif used - since >= self._most_seconds:
                with contextlib.suppress(OSError):  # no descriptor is free: it is tried again at the next look
                    self._cut(calls)

    def _cut(self, calls: int) -> None:
        with self._cutting:
            if self._calls == calls and self._number != _NONE and self._kept == _NONE and self._ended is not None:
                kept = os.dup(self._number)
                os.dup2(self._ended.fileno(), self._number, inheritable=False)
                self._kept = kept


TLS_WATCHDOG = TlsWatchdog()
"""The watchdog of the loop's thread."""
