"""The client of the lab's administrator, whose errors name what was being done.

Every call blocks. Invariant: only requests that were never sent are repeated.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..errors import LabError
from ..host.addresses import KAFKA_PORT
from .kafka_python import AdminClient, KafkaError, NodeNotReadyError, UnknownBrokerIdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

TIMEOUT_MS = 30_000
POLL_SECONDS = 0.1


class Asker:
    """One connection per broker. Calls may come from several threads.

    Args:
        hosts: file of names and addresses.
        names: of the brokers to begin with.
        port: where they take clients.

    Raises:
        LabError: no broker answers.
    """

    def __init__(self, *, hosts: Path, names: Iterable[str], port: int = KAFKA_PORT) -> None:
        self.hosts = hosts
        try:
            self._client = AdminClient(
                bootstrap_servers=[f"{name}:{port}" for name in names],
                proxy_url=f"hosts://{hosts}",
                client_id="lab-admin",
                request_timeout_ms=TIMEOUT_MS,
                # A stale view would ask the wrong broker for a leader's offsets.
                metadata_max_age_ms=1000,
            )
        except KafkaError as error:
            raise LabError(f"no broker answers the admin client: {error}") from error

    def close(self) -> None:
        self._client.close()

    def _ask(self, doing: str, call: Callable[[Any], Any]) -> Any:
        """Make one request and return its answer; kafka-python's errors become LabErrors that name what was being done.

        Only requests that were never sent are repeated: a broker was gone, and another one may be the controller by
        now.
        """
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                return call(self._client)
            except (UnknownBrokerIdError, NodeNotReadyError) as error:
                if time.monotonic() > deadline:
                    raise lab_error(doing, error) from error
            except (KafkaError, OSError) as error:
                raise lab_error(doing, error) from error
            time.sleep(POLL_SECONDS)
            self._client.forget_controller()


def lab_error(doing: str, error: Exception) -> LabError:
    """Return an error that names what was being done and what came of it."""
    return LabError(f"{doing}: {type(error).__name__}: {error}")
