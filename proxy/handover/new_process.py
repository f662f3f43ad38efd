"""The new process' side: it asks the old process for everything, and says when it is ready to have it.
 Knows which messages come and in which order (`old_process`), not their use. Invariant: sockets that come
and are not wanted are closed."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import trio

from ..config.settings_values import Address
from ..errors import ConfigurationError
from .channel import ANSWER_SECONDS, Channel, ChannelError, GoneError, close_all
from .messages import SCHEMA, Alive, Confirmed, ConnectionState, HandOverRefusal, Hello, Offer, Ready
from .refusals import is_same_listener, refuse_listeners, refuse_process

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from .messages import Message
    from .refusals import Listener

SOCKETS_OF_A_CONNECTION = 2
ALIVE_SECONDS = 0.5
"""The time between two messages by which the new process says that its loop turns."""
END_SECONDS = 0.1
"""A process that ends without an answer is certainly gone from its address after this time, and its successor
from it is there."""
MAX_ATTEMPTS = 3
"""The number of processes in a row that may end while they are asked, each replaced by another."""


class Inherited:
    """The listeners and connections that the old process offered. `fetch_versions`: those that its followers used."""

    def __init__(
        self,
        channel: Channel,
        listening: dict[Listener, socket.socket],
        fetch_versions: Sequence[int],
        *,
        path: Path,
        process: int,
    ) -> None:
        self._channel = channel
        self._path = path
        self._process = process
        self._listening = listening
        self.fetch_versions = fetch_versions
        self.confirmed = False
        """True if the old process takes nothing back."""
        self._reporting = trio.CancelScope()

    def take_listener(self, key: str, address: Address) -> socket.socket | None:
        """Return the socket that listens at this address; None if the old process had none."""
        wanted = key, address
        found = next((each for each in self._listening if is_same_listener(each, wanted)), None)
        return None if found is None else self._listening.pop(found)

    async def ready(self) -> None:
        """Report that this process could serve. Raises ChannelError if the old process is gone."""
        self.close_unwanted()
        await self._channel.send(Ready())

    async def report(self) -> None:
        """Report that the loop of this process turns, until the old process is gone or has confirmed this one."""
        with self._reporting, contextlib.suppress(ChannelError):
            while True:
                await self._channel.send(Alive())
                await trio.sleep(ALIVE_SECONDS)

    async def messages(self) -> AsyncGenerator[tuple[Message, list[socket.socket]]]:
        """Yield each message, a ConnectionState with its follower's and its leader's socket, until the old process ends
        the stream.

        Raises OSError if it ended in the middle of a message, or sent what does not belong together.
        """
        # An `Alive` that the old process did not read any more makes of its end a reset.
        with contextlib.suppress(EOFError, GoneError):
            while True:
                message, descriptors = await self._channel.receive()
                if isinstance(message, Confirmed):
                    self.confirmed = True
                    self._reporting.cancel()
                expected = SOCKETS_OF_A_CONNECTION if isinstance(message, ConnectionState) else 0
                if len(descriptors) != expected:
                    close_all(descriptors)
                    told = f"expected {expected} descriptors beside {type(message).__name__}, found {len(descriptors)}"
                    raise ChannelError(told)
                yield message, _sockets(descriptors)

    async def serves_on(self) -> bool:
        """Return True if the old process still offers itself. Then it has given this one up."""
        asking = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            return await asking.connect(self._path) == self._process
        except OSError:
            return False
        finally:
            asking.close()

    def close_unwanted(self) -> None:
        """Close the listening sockets that came and that the settings do not name any more."""
        for sock in self._listening.values():
            sock.close()
        self._listening.clear()

    def close(self) -> None:
        self.close_unwanted()
        self._channel.close()


async def inherit(path: Path, broker: int, serves: Sequence[Listener] = ()) -> Inherited | None:
    """Ask the process at `path` for its sockets and connections; None if there is no process. `serves`: the listeners
    of this one.

    One that ends before it answers was at its end, or has handed over to another: then the process that is there now is
    asked. Raises ConfigurationError if there is one and it does not hand over.
    """
    for _ in range(MAX_ATTEMPTS):
        channel = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            with trio.fail_after(ANSWER_SECONDS):
                return await _asked(channel, path, broker, serves)
        except (ConnectionRefusedError, FileNotFoundError):
            channel.close()
            return None
        except (OSError, ValueError, EOFError, trio.TooSlowError) as error:
            channel.close()
            told = str(error) or "no answer"
            if not isinstance(error, EOFError | GoneError):
                break
        except BaseException:
            channel.close()
            raise
        await trio.sleep(END_SECONDS)
    raise ConfigurationError(f"--take-over: the running sidecar is not replaced: {told}")


async def _asked(channel: Channel, path: Path, broker: int, serves: Sequence[Listener]) -> Inherited:
    """Ask the old process for everything. Raises OSError, ValueError, EOFError."""
    process = await channel.connect(path)
    _require(refuse_process(process, os.getpid()))  # version 0.1.0 does not ask itself
    await channel.send(Hello(SCHEMA, broker))
    offer, descriptors = _offered(*await channel.receive())
    listening = _listening(offer, descriptors)
    try:
        _require(refuse_listeners(listening, serves))
    except ChannelError:
        for sock in listening.values():
            sock.close()
        raise
    return Inherited(channel, listening, offer.fetch_versions, path=path, process=process)


def _require(refusal: str | None) -> None:
    if refusal is not None:
        raise ChannelError(refusal)


def _listening(offer: Offer, descriptors: list[int]) -> dict[Listener, socket.socket]:
    """Return each listening socket by its setting and address. Raises OSError or ValueError, with all of them closed,
    if they are not what the offer says."""
    socks = _sockets(descriptors)
    try:
        return dict(zip(((each.key, Address(each.host, each.port)) for each in offer.listening), socks, strict=True))
    except ValueError:
        for sock in socks:
            sock.close()
        raise


def _sockets(descriptors: list[int]) -> list[socket.socket]:
    """Make sockets of descriptors. Raises OSError, with all of them closed, if one is no socket."""
    socks: list[socket.socket] = []
    try:
        socks.extend(socket.socket(fileno=each) for each in descriptors)
    except OSError:
        for sock in socks:
            sock.close()
        close_all(descriptors[len(socks) :])
        raise
    return socks


def _offered(message: Message, descriptors: list[int]) -> tuple[Offer, list[int]]:
    if isinstance(message, Offer):
        return message, descriptors
    close_all(descriptors)
    raise ChannelError(message.reason if isinstance(message, HandOverRefusal) else "expected an offer")
