"""TLS handshakes: at most so many at once, each within its time, and in each turn of the loop one step of one of them.

A step may be a signature, which takes a millisecond or two of the one thread. A peer that begins thousands of
handshakes and ends none must not keep those out who end theirs. So where all places are taken, a handshake that has
waited for its peer for `YIELDS_AFTER_SECONDS` gives its place to the next. One that has waited for less may finish:
otherwise a storm of reconnecting brokers would push itself out. And a peer that lets all of its handshakes speak at
once must not take the loop from replication: 250 steps came in one turn of it, and took 55 to 97 ms of a core. Now the
longest turn in such a storm takes 4 to 6 ms (measured).

OpenSSL reads on for as long as a message is not complete. A hello of 60 KB in records of one byte each took 95 ms of a
core in one step (measured); an honest peer sends a dozen records. So tiny records are recognised before OpenSSL reads:
by the first four bytes of a small record, which occur once in four million random ones.

Those that fail are classified: one word for the metric and one sentence for the operator, by OpenSSL's words
(`ssl.SSLError.reason`, X509_V_ERR codes).

Knows sockets and Trio, no keys. Invariants: no more than `most` are under way; between two steps the relay's tasks have
all run; every error has a reason, and an unknown one is `other`, with OpenSSL's own words in the log.
"""

from __future__ import annotations

import enum
import math
import re
import socket
import ssl
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import trio

from ..changes import Changes
from .openssl_errors import forget_errors
from .tls_watchdog import HANDSHAKE_SECONDS, TLS_WATCHDOG

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


YIELDS_AFTER_SECONDS = 1.0
MAX_SMALL_RECORDS = 128
"""The most small records that may be in the socket at the same time. So many cost OpenSSL 0.2 ms."""
LOOKED_AT_BYTES = 256 * 1024
"""The bytes of the socket that are looked at: more than OpenSSL takes of a handshake, since a hello has 128 KiB at most
and certificates 100 KB. To look at so much takes 2 ms at worst, and usually 5 µs."""
_SMALL_RECORD = re.compile(rb"[\x14-\x17]\x03.\x00", re.DOTALL)
"""The beginning of a small record: its kind, the version, and a length of less than 256 bytes (RFC 8446, 5.1)."""
_CAME = memoryview(bytearray(LOOKED_AT_BYTES))
"""A buffer for all handshakes: the loop looks at one of them at a time. Pages of it that stay unused cost no memory."""
_NOT_TLS = {
    "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE", "UNEXPECTED_RECORD", "LENGTH_TOO_SHORT", "RECORD_TOO_SMALL", "BAD_RECORD_TYPE",
    "ENCRYPTED_LENGTH_TOO_LONG", "DATA_LENGTH_TOO_LONG",
}  # fmt: skip
_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The errors of a connection that ends in the middle of a handshake: usually the first, in Python 3.11.2 (Debian 12)
the second."""
_NOTHING_IN_COMMON = {
    "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "TLSV1_ALERT_PROTOCOL_VERSION", "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_SIGNATURE_ALGORITHMS", "NO_SUITABLE_SIGNATURE_ALGORITHM",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY", "NO_SHARED_GROUP", "NO_SUITABLE_KEY_SHARE", "WRONG_SSL_VERSION",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class _UnderWay:
    waits_since: float = math.inf
    """The time since when it waits for bytes of its peer; infinite while they are here and it waits for its turn."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    yielded: bool = False


