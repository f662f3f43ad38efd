from __future__ import annotations

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassignment import Heading, ReassignmentError, TopicPartition, has_heading, read_assignment, text_of

FOO_0 = '{"topic":"foo","partition":0,"replicas":[1,2,3]}'
TOOL = """Current partition replica assignment

{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

Proposed partition reassignment configuration
{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}
"""


def test_kafkas_json_is_read() -> None:
    """ReassignPartitionsUnitTest.testParseExecuteAssignmentArgs (trunk, 1eb7644), the first that is accepted."""
    found = read_assignment(
        '{"version":1,"partitions":'
        '[{"topic":"foo","partition":0,"replicas":[1,2,3],"log_dirs":["any","any","any"]},'
        '{"topic":"foo","partition":1,"replicas":[3,4,5],"log_dirs":["any","any","any"]}]}',
        "r.json",
    )
    assert found.assignment == {TopicPartition("foo", 0): (1, 2, 3), TopicPartition("foo", 1): (3, 4, 5)}
    assert found.directories == {}


def test_moves_between_disks_are_told() -> None:
    """The second that is accepted there: replicas that shall be in certain directories."""
    found = read_assignment(
        '{"version":1,"partitions":'
        '[{"topic":"foo","partition":0,"replicas":[1,2,3],"log_dirs":["/tmp/a","/tmp/b","/tmp/c"]}]}',
        "r.json",
    )
    foo = TopicPartition("foo", 0)
    assert found.directories == {(1, foo): "/tmp/a", (2, foo): "/tmp/b", (3, foo): "/tmp/c"}
    some = read_assignment(
        '{"partitions":[{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","/tmp/b"]}]}', "r.json"
    )
    assert some.directories == {(2, foo): "/tmp/b"}


@pytest.mark.parametrize(
    ("partitions", "problem"),
    [
        # The four that testParseExecuteAssignmentArgs expects to be refused.
        ("", 'r.json: expected {"version":1,"partitions":[...]} with at least one partition'),
        (f'{FOO_0},{{"topic":"foo","partition":0,"replicas":[2,3,4]}}', "partitions[1]: foo-0 is listed twice"),
        (
            '{"topic":"foo","partition":0,"replicas":[0,0],"log_dirs":["/abc","/def"]}',
            "partitions[0].replicas: names a broker twice: [0, 0]",
        ),
        # Size of replicas list is different from size of log dirs list.
        (
            '{"topic":"foo","partition":0,"replicas":[0,1],"log_dirs":["/abc"]}',
            "partitions[0].log_dirs: expected one for each of [0, 1]",
        ),
        # An empty list means a deleted partition nowhere in Kafka.
        ('{"topic":"foo","partition":0,"replicas":[]}', "partitions[0].replicas: expected broker ids, found []"),
        ('{"topic":"foo","partition":0,"replicas":["1"]}', 'partitions[0].replicas: expected broker ids, found ["1"]'),
        ('{"topic":"foo","partition":0,"replicas":[true]}', "partitions[0].replicas: expected broker ids"),
        ('{"topic":"foo","partition":-1,"replicas":[1]}', "partitions[0].partition: expected a number >= 0, found -1"),
        (
            '{"topic":"foo","partition":"0","replicas":[1]}',
            'partitions[0].partition: expected a number >= 0, found "0"',
        ),
        ('{"partition":0,"replicas":[1]}', "partitions[0].topic: expected a name, found nothing"),
        ("7", "partitions[0]: expected an object, found 7"),
    ],
)
def test_what_kafka_refuses_is_refused_with_its_place(partitions: str, problem: str) -> None:
    with pytest.raises(ReassignmentError) as error:
        read_assignment(f'{{"version":1,"partitions":[{partitions}]}}', "r.json")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "r.json: line 1: not JSON"),
        ('{"version":1,\n"partitions":[}', "r.json: line 2: not JSON"),
        ("[]", 'r.json: expected {"version":1,"partitions":[...]}'),
        ('{"topics":[{"topic":"foo"}],"version":1}', 'r.json: expected {"version":1,"partitions":[...]}'),
        (f'{{"version":2,"partitions":[{FOO_0}]}}', "r.json: version: expected 1, found 2"),
        (TOOL.partition("Proposed")[0], 'r.json: no JSON below "Proposed partition reassignment configuration"'),
        (TOOL.replace('[2,3],"', "[2,3]"), "r.json: line 6: not JSON"),
        (
            f'{{"partitions":[{{"topic":"a","partition":{"1" * 5000},"replicas":[1]}}]}}',
            "r.json: expected numbers from 0 to 2147483647, found one far beyond",
        ),
        (
            '{"partitions":[{"topic":"\\ud800","partition":0,"replicas":[1]}]}',
            "r.json: partitions[0].topic: expected a name, found ",
        ),
        ('{"partitions":' + "[" * 100_000, "r.json: nested too deeply"),
    ],
)
def test_what_is_no_reassignment_says_where(text: str, problem: str) -> None:
    with pytest.raises(ReassignmentError) as error:
        read_assignment(text, "r.json")
    assert str(error.value).startswith(problem)


