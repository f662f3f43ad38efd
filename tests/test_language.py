"""Docstrings begin with a complete sentence: in the imperative for functions, subject-first for modules and classes.
Those of attributes and constants begin with a noun phrase.

Folders that were converted are listed; of the docstrings of each, at most 1 % may begin with a fragment. A function's
first word has to be one of `VERBS`, so that nothing passes by accident: whoever needs another verb adds it.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CONVERTED = (
    "admission",
    "benchmarks",
    "deploy",
    "fuzz",
    "journal_schema",
    "operating",
    "lab",
    "pipeline",
    "protocol",
    "proxy/clients",
    "proxy/cluster",
    "proxy/config",
    "proxy/control",
    "proxy/diagnostics",
    "proxy/files",
    "proxy/handover",
    "proxy/http",
    "proxy/journal",
    "proxy/ledger",
    "proxy/logs",
    "proxy/network",
    "proxy/observing",
    "proxy/process",
    "proxy/quota_files",
    "proxy/quotas",
    "proxy/rates",
    "proxy/relay",
    "proxy/serving",
    "proxy/statistics",
    "proxy/throttle",
    "proxy/tls",
    "proxy/topology",
    "reassignment",
)
MAX_FRAGMENTS = 0.01
_VERBS = """
    abort accept account acknowledge acquire add adjust advance allocate allow announce answer append apply
    arm ask assert assign attach await
    back beat begin bind block bound break bring build bundle
    calculate call cancel carry change charge check choose classify clean clear close collect combine compare compile
    complete compress compute configure connect consume continue convert copy count create cut
    damage decide declare decode decompress decrypt delete deliver derive describe detach detect dial disable discard
    display divide do drain draw drop dump
    emit empty enable encode encrypt end enforce ensure enter escape estimate evaluate exchange exclude execute exit
    expand expect explain explode export extract
    fail feed fetch fill filter find finish fire fit flip flush fold follow forget format forward free freeze
    gather generate get give grant group grow guard
    hand handle hash hide hold
    ignore import include increase infer initialise inject insert install interpolate interrupt iterate
    join judge
    keep kill
    label land launch learn leave let limit link list listen load locate lock log look lower
    make map mark match measure mend merge model modify mount move
    name narrow negotiate normalise note notify number
    observe offer open order overwrite
    pack pad paint pair parse pass patch pause peek pick plan play plot poll pop post predict prepare print
    probe process produce promise propagate prove provide publish pull push put
    query queue quote
    raise ramp rank read reap reassign rebuild receive recompute reconnect record reduce refill refresh refuse
    register reject release reload remember remove rename render renew repeat replace replay report request
    require reserve reset resolve respond restart restore resume retry return reuse revert rewrite roll rotate
    round run
    sample save scale scan schedule score scrape search seek select send separate serve set settle shake share
    show shrink shut sign signal simulate skip sleep slice solve sort spend split spread stage stand start
    stop store stream strip subscribe substitute subtract sum summarise suspend swap sweep switch
    take tap tell terminate test throttle throw time toggle trace track translate treat trim trust try turn
    undo unload unlock unpack unwrap update upgrade use
    validate verify view visit
    wait wake walk want warn watch weigh withdraw withhold work wrap write
    yield
    zoom
"""
VERBS = frozenset(_VERBS.split())
"""Imperatives with which a function's docstring may begin."""
TRUE_IF = ("True if ", "True when ", "True while ", "True until ", "True unless ")
"""How a predicate's docstring may begin."""
_OPENERS = """
    about above after again although and any anybody anyone are as at
    be because before behind being below beside besides between but by
    can could
    do does
    either else even
    for from
    had has have he hence here how
    i if in inside instead into is it its
    less like little
    many may might more most much must
    neither never nobody none nor not nothing now
    of often on only or other otherwise out outside over
    rather
    same shall she should since so some somebody someone something still such
    than that their then there therefore these they this those though through till to together too
    under unless unlike until up
    was we were what whatever when whenever where whether which while who whoever whom whose why will with
    within without would
    yes yet you
"""
OPENERS = frozenset(_OPENERS.split())
"""Words with which no module's or class's docstring begins: a sentence that does has no subject yet, or hides it."""
NOUN_OPENERS = frozenset({"any", "how", "whether"})
"""Words of `OPENERS` with which an attribute's docstring may begin: "How many bytes ..."."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.strip().partition("\n\n")[0].split())
    return paragraph.partition(". ")[0] + "." if ". " in paragraph else paragraph


def is_fragment(node: Documented, docstring: str) -> bool:
    """True if the first sentence of this docstring is none, by its first word and its last character."""
    sentence = first_sentence(docstring)
    words = sentence.split()
    first = words[0].strip("`'\"*,:;.").lower()
    if len(words) < 3 or not sentence.rstrip("`").endswith((".", ":", "!", "?")):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return first not in VERBS and not sentence.startswith(TRUE_IF)
    return first in OPENERS


def is_attribute(node: ast.AST) -> bool:
    """True if a function is read as an attribute, whose docstring is a noun phrase."""
    decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
    return any(each in ("property", "cached_property", "functools.cached_property") for each in decorators)


def attribute_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring that follows an assignment."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for before, each in pairwise(body):
                match each:
                    case ast.Expr(value=ast.Constant(value=str() as text)) if isinstance(
                        before, ast.Assign | ast.AnnAssign
                    ):
                        yield each.lineno, " ".join(text.split())


def property_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each property's docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and is_attribute(node):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.lineno, " ".join(docstring.split())


def is_attribute_fragment(text: str) -> bool:
    """True if an attribute's docstring begins with no noun phrase, by its first word and its last character."""
    first = text.split()[0].strip("`'\"*,:;.").lower()
    return first in {"return", *OPENERS - NOUN_OPENERS} or not text.endswith((".", ":", "!", "?"))


