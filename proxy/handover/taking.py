"""The new process' side: it asks the old one for everything, and says when it is ready to have it.

Knows which messages come and in which order (`giving`), not what is made of them. Invariant: until `ready`, the old
process serves as if nobody had asked. Sockets that come and are not wanted are closed.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigurationError
from .channel import ANSWER_SECONDS, Channel, ChannelError, close_all
from .states import SCHEMA, ConnectionState, Hello, Offer, Ready, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from ..config.settings import Address
    from .states import Message

SOCKETS_OF_A_CONNECTION = 2
END_SECONDS = 0.1
"""A process that ends without an answer is certainly gone from its address after this time."""


class Inheritance:
    """What the old process offered. `available_bytes`: what the budget of each role had left. `fetch_versions`: those
    that its followers used."""

    def __init__(
        self,
        channel: Channel,
        listening: dict[tuple[str, str, int], socket.socket],
        available: Mapping[str, float | None],
        fetch_versions: Sequence[int],
        *,
        address: str,
        process: int,
    ) -> None:
        self._channel = channel
        self._address = address
        self._process = process
        self._listening = listening
        self.available_bytes = available
        self.fetch_versions = fetch_versions

    def take_listener(self, key: str, address: Address) -> socket.socket | None:
        """Return the socket that listens at this address for this setting; None if the old process had none."""
        return self._listening.pop((key, address.host, address.port), None)

    async def ready(self) -> None:
        """Say that this process is ready; then the old one accepts nothing more. Raises ChannelError if it is gone."""
        self.close_unwanted()
        await self._channel.send(Ready())

    async def connections(self) -> AsyncGenerator[tuple[ConnectionState, socket.socket, socket.socket], None]:
        """Yield each connection with its follower's and its leader's socket, until the old process is gone.

        Raises ChannelError if it ended in the middle of a message.
        """
        with contextlib.suppress(EOFError):
            while True:
                state, descriptors = await self._channel.receive()
                if isinstance(state, ConnectionState) and len(descriptors) == SOCKETS_OF_A_CONNECTION:
                    follower, leader = (socket.socket(fileno=each) for each in descriptors)
                    yield state, follower, leader
                else:
                    close_all(descriptors)

    async def serves_on(self) -> bool:
        """Tell whether the old process still offers itself. Then it has given up waiting for this one, and gives
        nothing."""
        asking = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            return await asking.connect(self._address) == self._process
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


async def inherit(address: str, broker: int) -> Inheritance | None:
    """Ask the process at `address` for what it has; None if there is no process, or if it ends before it answers.

    Raises ConfigurationError if there is one and it does not hand over.
    """
    channel = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        process = await channel.connect(address)
        with trio.fail_after(ANSWER_SECONDS):
            await channel.send(Hello(SCHEMA, broker, takes_pairs=True))
            offer, descriptors = _offered(*await channel.receive())
        listening = _listening(offer, descriptors)
    except (ConnectionRefusedError, FileNotFoundError):
        channel.close()
        return None
    except (OSError, ValueError, EOFError, trio.TooSlowError) as error:
        channel.close()
        if await _has_ended(address):
            return None
        raise ConfigurationError(
            f"--take-over: the running sidecar does not hand over: {str(error) or 'no answer'}"
        ) from error
    except BaseException:
        channel.close()
        raise
    return Inheritance(
        channel, listening, offer.available_bytes, offer.fetch_versions, address=address, process=process
    )


async def _has_ended(address: str) -> bool:
    """Tell whether nobody is at `address` any more. A process that was at its end closes this a moment after its
    channels."""
    await trio.sleep(END_SECONDS)
    asking = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        await asking.connect(address)
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:
        return False
    finally:
        asking.close()
    return False


def _listening(offer: Offer, descriptors: list[int]) -> dict[tuple[str, str, int], socket.socket]:
    """Return each listening socket by its setting and address. Raises OSError or ValueError, with all of them closed,
    if they are not what the offer says."""
    socks: list[socket.socket] = []
    try:
        while descriptors:
            socks.append(socket.socket(fileno=descriptors[0]))
            del descriptors[0]
        keys = ((each.key, each.host, each.port) for each in offer.listening)
        return dict(zip(keys, socks, strict=True))
    except (OSError, ValueError):
        for sock in socks:
            sock.close()
        close_all(descriptors)
        raise


def _offered(message: Message, descriptors: list[int]) -> tuple[Offer, list[int]]:
    if isinstance(message, Offer):
        return message, descriptors
    close_all(descriptors)
    raise ChannelError(message.reason if isinstance(message, Refusal) else "expected an offer")
