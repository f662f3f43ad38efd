"""A server that `OldProcess` hands over: without a listener, a budget, and versions that it has met."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.clients.throttle import ClientDebt
    from proxy.handover.old_process import Listener, OldProcess
    from proxy.quotas.override import Override

BROKER = 101


def socket_path() -> Path:
    """A socket that no test has used. A test's RUNTIME_DIRECTORY is its own."""
    return Path(os.environ["RUNTIME_DIRECTORY"]) / uuid.uuid4().hex


class OldServer:
    broker = BROKER
    versions: Sequence[int] = ()

    def listening(self) -> Sequence[Listener]:
        return ()

    def available_bytes(self) -> Mapping[str, float | None]:
        return {}

    def client_debts(self) -> list[ClientDebt]:
        return []

    def unstored(self) -> list[Override] | None:
        return None

    def fetch_versions(self) -> Sequence[int]:
        return self.versions

    def is_ending(self) -> bool:
        return False

    def hand_over(self, giving: OldProcess) -> None:
        raise NotImplementedError

    def take_back(self) -> None:
        raise NotImplementedError

    def confirm(self, process: int) -> None:
        raise NotImplementedError
