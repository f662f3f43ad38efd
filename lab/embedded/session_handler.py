"""A follower's end of a fetch session as Kafka keeps it: FetchSessionHandler, of 3.9.

`build` makes the next request from everything that the follower wants: all of it, or only what has changed. `handle`
takes the response and tells whether it may be used. Keys that differ by their topic id are different partitions here: a
topic that was deleted and created again is forgotten by its old id and listed by its new one, as Kafka does since v13.
Must not know offsets, logs or connections.

Invariant: a partition that an incremental response leaves out is unchanged; one that a full response leaves out, or
one that was not asked for, makes the response invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.tables import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID
from protocol.session.requests import (
    FETCH_SESSION_ID_NOT_FOUND,
    SessionRequest,
)

from .session_cache import epoch_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.session.requests import PartitionKey

    from .session_values import Ask, SessionResponse


class FetchSessionHandler:
    """`complaints` are the responses that Kafka logs as invalid; `errors` the error codes it was answered with."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.session_id = NO_SESSION_ID
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[PartitionKey, Ask] = {}
        self.complaints: list[str] = []
        self.errors: list[int] = []

    @property
    def is_full(self) -> bool:
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def build(self, wanted: Mapping[PartitionKey, Ask]) -> SessionRequest[Ask]:
        """Return the request for everything in `wanted`, in its order."""
        if self.is_full:
            self.partitions = dict(wanted)
            return SessionRequest(self.version, dict(wanted), self.session_id, self.epoch)
        forgotten = [key for key in self.partitions if key not in wanted]
        added = {key: ask for key, ask in wanted.items() if key not in self.partitions}
        altered = {key: wanted[key] for key, ask in self.partitions.items() if key in wanted and wanted[key] != ask}
        for key in forgotten:
            del self.partitions[key]
        listed = {**added, **altered}
        self.partitions.update(altered)
        self.partitions.update(added)
        return SessionRequest(self.version, listed, self.session_id, self.epoch, forgotten)

    def handle(self, response: SessionResponse) -> bool:
        """Process the response; return False if it must not be used."""
        if response.error_code:
            self.errors.append(response.error_code)
            if response.error_code == FETCH_SESSION_ID_NOT_FOUND:
                self._start_over()
            else:
                self.failed()
            return False
        extra = [key for key in response.entries if key not in self.partitions]
        missing = [key for key in self.partitions if key not in response.entries] if self.is_full else []
        if extra or missing:
            kind = "full" if self.is_full else "incremental"
            self.complaints.append(f"an invalid {kind} fetch response: omitted {missing}, extra {extra}")
            if self.is_full:
                self._start_over()
            else:
                self.failed()
            return False
        if response.session_id == NO_SESSION_ID:
            self._start_over()
        else:
            self.session_id = response.session_id
            self.epoch = epoch_after(INITIAL_EPOCH if self.is_full else self.epoch)
        return True

    def failed(self) -> None:
        """Close the session and try for another one, since there was no response."""
        self.epoch = INITIAL_EPOCH

    def _start_over(self) -> None:
        self.session_id, self.epoch = NO_SESSION_ID, INITIAL_EPOCH