def docstrings(source: str) -> Iterator[tuple[Documented, str]]:
    """Yield the modules, classes and functions of a file that have a docstring, but for properties."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented) and not is_attribute(node):
            docstring = ast.get_docstring(node)
            if docstring and docstring.strip():
                yield node, docstring


def fragments(folder: str) -> tuple[list[str], int]:
    """Return the places of docstrings that begin with a fragment, and how many docstrings there are."""
    found, total = [], 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node, docstring in docstrings(path.read_text("utf-8")):
            total += 1
            if is_fragment(node, docstring):
                line = getattr(node, "lineno", 1)
                found.append(f"{path.relative_to(ROOT)}:{line} {first_sentence(docstring)}")
    return found, total


@pytest.mark.parametrize("folder", CONVERTED)
def test_docstrings_begin_with_a_sentence(folder: str) -> None:
    found, total = fragments(folder)
    assert total > 0
    assert len(found) <= MAX_FRAGMENTS * total, "\n".join(found)


@pytest.mark.parametrize("folder", CONVERTED)
def test_a_function_that_returns_a_bool_says_when_it_is_true(folder: str) -> None:
    """ "Return the request goes on" is no sentence, and begins like one."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {first_sentence(docstring)}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node, docstring in docstrings(path.read_text("utf-8"))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) == "bool"
        and docstring.startswith("Return ")
        and docstring.split()[1].strip(":").lower() not in ("whether", "true", "false")
    ]
    assert found == []


@pytest.mark.parametrize("folder", CONVERTED)
def test_docstrings_of_attributes_begin_with_a_noun_phrase(folder: str) -> None:
    found, total = [], 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        source = path.read_text("utf-8")
        for line, text in (*attribute_docstrings(source), *property_docstrings(source)):
            total += 1
            if is_attribute_fragment(text):
                found.append(f"{path.relative_to(ROOT)}:{line} {text}")
    assert len(found) <= MAX_FRAGMENTS * total, "\n".join(found)


FUNCTION = "def f():\n    '''{}'''\n"
CLASS = "class C:\n    '''{}'''\n"


@pytest.mark.parametrize(
    ("source", "docstring", "fragment"),
    [
        (FUNCTION, "Return the bytes granted to each partition.", False),
        (FUNCTION, "True if this request is held.", False),
        (FUNCTION, "Of one process.", True),
        (FUNCTION, "What a direction needs before it can go on.", True),
        (FUNCTION, "None: there is none.", True),
        (FUNCTION, "The bytes granted to each partition.", True),
        (FUNCTION, "Return the bytes granted", True),
        (FUNCTION, "Returns bytes that were granted.", True),
        (CLASS, "A token bucket that may go into debt.", False),
        (CLASS, "Raised when a frame cannot be parsed.", False),
        (CLASS, "Until cancelled, that is.", True),
        (CLASS, "Token bucket.", True),
        ("'''{}'''\n", "What moved, seen from outside.", True),
        ("'''{}'''\n", "Taps on the wire, and logs on disk.", False),
    ],
)
def test_a_fragment_is_found(source: str, docstring: str, fragment: bool) -> None:
    ((node, found),) = docstrings(source.format(docstring))
    assert is_fragment(node, found) is fragment


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("Seconds since the last answer; None before the first.", False),
        ("How many bytes the last request was granted.", False),
        ("True if records have come.", False),
        ("Of one process.", True),
        ("What it is of.", True),
        ("By broker id.", True),
        ("The number of connections", True),
    ],
)
def test_a_fragment_of_an_attribute_is_found(text: str, fragment: bool) -> None:
    ((_, found),) = attribute_docstrings(f"class C:\n    x: int\n    '''{text}'''\n")
    assert is_attribute_fragment(found) is fragment


def test_a_property_is_an_attribute() -> None:
    assert list(docstrings("class C:\n    @property\n    def rate(self):\n        '''Bytes per second.'''\n")) == []


PRODUCT = ("admission", "journal_schema", "operating", "protocol", "proxy", "reassignment")


@pytest.mark.parametrize(("word", "most"), [("what", 7), ("one", 11)])
def test_words_that_stand_for_a_thing_are_few(word: str, most: int) -> None:
    """Per thousand words of docstrings: a name is read once, "what is there" twice. Trio has 0.7 and 2.6."""
    words = [
        each.strip("`'\"*,:;.()").lower()
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in all_docstrings(path.read_text("utf-8"))
        for each in text.split()
    ]
    assert 1000 * words.count(word) / len(words) <= most


def all_docstrings(source: str) -> Iterator[str]:
    """Yield those of modules, classes, functions, properties and attributes."""
    yield from (text for _, text in docstrings(source))
    yield from (text for _, text in (*property_docstrings(source), *attribute_docstrings(source)))
