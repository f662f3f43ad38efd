"""The page: what it says, that it needs nothing, and how it looks in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.image import imread

from pipeline import generate
from pipeline.generate import Cluster
from pipeline.ingest import ingest
from pipeline.questions.answer import Verdict
from pipeline.report.facts import collect
from pipeline.report.page import render
from pipeline.tables import Tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.report.facts import Facts

CLUSTER = Cluster(
    brokers=3, partitions=6, seconds=150, violations=((101, 17),), stalls=((102, 60, 140),), hot_share=0.8
)
VOID = {"meta", "br", "use", "path", "stop"}
PHONE, DESK = (390, 1600), (1280, 1600)


@pytest.fixture(scope="module")
def facts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp("report")
    generate.write(spark, CLUSTER, str(folder / "journal"), files=2)
    ingest(spark, [str(folder / "journal")], str(folder / "tables"))
    return collect(Tables(spark, str(folder / "tables")))


@pytest.fixture(scope="module")
def page(facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(facts), "utf-8")
    return path


class Elements(HTMLParser):
    """Which elements there are, whether each is closed, and what is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [
            value for name, value in attrs if name in ("src", "href", "xlink:href") and value and value[0] != "#"
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_what_was_injected_is_on_the_page(facts: Facts, page: Path) -> None:
    """One second of 101 as leader, whose follower is 102, and eighty seconds in which 102 sent nothing to 103."""
    text = page.read_text("utf-8")
    kept, finish, starved, rate = facts.answers
    assert (kept.verdict, finish.verdict, starved.verdict, rate.verdict) == (
        Verdict.BAD, Verdict.GOOD, Verdict.GOOD, Verdict.GOOD
    )  # fmt: skip
    assert kept.number == pytest.approx(2.0, rel=1e-3)
    for answer in facts.answers:
        assert f"<b>{html.escape(answer.sentence)}</b>" in text
    assert {one.broker: one.broken for one in facts.outliers} == {101: 12, 102: 12, 103: 0}
    assert facts.outliers[-1].stalls[0].cause == "held back, and nothing moves"
    assert "held back, and nothing moves" in text
    assert text.count("<svg ") == 2 + 3 + 1 + 1  # maps of shares and lags, three brokers, moves, what-if
    assert text.count('class="broken"') == sum(cell.broken for cell in facts.grid.cells.values()) > 0
    assert facts.curve is not None
    assert [seconds for _, seconds in facts.curve.points] == sorted((s for _, s in facts.curve.points), reverse=True)


def test_scripts_have_all_of_it_as_json(facts: Facts) -> None:
    found = json.loads(json.dumps(facts.as_json(), allow_nan=False))
    assert found["answers"]["was-it-kept"]["verdict"] == "bad"
    assert found["brokers"] == 3
    assert {(link["source"], link["destination"]) for link in found["links"]} == {
        ("101", "102"), ("102", "103"), ("103", "101")
    }  # fmt: skip
    assert len(found["what_if"]) == 13


def test_the_page_is_whole_and_needs_nothing(page: Path) -> None:
    text = page.read_text("utf-8")
    elements = Elements()
    elements.feed(text)
    assert elements.open == []
    assert elements.loads == []
    assert "script" not in elements.found
    assert "url(http" not in text
    assert "@import" not in text
    assert re.findall(r"#0\d0\d0\d", text) == []  # every colour of a plot is one of the page's
    assert set(re.findall(r"font-family: ?([^;}\"]+)", text)) == {"inherit"}
    assert "DejaVu" not in text


EVIL = "<script>alert(1)</script>"


def test_what_comes_from_a_journal_is_escaped(facts: Facts) -> None:
    """Addresses of peers, topics in answers, causes of stalls, and what matplotlib takes for mathematics."""
    pair = facts.recorded.pairs[0]._replace(source=EVIL, destination="$x_{")
    answer = replace(facts.answers[0], sentence=EVIL, evidence=(EVIL,))
    recorded = facts.recorded._replace(pairs=(pair,))
    text = render(replace(facts, recorded=recorded, answers=(answer,), files={EVIL: 1}))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 5
    assert "$x_{" in text


def browse(page: Path, folder: Path, size: tuple[int, int], *options: str) -> str:
    """Open the page in Chromium as a person would; return what it prints."""
    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing: apt-get install chromium fonts-dejavu-core"
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}", "--enable-logging=stderr",
        *options, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(("size", "dark"), [(DESK, False), (DESK, True), (PHONE, False)], ids=["desk", "dark", "phone"])
def test_the_page_is_drawn(page: Path, tmp_path: Path, size: tuple[int, int], dark: bool) -> None:
    shot = tmp_path / "shot.png"
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    browse(page, tmp_path, size, f"--screenshot={shot}", *scheme)
    pixels = imread(shot)[:, :, :3]
    assert pixels.shape[:2] == (size[1], size[0])
    paper = pixels[5, 5]
    assert (paper.mean() < 0.2) == dark
    # Words and lines everywhere: no screenful is left empty.
    for top in range(0, size[1] - 400, 400):
        differs = np.abs(pixels[top : top + 400] - paper).sum(axis=2) > 0.1
        assert 0.002 < differs.mean() < 0.6, f"from {top} on"


def test_nothing_is_wider_than_a_phone(page: Path, tmp_path: Path) -> None:
    """Wide tables scroll by themselves."""
    measured = tmp_path / "measured.html"
    script = "<script>document.title = document.documentElement.scrollWidth + ' ' + innerWidth</script>"
    measured.write_text(page.read_text("utf-8").replace("</body>", f"{script}</body>"), "utf-8")
    title = re.search(r"<title>(\d+) (\d+)</title>", browse(measured, tmp_path, PHONE, "--dump-dom"))
    assert title is not None
    assert int(title[1]) <= int(title[2])


def test_it_can_be_printed(page: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    browse(page, tmp_path, DESK, f"--print-to-pdf={paper}")
    data = paper.read_bytes()
    assert data.startswith(b"%PDF-")
    count = re.search(rb"/Type /Pages\s*/Count (\d+)", data)
    assert count is not None
    assert 2 <= int(count[1]) <= 8
