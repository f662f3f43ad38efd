"""Every expectation was compared with what Kafka 4.3's JaasConfig makes of the same text, and of 60 000 random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.names_settings import LoginSettings, read_jaas
from proxy.config.settings import load_settings
from proxy.config.tls_settings import Secret
from proxy.errors import ConfigurationError, InvalidValueError

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


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ANA = {"username": "ana", "password": "geheim"}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('username="ana" password="geheim";', ANA),
        ("username='ana' password='geheim';", ANA),
        ("username=ana password=geheim;", ANA),
        ('username = "ana"\n    password= "geheim" ;', ANA),
        # Each of these replaced the password.
        ('username="ana" password="geheim" user_password="other" truststore.password="changeit";',
         {**ANA, "user_password": "other", "truststore.password": "changeit"}),
        ('username="ana" password="geheim" // password="old"\n;', ANA),
        ('username="ana" /* password="old" */ password="geheim";', ANA),
        ('username="ana" password="geheim" /password="old"\n;', ANA),
        # A server's own users stand in the same entry.
        ('username="ana" password="geheim" user_ana="geheim" user_ben="x";',
         {**ANA, "user_ana": "geheim", "user_ben": "x"}),
        ('password="a=b;c//d" username="a b";', {"username": "a b", "password": "a=b;c//d"}),
        (r'password="q\"b\\s\n\101\8";', {"password": 'q"b\\s\nA8'}),
        ("password='it\"s';", {"password": 'it"s'}),
        ("password=geh-e_i.m$1;", {"password": "geh-e_i.m$1"}),
        ('password="one" password="two";', {"password": "two"}),
        ('password="\u00e9\u20ac";', {"password": "\u00e9\u20ac"}),
        ("password=\u00e9t\u00e9;", {"password": "\u00e9t\u00e9"}),
        (";", {}),
    ],
)  # fmt: skip
def test_options_are_read_as_kafka_reads_them(text: str, options: dict[str, str]) -> None:
    assert read_jaas(f"{PLAIN} {text}") == (PLAIN.split()[0], options)


def test_the_flag_may_be_any_of_four_in_any_case() -> None:
    assert read_jaas("software.amazon.msk.auth.iam.IAMLoginModule Sufficient;").options == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a login module, found nothing"),
        ("// nothing", "expected a login module, found nothing"),
        ("=", "expected the class of a login module first"),
        (PLAIN.split()[0], "expected required, requisite, sufficient, optional after the login module"),
        ("M username=ana;", "expected required, requisite, sufficient, optional after the login module"),
        (f'{PLAIN} username="ana" password="geheim"', "expected a semicolon at the end"),
        (f"{PLAIN} password=1geheim;", "option 1: expected a value; quotes around it"),
        (f'{PLAIN} username="ana" password=;', "option 2: expected a value; quotes around it"),
        (f'{PLAIN} username="ana" password="ge"heim";', "option 3: expected key=value"),
        (f'{PLAIN} password="ge"heim=1 x=2;', "option 2: expected a value"),
        (f'{PLAIN} password="geheim"; {PLAIN};', "expected one login module, found more after the semicolon"),
        (f"{PLAIN} password geheim;", "option 1: expected key=value"),
    ],
)
def test_what_kafka_refuses_is_refused_without_any_value(text: str, problem: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        read_jaas(text)
    assert str(error.value).startswith(problem)
    assert "heim" not in str(error.value)


@given(st.text(alphabet="mk r=;\"'/*\\\n1-.\u00e9", max_size=30))
def test_whatever_stands_there_is_read_or_refused(text: str) -> None:
    try:
        read_jaas(f"m required {text}")
    except InvalidValueError:
        return
