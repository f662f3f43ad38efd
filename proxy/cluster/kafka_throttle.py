"""The question for the throttle of Kafka's own (KIP-73) that the broker beside us has in its config.

One that is left there holds beside the sidecar's quota: replication gets the lower of both rates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from protocol.own_requests import DESCRIBE_CONFIGS_VERSIONS, broker_configs_request, dynamic_configs
from protocol.wire.apis import API_DESCRIBE_CONFIGS

from ..roles import Role
from .broker_client import ASKING_ERRORS, CLIENT_ID, ask_broker
from .polling import Question, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .broker_client import Broker

KAFKA_THROTTLE_SECONDS = 60.0
"""The pace of the question: a throttle that was left behind is there for days."""
KEYS = {role: f"{role.value}.replication.throttled.rate" for role in Role}
_LONG = re.compile("[0-9]{1,19}")


class KafkaThrottleQuestion(Question["Mapping[Role, int]"]):
    """Asks a broker for its own rates, while a quota holds.

    Without an answer, be it that the broker is too old, is another, or does not authorize us, they are unknown.
    """

    name = "kafka_throttle"
    least_pause_seconds = KAFKA_THROTTLE_SECONDS

    def __init__(
        self, broker_id: int, is_due: Callable[[float], bool], learn_rates: Callable[[Mapping[Role, int]], None]
    ) -> None:
        """Call `learn_rates` with the rates that are set, in bytes per second."""
        self._broker_id = broker_id
        self._is_due = is_due
        self._learn_rates = learn_rates

    async def wait_until_due(self) -> None:
        """Wait until a role has a quota."""
        await poll(self._is_due)

    async def ask(self, broker: Broker) -> Mapping[Role, int]:
        """Return the broker's rates; those that are not set are left out."""

        def request(version: int) -> bytes:
            return broker_configs_request(0, self._broker_id, KEYS.values(), client_id=CLIENT_ID, version=version)

        try:
            configs = await ask_broker(
                broker, API_DESCRIBE_CONFIGS, DESCRIBE_CONFIGS_VERSIONS, request, dynamic_configs
            )
        except ASKING_ERRORS:
            return {}
        return {role: int(configs[key]) for role, key in KEYS.items() if _LONG.fullmatch(configs.get(key, ""))}

    def learn(self, found: Mapping[Role, int] | None, now: float) -> None:
        """Pass the rates on."""
        del now
        self._learn_rates(found or {})