def test_every_problem_is_listed() -> None:
    with pytest.raises(ReassignmentError) as error:
        read_assignment('{"partitions":[{"topic":"","partition":-1},{"topic":"a"}]}', "r.json")
    assert [problem.partition(": expected")[0] for problem in error.value.problems] == [
        "r.json: partitions[0].topic", "r.json: partitions[0].partition", "r.json: partitions[0].replicas",
        "r.json: partitions[1].partition", "r.json: partitions[1].replicas",
    ]  # fmt: skip


@pytest.mark.parametrize(("wanted", "replicas"), [(Heading.CURRENT, (1, 2)), (Heading.PROPOSED, (2, 3))])
def test_the_output_of_kafkas_tool_is_read_as_it_is(wanted: Heading, replicas: tuple[int, ...]) -> None:
    """ReassignPartitionsCommand.generateAssignment prints both, executeAssignment the current one alone."""
    assert has_heading(TOOL, wanted)
    assert read_assignment(TOOL, "out.txt", wanted=wanted).assignment == {TopicPartition("foo", 0): replicas}


FORMATTED = """$ kafka-reassign-partitions.sh --generate ...
Current partition replica assignment
{
  "version": 1,
  "partitions": [ {"topic": "foo", "partition": 0, "replicas": [1, 2]} ]
}

Proposed partition reassignment configuration

{
  "version": 1,
  "partitions": [
    {
      "topic": "foo",
      "partition": 0,
      "replicas": [2, 3]
    }
  ]
}

Save this to use as the --reassignment-json-file option during rollback {or not}
$
"""


@pytest.mark.parametrize(("wanted", "replicas"), [(Heading.CURRENT, (1, 2)), (Heading.PROPOSED, (2, 3))])
def test_the_output_may_be_formatted(wanted: Heading, replicas: tuple[int, ...]) -> None:
    """Only one line was taken."""
    assert read_assignment(FORMATTED, "out.txt", wanted=wanted).assignment == {TopicPartition("foo", 0): replicas}


def test_a_mistake_in_formatted_output_has_its_line() -> None:
    with pytest.raises(ReassignmentError, match=r"out.txt: line 17: not JSON: "):
        read_assignment(FORMATTED.replace("[2, 3]", "[2, 3"), "out.txt")
    with pytest.raises(ReassignmentError, match='no JSON below "Current partition replica assignment"'):
        read_assignment(
            "Current partition replica assignment\n" + FORMATTED[FORMATTED.index("Proposed") :],
            "o",
            wanted=Heading.CURRENT,
        )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_what_powershell_writes_is_read(encoding: str) -> None:
    """Its `>` writes UTF-16 with a byte order mark, and its Out-File -Encoding utf8 one before UTF-8."""
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    content = marks.get(encoding, b"") + TOOL.replace("foo", "\u00e9t\u00e9").replace("\n", "\r\n").encode(encoding)
    found = read_assignment(text_of(content, "out.txt"), "out.txt")
    assert found.assignment == {TopicPartition("\u00e9t\u00e9", 0): (2, 3)}


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"{\xe9}"])
def test_text_that_cannot_be_decoded_is_said(content: bytes) -> None:
    with pytest.raises(ReassignmentError, match=r"r.json: cannot be read: .* codec can't decode"):
        text_of(content, "r.json")


@given(
    st.dictionaries(
        st.tuples(st.text(min_size=1), st.integers(0, 2**31 - 1)),
        st.lists(st.integers(0, 2**31 - 1), min_size=1, unique=True),
        min_size=1,
    )
)
def test_whatever_is_written_is_read(replicas: dict[tuple[str, int], list[int]]) -> None:
    rows = [{"topic": topic, "partition": n, "replicas": found} for (topic, n), found in replicas.items()]
    read = read_assignment(json.dumps({"version": 1, "partitions": rows}), "r.json").assignment
    assert read == {TopicPartition(*place): tuple(found) for place, found in replicas.items()}


@given(st.text())
def test_anything_else_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(ReassignmentError):
        read_assignment(text, "r.json")
