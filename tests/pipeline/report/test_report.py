"""The page: what it says, that it needs nothing, and how it looks in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.image import imread

from pipeline import generate
from pipeline.generate import Cluster
from pipeline.ingest import ingest
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
    return collect(spark, Tables(spark, str(folder / "tables")))


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
    text = page.read_text("utf-8")
    assert facts.verdict == "broken"
    assert '<b class="bad">broken</b>' in text
    assert "2.00 x" in text
    assert "catch-up over the bound" in text
    # One second of 101 as leader and of 102 as follower, and the eleven windows of eleven seconds with it in them.
    assert sorted((row.broker, row.window_seconds, row.windows) for row in facts.evidence) == [
        (101, 1, 1), (101, 11, 11), (102, 1, 1), (102, 11, 11)
    ]  # fmt: skip
    assert "<span>messages behind at the end, worst broker</span>" in text
    assert min(points[-1].lag for points in facts.lag.values()) > 0  # the recording ends; they had not caught up
    assert ">done<" not in text
    assert "held back, and nothing moves" in text
    assert text.count("<svg ") == 6 + 6 + 1 + 1  # rates and lags of three brokers' two roles, moves, topics
    assert len(facts.what_if) == 3
    assert facts.what_if[0].seconds > facts.what_if[1].seconds > facts.what_if[2].seconds


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


def test_what_comes_from_a_journal_is_escaped(facts: Facts) -> None:
    row = facts.moves[0].asDict()
    evil = type(facts.moves[0])(**{**row, "topic": "<script>alert(1)</script>"})
    text = render(_with(facts, moves=(evil,), topics=(("<b>", 5),)))
    assert "<script" not in text
    assert "<b>" not in text.replace('<b class="', "")


def _with(facts: Facts, **values: object) -> Facts:
    return type(facts)(**{**{name: getattr(facts, name) for name in facts.__dataclass_fields__}, **values})


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
