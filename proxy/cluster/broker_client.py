"""The brokers that the sidecar may ask, and one request to a broker, on a connection of the sidecar's own.

Knows how a frame is sent and how an answer is received and parsed, not the questions (`questions`). Invariants: of
the brokers met at redirected connections at most `MAX_REDIRECTED` are kept; no more than `MAX_RESPONSE_BYTES` of an
answer are received; a long answer is parsed in a thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import trio

from protocol.errors import ProtocolError
from protocol.metadata import METADATA_VERSIONS_BY_ID, NAMED_METADATA_VERSIONS, metadata_request
from protocol.own_requests import api_versions_request, newest_version
from protocol.wire.apis import API_METADATA
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, with_length

from ..errors import ConfigurationError
from ..relay.transport import open_stream
from ..threads import in_thread
from ..tls.openssl_errors import forget_errors
from .login import Login

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from protocol.wire.topics import Topic

    from ..config.settings import Settings
    from ..config.settings_values import Address
    from ..tls.legs import Legs


CLIENT_ID = "throttle-sidecar"
RESPONSE_TIMEOUT_SECONDS = 5.0
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""The longest response: Metadata of some hundred thousand partitions."""
INLINE_PARSE_BYTES = 4 * 1024
"""The size from which on responses are parsed in a thread: a hundred partitions take two milliseconds."""
ASKING_ERRORS = (OSError, ProtocolError, ConfigurationError, trio.BrokenResourceError, trio.TooSlowError)
"""The errors of a broker that does not answer. ConfigurationError: the password's file cannot be read."""

PARSING_THREADS = trio.CapacityLimiter(1)
"""A limiter of one thread: parsing mostly holds the interpreter's lock, which the relay needs."""
_Found_co = TypeVar("_Found_co", covariant=True)
_Found = TypeVar("_Found")
MAX_REDIRECTED = 8


class Broker(NamedTuple):
    """A broker's address and how to speak to it: TLS by `context`, with the name that its certificate must have, or
    plaintext if `context` is None."""

    address: Address
    context: ssl.SSLContext | None = None
    name: str = ""
    login: Login | None = None

    def __str__(self) -> str:
        return str(self.address)


class Parser(Protocol[_Found_co]):
    """Parses the frame of a response of that version. Raises ProtocolError."""

    def __call__(self, frame: bytes, *, version: int) -> _Found_co: ...


async def ask_metadata(broker: Broker, topics: Sequence[Topic] | None, parse: Parser[_Found]) -> _Found:
    """Return the result of `parse` on the broker's Metadata for these topics, all by name or all by id; None: all
    topics.

    No topic is created. Raises one of ASKING_ERRORS.
    """
    versions = METADATA_VERSIONS_BY_ID if topics and isinstance(topics[0], bytes) else NAMED_METADATA_VERSIONS

    def request(version: int) -> bytes:
        return metadata_request(0, topics, client_id=CLIENT_ID, version=version)

    return await ask_broker(broker, API_METADATA, versions, request, parse)


async def ask_broker(
    broker: Broker, api_key: int, versions: range, request: Callable[[int], bytes], parse: Parser[_Found]
) -> _Found:
    """Return the result of `parse` on the broker's response to a request.

    ApiVersions is asked first: `request` is given the newest of `versions` that the broker knows and returns the frame
    without its length. Parsing is not limited by `RESPONSE_TIMEOUT_SECONDS`, or a busy machine would never learn from a
    large cluster. Raises one of ASKING_ERRORS.
    """
    with trio.fail_after(RESPONSE_TIMEOUT_SECONDS):
        frame, version = await response_of(broker, api_key, versions, request)
    if len(frame) < INLINE_PARSE_BYTES:
        return parse(frame, version=version)
    return await in_thread(partial(parse, frame, version=version), limiter=PARSING_THREADS)


async def response_of(
    broker: Broker, api_key: int, versions: range, request: Callable[[int], bytes]
) -> tuple[bytes, int]:
    """Return the response's frame, without its length, and its version; wait as long as the broker lets us."""
    plain = await open_stream(broker.address)
    stream: trio.abc.Stream = plain
    if broker.context is not None:
        stream = trio.SSLStream(plain, broker.context, server_hostname=broker.name, https_compatible=True)

    async def ask(frame: bytes) -> bytes:
        await stream.send_all(with_length(frame))
        size = frame_size(await _receive_exactly(stream, LENGTH_PREFIX_BYTES), 0, maximum=MAX_RESPONSE_BYTES)
        return await _receive_exactly(stream, size)

    try:
        async with stream:
            if broker.login is not None:
                if broker.context is None and not broker.login.in_plaintext:
                    raise ProtocolError("names.security.protocol is SASL_SSL, and the leg that leads there has no keys")
                await broker.login.run(ask, client_id=CLIENT_ID)
            version = newest_version(await ask(api_versions_request(0, client_id=CLIENT_ID)), api_key, versions)
            return await ask(request(version)), version
    finally:
        forget_errors()


async def _receive_exactly(stream: trio.abc.Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = await stream.receive_some(size - len(data))
        if not received:
            raise ProtocolError(
                f"the broker closed the connection {size - len(data)} bytes before the end of its answer"
            )
        data += received
    return bytes(data)


class KnownBrokers:
    """The brokers that a sidecar may ask: the broker beside us, the configured peers, then those that redirected
    connections were meant for, the one met last first. An iteration yields the brokers that were known when it began;
    `legs` has the keys to speak with them."""

    def __init__(self, settings: Settings, legs: Legs) -> None:
        """Open the login, if configured. Blocking.

        Raises ConfigurationError if [names] says how to log in, and that is not possible here.
        """
        self._login = None if settings.login is None else Login.open(settings.login)
        ingress, egress = settings.ingress, settings.egress
        beside = () if ingress is None else (ingress.upstream,)
        peers = () if egress is None else egress.peers
        self._beside = None if ingress is None else legs.of(ingress.tls.upstream)
        self._remote = None if egress is None else legs.of(egress.tls.upstream)
        self._names = {peer.upstream: peer.server_name for peer in peers}
        if ingress is not None:
            self._names[ingress.upstream] = ingress.server_name
        self._told = beside + tuple(peer.upstream for peer in peers)
        self._is_beside = beside
        self._met: dict[Address, str] = {}
        """The name that each broker's certificate must have; the broker met last is at the end."""

    def meet(self, broker: Address, name: str | None = None) -> None:
        """Remember a broker that a redirected connection was meant for. `name`: by which the broker beside us knows it;
        None: it has not said so, or not yet."""
        if broker not in self._told:
            before = self._met.pop(broker, broker.host)
            self._met[broker] = name or before
            if len(self._met) > MAX_REDIRECTED:
                del self._met[next(iter(self._met))]

    def __iter__(self) -> Iterator[Broker]:
        return (self._spoken_to(address) for address in (*self._told, *reversed(tuple(self._met))))

    def _spoken_to(self, address: Address) -> Broker:
        leg = self._beside if address in self._is_beside else self._remote
        if leg is None:
            return Broker(address, login=self._login)
        name = self._names.get(address) or self._met.get(address, address.host)
        return Broker(address, leg.loaded.contexts[0], name, self._login)
