from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from operating.moves.client_properties import read_client_properties
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("# by Ana\n! and Ben\n\nsecurity.protocol = SSL\n", {"security_protocol": "SSL"}),
        (
            f'security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n{LOGIN} username="ana" password="a=b c";\n',
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512",
             "sasl_plain_username": "ana", "sasl_plain_password": "a=b c"},
        ),
        ("ssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem", {"ssl_cafile": "/etc/ca.pem"}),
        ("ssl.ca.location=/etc/ca.pem\nssl.endpoint.identification.algorithm=\n",
         {"ssl_cafile": "/etc/ca.pem", "ssl_check_hostname": False}),
        ("request.timeout.ms=5000\nclient.id: ops", {"request_timeout_ms": 5000, "client_id": "ops"}),
    ],
)  # fmt: skip
def test_what_kafkas_tools_read_is_read(tmp_path: Path, text: str, arguments: dict[str, Any]) -> None:
    (tmp_path / "client.properties").write_text(text)
    assert read_client_properties(tmp_path / "client.properties") == arguments


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ssl.truststore.location=/etc/trust.jks", "ssl.truststore.location: only PEM is understood"),
        ("ssl.keystore.type=PKCS12\nssl.keystore.location=/k", "ssl.keystore.location: only PEM is understood"),
        ("ssl.truststore.password=x", "ssl.truststore.password: not understood here; expected one of client.id, "),
        ("request.timeout.ms=soon", "request.timeout.ms: not understood here"),
        ("security.protocol", "line 1: expected key=value, found 'security.protocol'"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_client_properties(path)
    assert str(error.value).startswith(f"{path}: {problem}")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone: cannot be read: No such file or directory"):
        read_client_properties(tmp_path / "gone")
