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
        (  # As Kafka's documentation has it.
            f'{LOGIN} \\\n    username="ana" \\\n    password="#b";\nsecurity.protocol=SASL_SSL\n',
            {"sasl_plain_username": "ana", "sasl_plain_password": "#b", "security_protocol": "SASL_SSL"},
        ),
        # Of four backslashes java.util.Properties leaves two, of which the login's parser leaves one.
        (f'{LOGIN} username="a" password="q\\\\\\"b\\\\\\\\s";',
         {"sasl_plain_username": "a", "sasl_plain_password": 'q"b\\s'}),
        ("sasl.password=a\\\\b\\:c\\u00e9\\\\\nclient.id=\\t1\\",
         {"sasl_plain_password": "a\\b:cé\\", "client_id": "\t1"}),
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
        ("request.timeout.ms=soon", 'request.timeout.ms: expected milliseconds, found "soon"'),
        ("request.timeout.ms=" + "9" * 5000, "request.timeout.ms: expected milliseconds, found "),
        ("security.protocol", "line 1: expected key=value, found no value"),
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


@pytest.mark.parametrize("ends", [" \\", ""])
def test_no_part_of_a_key_is_shown(tmp_path: Path, ends: str) -> None:
    """PEM in the file itself, whether its lines are continued or not."""
    path = tmp_path / "client.properties"
    path.write_text(f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----{ends}\nMIIgeheim{ends}\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigurationError) as error:
        read_client_properties(path)
    assert "geheim" not in str(error.value)
