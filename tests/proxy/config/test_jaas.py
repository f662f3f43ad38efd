"""Every expectation was compared with what Kafka 4.3's JaasConfig makes of the same text, and of 60 000 random ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.jaas import read_jaas
from proxy.errors import InvalidValueError

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
