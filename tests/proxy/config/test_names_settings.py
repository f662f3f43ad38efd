from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.config.names_settings import LoginSettings
from proxy.config.settings import load_settings
from proxy.config.tls_settings import Secret
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

SCRAM = '[names]\nsasl.mechanism = "SCRAM-SHA-512"\nsasl.username = "sidecar"\n'


def login(home: Path, lines: str) -> LoginSettings | None:
    path = home / "proxy.toml"
    path.write_text(f'[broker]\nid = 101\n[ingress]\nlisten = "0.0.0.0:1"\nupstream = "127.0.0.1:2"\n{lines}')
    return load_settings(path).login


def test_nobody_logs_in_without_the_table(tmp_path: Path) -> None:
    assert login(tmp_path, "") is None


def test_a_password_in_a_file(tmp_path: Path) -> None:
    found = login(tmp_path, SCRAM + 'sasl.password.file = "password"\n')
    assert found == LoginSettings("SCRAM-SHA-512", "sidecar", Secret(file=tmp_path / "password"))


def test_as_java_writes_it(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    found = login(
        tmp_path,
        '[names]\nsecurity.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "SCRAM-SHA-256"\n'
        f'sasl.jaas.config = \'{module} username="sidecar" password="sesame";\'\n',
    )
    assert found == LoginSettings("SCRAM-SHA-256", "sidecar", Secret("sesame"), in_plaintext=True)
    assert "sesame" not in repr(found)


def test_what_java_writes_with_a_backslash_before_it_is_meant_without(tmp_path: Path) -> None:
    """A quote and a backslash, in a password that is made by a generator."""
    found = login(
        tmp_path,
        '[names]\nsasl.mechanism = "PLAIN"\n'
        """sasl.jaas.config = 'LoginModule required username=sidecar password="ses\\"a\\\\me" user_password=x;'\n""",
    )
    assert found is not None
    assert found.secret == Secret('ses"a\\me')


def test_a_token(tmp_path: Path) -> None:
    found = login(tmp_path, '[names]\nsasl.mechanism = "OAUTHBEARER"\nsasl.oauthbearer.token.file = "token"\n')
    assert found == LoginSettings("OAUTHBEARER", "", Secret(file=tmp_path / "token"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (SCRAM, "names.sasl.password.file: missing"),
        ('[names]\nsasl.mechanism = "GSSAPI"\n', "names.sasl.mechanism: expected one of PLAIN"),
        ('[names]\nsasl.mechanism = "OAUTHBEARER"\n', "names.sasl.oauthbearer.token.file: missing"),
        ('[names]\nsasl.mechanism = "PLAIN"\nsasl.password = "x"\n', "names.sasl.username: missing"),
        (SCRAM + 'sasl.pasword = "sesame"\n', r"names.sasl.pasword: unknown key.*did you mean sasl.password"),
        (SCRAM + "sasl.password = 5\n", "names.sasl.password: expected text"),
        (SCRAM + 'security.protocol = "SSL"\n', "names.security.protocol: expected SASL_SSL or SASL_PLAINTEXT"),
        (
            SCRAM + """sasl.jaas.config = 'M required username=sidecar password="sesame"'\n""",
            "names.sasl.jaas.config: expected a semicolon at the end",
        ),
        ("[names]\nssl.x = 1\n", r"names\.ssl\.x: unknown key"),
        ("[names.ssl]\n", r"names\.ssl: unknown key"),
        ("[[names]]\n", "names: expected a table, found a list"),
    ],
)
def test_what_is_not_understood_is_a_problem_without_its_secret(tmp_path: Path, lines: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        login(tmp_path, lines)
    assert "sesame" not in str(raised.value)
