from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.brokers.authority import Authority
from proxy.cluster.broker_client import MAX_REDIRECTED, Broker, KnownBrokers
from proxy.config.settings import Address, load_settings
from proxy.tls.legs import open_legs

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

INGRESS = "[ingress]\nlisten = '10.0.0.1:9092'\nupstream = '127.0.0.1:19092'\n"
TRANSPARENT = "[egress]\nmode = 'transparent'\nlisten = '[::]:15001'\n"
NAMED = "[[egress.peers]]\nbroker = 102\nupstream = 'kafka-102:9092'\n"
BESIDE, PEER = Address("127.0.0.1", 19092), Address("kafka-102", 9092)
MET = [Address(f"10.0.1.{n}", 9092) for n in range(MAX_REDIRECTED + 2)]


@pytest.mark.parametrize(
    ("roles", "told"),
    [
        (INGRESS, [BESIDE]),
        (INGRESS + TRANSPARENT + NAMED, [BESIDE, PEER]),
        (TRANSPARENT + NAMED, [PEER]),
        (TRANSPARENT, []),
    ],
)
def test_who_was_told_of_comes_first_and_who_was_met_last_next(roles: str, told: list[Address], tmp_path: Path) -> None:
    (tmp_path / "proxy.toml").write_text("[broker]\nid = 101\n" + roles)
    settings = load_settings(tmp_path / "proxy.toml")
    known = KnownBrokers(settings, open_legs([], limits=settings.limits, log=RecordedLog()))
    assert list(known) == [Broker(address) for address in told]
    for broker in [*told, *MET, MET[5]]:
        known.meet(broker)
    newest = [MET[5], *(broker for broker in reversed(MET) if broker != MET[5])]
    assert list(known) == [Broker(address) for address in (*told, *newest[:MAX_REDIRECTED])]


def test_a_broker_is_held_to_the_name_by_which_the_one_beside_us_knows_it(tmp_path: Path) -> None:
    """It was held to its address, which no certificate of a pod has: no question succeeded, and topics that lists name
    passed unthrottled."""
    (tmp_path / "proxy.toml").write_text(
        "[broker]\nid = 101\n" + TRANSPARENT + "[egress.tls.upstream]\nssl.truststore.location = 'ca.pem'\n"
        "[egress.tls.listen]\nsecurity.protocol = 'PLAINTEXT'\n"
    )
    Authority(tmp_path)
    settings = load_settings(tmp_path / "proxy.toml")
    known = KnownBrokers(settings, open_legs(settings.tls, limits=settings.limits, log=RecordedLog()))
    known.meet(MET[0])
    known.meet(MET[1], "broker-1.kafka.svc")
    known.meet(MET[0], "broker-0.kafka.svc")
    known.meet(MET[1])  # met again, before its handshake
    known.meet(MET[2])
    assert [(broker.address, broker.name) for broker in known] == [
        (MET[2], MET[2].host), (MET[1], "broker-1.kafka.svc"), (MET[0], "broker-0.kafka.svc"),
    ]  # fmt: skip
