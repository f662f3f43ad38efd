from __future__ import annotations

import pytest

from lab.brokers.jmx import jmx_options, parse_jmx_tool

SAID = """Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://127.1.2.3:9999/jmxrmi
time,"1700000000000"
kafka.server:type=LeaderReplication:byte-rate,"12.5"
time,"1700000000500"
kafka.server:type=LeaderReplication:byte-rate,"4.0E6"
time,"1700000001000"
kafka.server:type=LeaderRepl"""


def test_whole_pairs_of_lines_are_read() -> None:
    assert parse_jmx_tool(SAID) == [(1_700_000_000.0, 12.5), (1_700_000_000.5, 4e6)]


@pytest.mark.parametrize(
    "wanted", ["-Dcom.sun.management.jmxremote.host=127.1.2.3", "-Djava.rmi.server.hostname=127.1.2.3"]
)
def test_only_its_own_address_is_opened(wanted: str) -> None:
    assert wanted in jmx_options("127.1.2.3")
