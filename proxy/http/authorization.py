"""Authorizes requests: changes by a bearer token, or by a client certificate with a configured name; and those of
browsers by Host and Origin (`Trust`).

The token is read from a file, and again when that changes. Invariants: a token is compared in constant time; if others
could read the file, or if it does not hold a token, no token is known. Without a token and without names no request is
authorized; a name counts only where the server itself has verified the certificate that has it. A host name that was
neither configured nor is the machine's own, is not ours; the machine's own names are read from its files, and no name
server is asked.
"""

from __future__ import annotations

import hmac
import os
import re
import socket
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigurationError
from ..files.reading import answers, no_answer
from ..threads import in_thread
from .routing import MAX_TOKEN_BYTES, TOKEN, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..logs.log import Log
    from .routing import Answer, Request


MIN_CHARACTERS = 16
LOOK_SECONDS = 1.0
"""The time between two looks at the file: one second after a token was removed from the file it admits no request."""
READ_SECONDS = 5.0
"""The longest time for the disk to read the file. A disk that takes longer hangs, and it is unknown whether the token
still holds."""
_SCHEME = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing (RFC 9110, 9.2.1). A browser hides their answers from pages of other sites."""
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[^\s:\[\]@/]{1,253}))(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^\s/@]{1,300})")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_MAX_BYTES = 256 * 1024
HOSTS = Path("/etc/hosts")
RESOLVER = Path("/etc/resolv.conf")


def read_token(path: Path) -> bytes:
    """Return the token of a file. Blocking. Raises ConfigurationError, which never shows the file's content."""
    try:
        # Without O_NONBLOCK opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            content = os.read(descriptor, MAX_TOKEN_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(f"http.token_file: {path}: cannot be read: {error.strerror or error}") from error
    problem = _problem(status.st_mode, content)
    if problem is not None:
        raise ConfigurationError(f"http.token_file: {path}: {problem}")
    return content.strip()


def read_answering_token(path: Path) -> bytes:
    """Read the token as `read_token` does, for a caller that must not wait for a disk that hangs: such a disk is a
    ConfigurationError, too."""
    if not answers(path):
        raise ConfigurationError(f"http.token_file: {no_answer(path)}")
    return read_token(path)


def _problem(mode: int, content: bytes) -> str | None:
    if not stat.S_ISREG(mode):
        return "expected a file"
    if mode & stat.S_IRWXO:
        return f"expected permissions that keep others out, found {stat.S_IMODE(mode):04o}: chmod o= it"
    token = content.strip()
    if len(content) > MAX_TOKEN_BYTES or len(token) < MIN_CHARACTERS:
        return f"expected {MIN_CHARACTERS} to {MAX_TOKEN_BYTES} characters, found {len(token)}"
    if not TOKEN.fullmatch(token):
        return "expected one token of letters, digits and -._~+/= (openssl rand -hex 32), found something else"
    return None