class Handshakes:
    """The handshakes of all legs that listen, or of all legs that dial.

    `seconds`: for each handshake, its wait for a place included.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._under_way: set[_UnderWay] = set()
        self._left = Changes()
        self._door = trio.Lock()
        """A lock at which handshakes wait for a place, in line; only the first of the line looks for one."""
        self.turn = trio.Lock()
        """The handshake that has it takes one step. Trio wakes the next in line for the loop's next turn, never for
        this one."""

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    async def run(self, sock: ssl.SSLSocket) -> None:
        """Run a handshake to its end.

        Raises HandshakeError or another OSError; the caller closes the socket in any case but success.
        """
        with trio.move_on_after(self._seconds) as patience:
            mine = await self._place()
            try:
                with mine.scope:
                    await self._shake_hands(sock, mine)
            finally:
                self._under_way.discard(mine)
                self._left.notify()
            if mine.yielded:
                raise HandshakeError(Reason.CROWDED_OUT, f"{self._most} others were under way")
        if patience.cancelled_caught:
            raise HandshakeError(Reason.TIMEOUT, f"not done within {self._seconds:g} s")

    async def _place(self) -> _UnderWay:
        async with self._door:
            while len(self._under_way) >= self._most:
                oldest = min(self._under_way, key=lambda each: each.waits_since)
                patient = oldest.waits_since + YIELDS_AFTER_SECONDS - trio.current_time()
                if patient <= 0:
                    oldest.yielded = True
                    self._under_way.discard(oldest)
                    oldest.scope.cancel()
                else:
                    # A handshake that begins to wait for its peer only now can be crowded out after
                    # `YIELDS_AFTER_SECONDS` at the earliest, so it is enough to look again then.
                    with trio.move_on_after(min(patient, YIELDS_AFTER_SECONDS)):
                        await self._left.wait()
            mine = _UnderWay()
            self._under_way.add(mine)
            return mine

    async def _shake_hands(self, sock: ssl.SSLSocket, mine: _UnderWay) -> None:
        while True:
            async with self.turn:
                wait = _step(sock)
            if wait is None:
                return
            mine.waits_since = trio.current_time()
            await wait(sock)
            mine.waits_since = math.inf


def _step(sock: ssl.SSLSocket) -> Callable[[ssl.SSLSocket], Awaitable[None]] | None:
    """Take one step. Return the event to await before the next; None if the handshake is done. Raises OSError."""
    TLS_WATCHDOG.begin(sock.fileno(), HANDSHAKE_SECONDS)
    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return trio.lowlevel.wait_readable
    except ssl.SSLWantWriteError:
        return trio.lowlevel.wait_writable
    except OSError:
        forget_errors()
        raise
    finally:
        if TLS_WATCHDOG.end():
            raise HandshakeError(Reason.OTHER, "its records keep OpenSSL busy without completing the handshake")
    return None


def comes_in_crumbs(sock: ssl.SSLSocket) -> bool:
    """Return True if more small records have come than any peer needs; False if nothing can be seen."""
    try:
        # SSLSocket's own refuses to look at encrypted bytes.
        came = socket.socket.recv_into(sock, _CAME, 0, socket.MSG_PEEK)
    except OSError:  # nothing has come, or OpenSSL will report the error
        return False
    found = _SMALL_RECORD.finditer(_CAME[:came])
    return next(islice(found, MAX_SMALL_RECORDS, None), None) is not None


class Reason(enum.StrEnum):
    """The value is the metric's label."""

    PLAINTEXT = "plaintext"
    UNKNOWN_AUTHORITY = "unknown_authority"
    EXPIRED = "expired"
    WRONG_NAME = "wrong_name"
    NO_CERTIFICATE = "no_certificate"
    NOT_ALLOWED = "not_allowed"
    NOTHING_IN_COMMON = "nothing_in_common"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    CROWDED_OUT = "crowded_out"
    OTHER = "other"


ADVICE = {
    Reason.PLAINTEXT: "it speaks no TLS: give it security.protocol=SSL, or this leg PLAINTEXT",
    Reason.UNKNOWN_AUTHORITY: "its certificate is not of an authority in ssl.truststore.location: add that authority",
    Reason.EXPIRED: "its certificate or authority has expired or is not valid yet: renew it, check both clocks",
    Reason.WRONG_NAME: "its certificate lacks the name that was dialled: add it as a subject alternative "
    "name, or set server_name",
    Reason.NO_CERTIFICATE: "it presented no certificate: give it ssl.keystore.location, or set "
    "ssl.client.auth to none here",
    Reason.NOT_ALLOWED: "its certificate is valid, but no name of it is in allowed_names: add one if it is a broker",
    Reason.NOTHING_IN_COMMON: "no TLS version or cipher suite that both ends allow: compare ssl.enabled.protocols and "
    "ssl.cipher.suites; clients of a sidecar need secp256r1 (jdk.tls.namedGroups)",
    Reason.REFUSED: "it refuses the sidecar's certificate: see its log; usually its ssl.truststore.location lacks the "
    "authority of ssl.keystore.location here, or the certificate lacks the name that it dialled",
    Reason.TIMEOUT: "it did not finish in time",
    Reason.CLOSED: "it closed the connection before the end of the handshake: see its log",
    Reason.CROWDED_OUT: "too many handshakes were under way, and this one had waited longest",
    Reason.OTHER: "see the error",
}

_VERIFICATIONS = {
    # Any other code is `OTHER`: a purpose that the certificate is not for, for example, or a key that is too short.
    2: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
    7: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_CERT_SIGNATURE_FAILURE: signed by another authority of the same name
    18: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
    19: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
    20: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
    27: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_CERT_UNTRUSTED
    9: Reason.EXPIRED,  # X509_V_ERR_CERT_NOT_YET_VALID
    10: Reason.EXPIRED,  # X509_V_ERR_CERT_HAS_EXPIRED
    62: Reason.WRONG_NAME,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: Reason.WRONG_NAME,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}


class HandshakeError(OSError):
    """A handshake did not succeed: the connection has to be closed."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"TLS handshake failed ({reason.value}): {detail}")
        self.reason = reason
        self.detail = detail


def reason_of(error: OSError) -> Reason:
    """Return the reason for which a handshake, or the first read after it, raised."""
    if isinstance(error, HandshakeError):
        return error.reason
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFICATIONS.get(error.verify_code, Reason.OTHER)
    if isinstance(error, _ENDS) or not isinstance(error, ssl.SSLError):
        return Reason.CLOSED
    said = error.reason or ""
    if said in _NOT_TLS:
        return Reason.PLAINTEXT
    if said in _NOTHING_IN_COMMON:
        return Reason.NOTHING_IN_COMMON
    if said == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return Reason.NO_CERTIFICATE
    if said == "UNEXPECTED_EOF_WHILE_READING":
        return Reason.CLOSED
    return Reason.REFUSED if "_ALERT_" in said else Reason.OTHER


def words_of(error: OSError) -> str:
    """Return OpenSSL's message without its place in Python's source."""
    if isinstance(error, HandshakeError):
        return error.detail
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error) or type(error).__name__
