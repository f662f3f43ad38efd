from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.host.addresses import Addresses, Route, after_egress, after_tap, first_hop, free_subnet, held_ports, hosts_file

if TYPE_CHECKING:
    from pathlib import Path

PLAN = Addresses("127.31.7", (101, 102, 103))


def test_no_two_parties_share_an_address() -> None:
    plan = Addresses("127.1.2", tuple(range(1, 10)))
    places = list(plan.everything())
    assert len(places) == len(set(places)) == 2 + 9 * 13 + 9 * 8 * 2


@pytest.mark.parametrize(
    ("route", "hops"),
    [
        (Route(egress=False, tap=False, ingress=False), [PLAN.direct(101)]),
        (Route(egress=False, tap=True, ingress=False), [PLAN.tap(101), PLAN.direct(101)]),
        (Route(egress=False, tap=True, ingress=True), [PLAN.tap(101), PLAN.ingress(101)]),
        (Route(egress=False, tap=False, ingress=True), [PLAN.ingress(101)]),
        (
            Route(egress=True, tap=True, ingress=True),
            [PLAN.egress(102, 101), PLAN.tap(101), PLAN.ingress(101)],
        ),
        (Route(egress=True, tap=False, ingress=True), [PLAN.egress(102, 101), PLAN.ingress(101)]),
        (Route(egress=True, tap=False, ingress=False), [PLAN.egress(102, 101), PLAN.direct(101)]),
    ],
)
def test_bytes_take_the_route(route: Route, hops: list[str]) -> None:
    path = [first_hop(PLAN, route, follower=102, leader=101)]
    if route.egress:
        path.append(after_egress(PLAN, route, 101))
    if route.tap:
        path.append(after_tap(PLAN, route, 101))
    assert path == hops


@pytest.mark.parametrize("brokers", [(), (1, 1), tuple(range(10))])
def test_unfit_broker_ids_are_refused(brokers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="1 to 9 distinct"):
        Addresses("127.1.1", brokers)


def test_hosts_file_knows_this_machine_too(tmp_path: Path) -> None:
    lines = hosts_file(tmp_path / "hosts", [("kafka-101", "127.1.1.1")]).read_text().splitlines()
    assert lines == ["127.0.0.1 localhost", f"127.0.0.1 {socket.gethostname()}", "127.1.1.1 kafka-101"]


def test_a_subnet_where_somebody_listens_is_passed_over() -> None:
    first = free_subnet((1, 2), choice=random.Random(7))
    with socket.create_server((first.tap(2), 9092)):
        second = free_subnet((1, 2), choice=random.Random(7))
    assert second.subnet != first.subnet


def test_somebody_on_every_address_is_an_error() -> None:
    class Stuck(random.Random):
        def randint(self, a: int, b: int) -> int:
            return 77

    with (
        socket.create_server(("127.77.77.250", 2181)),
        pytest.raises(LabError, match=r"127\.77\.77\.250"),
    ):
        free_subnet((1,), choice=Stuck())


def test_a_held_port_is_for_whoever_was_told_it_alone() -> None:
    with held_ports(2) as (port, other):
        assert port != other
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        for _ in range(2):  # as a program that is started again
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
                server.accept()[0].close()