class BearerToken:
    """`open` it, and `run` it so that it stays current."""

    def __init__(self, path: Path, token: bytes | None, log: Log) -> None:
        self._path = path
        self._token = token
        self._log = log
        self._said: str | None = None
        self._threads = trio.CapacityLimiter(1)

    @classmethod
    def open(cls, path: Path, log: Log) -> BearerToken:
        """Read the token of a file. Blocking. Raises ConfigurationError."""
        return cls(path, read_answering_token(path), log)

    @property
    def is_known(self) -> bool:
        return self._token is not None

    def admits(self, authorization: str) -> bool:
        """Return True if an Authorization header carries the token."""
        match = _SCHEME.fullmatch(authorization.strip())
        brought = b"" if match is None else match["token"].encode("latin-1", "replace")
        return hmac.compare_digest(brought, self._token or b"\0") and self._token is not None

    def required(self, request: Request) -> Answer | None:
        """Return the answer to a request without the token; None if it has the token."""
        if not self.is_known:
            return json_answer(503, {"error": "http.token_file is wrong, so no token is accepted; the log says why"})
        if self.admits(request.header("authorization")):
            return None
        return json_answer(
            401,
            {"error": "expected Authorization: Bearer with the token of http.token_file"},
            headers=(("www-authenticate", 'Bearer realm="throttle-sidecar"'),),
        )

    async def run(self) -> None:
        """Check the file once a second, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            try:
                self._token = await self._read()
            except ConfigurationError as error:
                self._token = None
                if self._said != str(error):
                    self._log.error("http_token_refused", error=str(error))
                self._said = str(error)
            else:
                self._said = None

    async def _read(self) -> bytes:
        with trio.move_on_after(READ_SECONDS):
            return await in_thread(read_token, self._path, limiter=self._threads)
        raise ConfigurationError(f"http.token_file: {self._path}: cannot be read: no answer within {READ_SECONDS:g} s")


def subject_of(certificate: bytes | None) -> str:
    """Return the distinguished name in the peer's verified certificate (DER), spelt as in RFC 4514; "" where it has
    shown none."""
    if certificate is None:
        return ""
    # Loaded where it is needed: most sidecars serve their pages in plaintext on loopback.
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()


class Writers:
    """`subjects`: distinguished names as `subject_of` spells them. `token` None: certificates alone count."""

    def __init__(self, token: BearerToken | None, subjects: frozenset[str]) -> None:
        self._token = token
        self._subjects = subjects

    def required(self, request: Request) -> Answer | None:
        """Return the answer to a request that is not authorized; None if it is."""
        if request.subject and request.subject in self._subjects:
            return None
        if self._token is not None:
            return self._token.required(request)
        found = f"one of {request.subject}" if request.subject else "none"
        return json_answer(403, {"error": f"expected a client certificate of one of http.writers, found {found}"})


class Trust:
    """Decides by Host and Origin which requests of browsers are served.

    There are no passwords here, and an operator's browser reaches places that the authors of its pages do not. Two ways
    in which such a page could use it are closed. After it was loaded, a page may give its own name our address (DNS
    rebinding) and read our answers as if they were its own: then Host is the page's name. Or it sends a POST across
    sites, without being able to read the answer: then Origin is the page's. Programs such as Prometheus send no Origin,
    and probes come by address, which cannot be rebound.

    `names`: host names of ours, without ports; ``*.example.com`` is every name below it, ``*`` any name at all."""

    def __init__(self, names: Iterable[str]) -> None:
        lowered = {name.lower().rstrip(".") for name in names}
        self._any = "*" in lowered
        self._names = {name for name in lowered if not name.startswith("*.")}
        self._below = tuple(name.removeprefix("*") for name in lowered if name.startswith("*."))

    def is_our_name(self, host: str) -> bool:
        """Return True if a Host header names us: an address, localhost, or a name of ours, with any port."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        if self._any or found["v6"] is not None:
            return True
        name = found["name"].lower().rstrip(".")
        return _is_address(name) or name == "localhost" or name in self._names or name.endswith(self._below)

    def may_change(self, method: str, *, origin: str, fetch_site: str, host: str) -> bool:
        """Return True if a request of this method may come from where it says: from no page, or from ours.

        `origin` and `fetch_site` are the headers Origin and Sec-Fetch-Site, "" if they are missing.
        """
        if method in SAFE_METHODS:
            return True
        if fetch_site not in ("", "same-origin", "none"):
            return False
        return origin == "" or _is_at(origin, host)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_at(origin: str, host: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    if found is None:  # a sandboxed page says "null"
        return False
    port = _DEFAULT_PORTS[found["scheme"]]
    return _with_port(found["host"], port) == _with_port(host, port)


def _with_port(host: str, default: str) -> tuple[str, str] | None:
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    return (found["v6"] or found["name"]).lower().rstrip("."), found["port"] or default


def names_of_this_machine(*, hosts: Path = HOSTS, resolver: Path = RESOLVER, host_name: str = "") -> set[str]:
    """Return the host name, with the domains that resolv.conf adds to short names, and its other names in hosts."""
    own = host_name or socket.gethostname()
    short = own.partition(".")[0]
    found = {own, short}
    for words in _lines(resolver):
        if words[0] in ("search", "domain"):
            found |= {f"{short}.{domain.rstrip('.')}" for domain in words[1:] if domain.strip(".")}
    for words in _lines(hosts):
        if own in words[1:] or short in words[1:]:
            found |= set(words[1:])
    return {name.lower() for name in found}


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    words = [line.partition("#")[0].split() for line in text.splitlines()]
    return [line for line in words if line]
