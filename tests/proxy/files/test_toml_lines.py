from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files.toml_reading import MAX_CHARACTERS, KeyLines

TEXT = '''\
# ours
top = 1
[brokers.default]
leader.rate = "50MiB/s"  # [not.a.table]
[brokers.101]
until = 2026-12-01T06:00:00Z

[topics."a.b"]
list = [
  "x = 1",
]
'quoted' = """
y = 2
"""
after = { inner = 3, other = { deep = 4 } }
[[schedules]]
from = "22:00"
[schedules.brokers.101]
rate = 5
[[schedules]]
from = "23:00"
[schedules.topics."*"]
list = "*"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("top", 2),
        ("brokers.default", 3),
        ("brokers.default.leader.rate", 4),
        ("brokers.101.until", 6),
        ('topics."a.b"', 8),
        ('topics."a.b".list', 9),
        ("topics.a.b.quoted", 12),
        ("topics.a.b.after", 15),
        # What is inside a value has the line of its key.
        ("topics.a.b.after.other.deep", 15),
        ("topics.a.b.list[3]", 9),
        ("schedules[0]", 16),
        ("schedules[0].from", 17),
        ("schedules[0].brokers.101.rate", 19),
        ("schedules[1].from", 21),
        ('schedules[1].topics."*".list', 23),
        # A table that is only named by those below it; a key that is missing.
        ("brokers", 3),
        ("schedules", 16),
        ("brokers.101.rate", 5),
        ("none", None),
        ("y", None),
    ],
)
def test_a_key_has_its_line(path: str, line: int | None) -> None:
    tomllib.loads(TEXT)
    assert KeyLines(TEXT).of(path) == line


def test_of_a_huge_text_only_the_beginning_is_looked_over() -> None:
    lines = KeyLines("[a]\n" + "".join(f"k{number} = 1\n" for number in range(MAX_CHARACTERS // 4)))
    assert (lines.of("a.k5"), lines.of(f"a.k{MAX_CHARACTERS // 4 - 1}")) == (7, 1)


@given(st.text(alphabet="ab.=[]{}\"'#\n ,1", max_size=40), st.text(alphabet="ab.[]01", max_size=8))
def test_whatever_stands_there_a_line_is_of_the_text(text: str, path: str) -> None:
    line = KeyLines(text).of(path)
    assert line is None or 1 <= line <= text.count("\n") + 1
