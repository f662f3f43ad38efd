"""Answers of Prometheus' API, and what is known of a signal while they come, fail and come back."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quotas.query_signals import QuerySignal
from proxy.rates.query_state import GRACE_SECONDS, SAME_SECONDS, AbsurdError, QueryState, parse_answer

SIGNAL = QuerySignal("p99", "http://prometheus:9090", "p99", 0.05)


def vector(*values: str) -> bytes:
    samples = ",".join(f'{{"metric":{{}},"value":[1700000000.1,"{value}"]}}' for value in values)
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{samples}]}}}}'.encode()


def test_the_largest_of_several_values_counts() -> None:
    assert parse_answer(vector("0.01", "0.03", "0.02")) == 0.03
    assert parse_answer(b'{"status":"success","data":{"resultType":"scalar","result":[1700000000,"7"]}}') == 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (vector(), "the query has no value"),
        (vector("NaN"), "expected numbers of at least 0, found NaN"),
        (vector("0.1", "+Inf"), r"found \+Inf"),
        (vector("-1"), "found -1"),
        (vector("-1" + "0" * 200_000), "found -1[0]{38}$"),
        (vector("much"), "expected an answer of Prometheus' API"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "the query is refused: parse error"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "an instant vector, found matrix"),
        (b'{"status":"success"}', "an instant vector, found none"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', "expected an answer"),
        (b"<html>", "expected an answer"),
        (b"", "expected an answer"),
        (b"\xff\xfe", "expected an answer"),
        (b'{"more":' + b"[" * 100_000, "expected an answer"),
    ],
)
def test_what_is_no_value_says_why(content: bytes, problem: str) -> None:
    with pytest.raises(AbsurdError, match=problem):
        parse_answer(content)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_value_or_absurd(content: bytes) -> None:
    with suppress(AbsurdError):
        assert 0 <= parse_answer(content) < math.inf


def test_a_pressure_is_the_value_over_its_target() -> None:
    state = QueryState(SIGNAL, 0.0)
    assert (state.reading().pressure, state.reading().seen_at) == (0, -math.inf)
    state.took(0.1, 5.0)
    assert state.reading().pressure == pytest.approx(2)
    assert state.reading().words == "p99 of 0.1 (at most 0.05)"


def test_a_value_that_stays_is_a_new_one_after_a_while() -> None:
    state = QueryState(SIGNAL, 0.0)
    state.took(0.1, 1.0)
    state.took(0.1, 6.0)
    assert state.reading().seen_at == 1
    state.took(0.2, 7.0)
    assert state.reading().seen_at == 7
    state.took(0.2, 7.0 + SAME_SECONDS)
    assert state.reading().seen_at == 7 + SAME_SECONDS


def test_it_is_lost_after_a_grace_time_and_back_at_once() -> None:
    state = QueryState(SIGNAL, 100.0)
    state.failed("no route")
    assert not state.is_lost(100 + GRACE_SECONDS - 1)
    assert state.is_lost(100 + GRACE_SECONDS)
    assert state.why_lost() == "p99 is lost: no route"
    state.took(0.01, 120.0)
    assert not state.is_lost(120.0)
    assert state.is_lost(120 + GRACE_SECONDS)
