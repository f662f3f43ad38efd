from __future__ import annotations

import pytest
from click.testing import CliRunner

from lab.cli import cli


@pytest.mark.parametrize("command", [[], ["up"], ["move"], ["native"], ["versions"], ["fetch"]])
def test_every_command_explains_itself(command: list[str]) -> None:
    done = CliRunner().invoke(cli, [*command, "--help"])
    assert done.exit_code == 0
    assert "--help" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["move", "--quota", "4mb/s"], "--quota"),
        (["move", "--size", "lots"], "--size"),
        (["move", "--how", "magic"], "sidecar strict"),
        (["up", "--brokers", "0"], "1<=x<=9"),
        (["up", "--protocol", "9.9"], "'4.1', '4.2', '4.3', '4.4', '1.0'"),
        (["move", "--kafka", "4.1.0", "--protocol", "2.4"], "no Kafka 4.1.0 with protocol 2.4"),
        (["native", "--broker-config", "log.segment.bytes"], "expected key=value"),
        (["versions", "2.4", "0.9"], "'0.9' is not one of"),
        (["up", "--security", "tls_between"], "TLS between sidecars takes sidecars"),
        (["up", "--kafka", "1.0.2", "--security", "mtls"], "Kafka 1.0.2 reads no keys of PEM files"),
        (["up", "--broker-config", "broker.rack=é"], "expected ASCII, found 'broker.rack=é'"),
        (["move", "--leaders", "3", "--partitions", "2"], "2 partitions are too few for leaders (101, 102, 103)"),
        (["move", "--leaders", "8", "--followers", "8"], "expected 1 to 9 distinct broker ids, found (101, 102"),
        (["move", "--security", "tls_between", "--how", "unthrottled"], "TLS between sidecars takes sidecars"),
        (["move", "--quota", "0"], "expected more than 0 and less than unlimited, found 0"),
        (["move", "--size", "0"], "expected more than 0 and less than unlimited, found 0"),
        (["native", "--quota", "unlimited"], "expected more than 0 and less than unlimited, found unlimited"),
    ],
)
def test_wrong_options_are_usage_errors(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
