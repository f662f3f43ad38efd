"""The page: what it says, that it needs nothing, and how it looks in a real browser."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from markupsafe import escape
from PIL import Image
from pyspark.sql import Row

from benchmarks.ring import START_SECONDS, Cluster
from pipeline.journals.ingest import ingest
from pipeline.model.broker_pairs import Pair
from pipeline.model.pace import End, Pace
from pipeline.questions.answer import Verdict
from pipeline.questions.asking import ask
from pipeline.questions.will_it_finish import Left
from pipeline.report.facts import collect
from pipeline.report.page import progress, render, still_to_go
from pipeline.tables import Tables
from pipeline.units import Units
from tests.pipeline.frames import ingested
from tests.pipeline.journal_files import FIRST, changed, quota_line, traffic_line, write_file

from .browser import browser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.report.facts import Facts

CLUSTER = Cluster(
    brokers=3, partitions=6, seconds=150, violations=((101, 17),), stalls=((102, 60, 140),), hot_share=0.8
)
VOID = {"meta", "br", "use", "path", "stop"}
MAX_BYTES = 4_000_000
"""Of the page of a cluster of any size; the library in it takes 0.9 MB."""
PHONE, DESK = (390, 1600), (1280, 1600)


@pytest.fixture(scope="module")
def facts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return collect(ingested(spark, CLUSTER, tmp_path_factory.mktemp("report")))


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


def without_library(text: str) -> str:
    return text.partition('<script type="module">')[0]


def test_what_was_injected_is_on_the_page(facts: Facts, page: Path) -> None:
    """One second of 101 as leader, whose follower is 102, and eighty seconds in which 102 sent nothing to 103."""
    text = page.read_text("utf-8")
    kept, rate, finish, starved, hurt = facts.answers
    assert (kept.verdict, finish.verdict, starved.verdict, rate.verdict) == (
        Verdict.BAD, Verdict.GOOD, Verdict.GOOD, Verdict.GOOD
    )  # fmt: skip
    assert (hurt.question, hurt.verdict) == ("which-move-hurt", Verdict.GOOD)
    assert facts.links.rows[0] in facts.left or not facts.left
    assert [row.seconds for row in facts.worst_replicas if row.finished] == []
    assert "<h3>The replicas that were behind for longest</h3>" in text
    assert kept.number == pytest.approx(2.0, rel=1e-3)
    for answer in facts.answers:
        assert f"<b>{escape(answer.sentence)}</b>" in text
    assert {one.broker: one.broken for one in facts.outliers} == {101: 12, 102: 12, 103: 0}
    (stalled,) = (one for one in facts.outliers if one.broker == 103)
    (stall,) = stalled.stalls
    assert (stall.cause, stall.first - START_SECONDS) == ("held back, and nothing moves", 60)
    assert "held back, and nothing moves" in text
    assert text.index("6 moves over 3 links brought 2.23 GB in 2 min 30 s") < text.index(escape(kept.sentence))
    still = without_library(text)
    assert still.count("<svg ") == 2 + 3 + 1 + 1  # maps of shares and lags, three brokers, moves, what-if
    framed = sum(cell.broken for cell in facts.grid.cells.values())
    assert still.partition("Which links were behind")[0].count('stroke="var(--bad)"') == framed > 0
    assert facts.curve is not None
    assert [seconds for _, seconds in facts.curve.points] == sorted((s for _, s in facts.curve.points), reverse=True)


def test_a_broker_whose_replicas_were_starved_says_so_beside_its_plot(facts: Facts) -> None:
    row = Row(broker=103, role="leader", peer="101", topic="orders", partition=7, minutes=6, first=START_SECONDS,
              others_bytes=8_000_000)  # fmt: skip
    text = html.unescape(without_library(render(replace(facts, starved=(row,)))))
    _, _, own = text.partition("<h3>Broker 103</h3>")
    told = "without a byte: orders-7 from 103 to 101 (by broker 103's quota as leader): 6 minutes from"
    assert told in own.partition("</ul>")[0]


@pytest.mark.long
def test_a_rate_inside_a_quota_that_ended_is_judged_as_ask_judges_it(spark: SparkSession, tmp_path: Path) -> None:
    """A peer's rate of 100 B/s, and 150 for a minute, then the quota without it: the page said "Yes", and of brokers
    that none was over its bound."""
    quota = changed(quota_line(), bytes_per_second=1000.0)
    later = changed(quota, time=FIRST + 60, tick=60, reason="change")
    lines = [changed(quota, bounds=json.dumps({"peers": {"102": 100}})), later]
    lines += [traffic_line(FIRST + at, record_bytes=132, in_sync=at == 119) for at in range(120)]
    write_file(tmp_path / "journal", lines=lines)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"))
    found = collect(tables)
    assert found.kept.verdict is Verdict.BAD
    assert found.kept.sentence == ask(tables, "was-it-kept").sentence
    assert (found.all_outliers, [one.broker for one in found.outliers]) == (1, [101])
    text = without_library(render(found))
    assert "over the bound of a rate inside its quota: broker 101 as leader, peer 102 moved" in text
    assert "No broker" not in text


@pytest.mark.long
def test_a_broker_that_lost_a_replica_is_out_of_the_ordinary(spark: SparkSession, tmp_path: Path) -> None:
    """The page said "No broker: none was ... behind at the end" beside "b-1 ... fell silent while it lacked 378 MB"."""
    ingest(spark, [str(Path(__file__).parents[1] / "cases" / "replica-that-left")], str(tmp_path / "tables"))
    text = without_library(render(collect(Tables(spark, str(tmp_path / "tables")))))
    assert "No broker" not in text
    assert re.search(r"<li>lost: b-1 from 1 to 2 fell silent at .* while it lacked 378 MB</li>", text)


def test_scripts_have_all_of_it_as_json(facts: Facts) -> None:
    found = json.loads(json.dumps(facts.as_json(), allow_nan=False))
    assert found["answers"]["was-it-kept"]["verdict"] == "bad"
    assert found["brokers"] == 3
    assert found["moved"].startswith("6 moves over 3 links brought 2.23 GB")
    assert {(link["source"], link["destination"]) for link in found["links"]} == {
        ("101", "102"), ("102", "103"), ("103", "101")
    }  # fmt: skip
    assert len(found["what_if"]) == 13


def test_the_page_is_whole_and_needs_nothing(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.encode()) < MAX_BYTES
    elements = Elements()
    elements.feed(text)
    assert elements.open == []
    assert elements.loads == []
    assert elements.found.count("script") == 7 + 2  # what each drawing is, the library, and what starts it
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'" in text
    still = without_library(text)
    assert "url(http" not in still
    assert "@import" not in still
    fonts = {
        font.strip("\"' ;") for font in re.findall(r"font(?:-family)?[=:\"]+ ?([^;}>]*?sans-serif|inherit)", still)
    }
    assert fonts <= {"inherit", "system-ui, sans-serif", "16px/1.5 system-ui, sans-serif"}
    assert "DejaVu" not in still


ENDED = Pair("101", "102", 4, 0, 80, START_SECONDS, START_SECONDS + 100, 1.0, backlog_bytes=80.0)
GOING_ON = ENDED._replace(moves=4, unfinished=2)
LEFT = Left("101", "102", 2, 5_000_000.0, Pace(1_000_000.0), End(65.0, 60.0, 70.0))
NEVER = LEFT._replace(end=End(None, None, None))


@pytest.mark.parametrize(
    ("pair", "left", "done", "to_go"),
    [
        (ENDED, None, "100%", ""),
        (ENDED, LEFT, "100%", ""),
        (GOING_ON._replace(backlog_bytes=200.0), LEFT, "40%", "5 MB, 1 min 05 s"),
        (GOING_ON._replace(backlog_bytes=200.0, written_bytes=120.0), LEFT, "25%", "5 MB, 1 min 05 s"),
        # More was brought than anybody knew of, and still not all.
        (GOING_ON._replace(backlog_bytes=40.0), NEVER, "99%", "5 MB, never"),
        (GOING_ON._replace(unknown=1), None, "not known", "not known"),
        (GOING_ON._replace(backlog_bytes=0.0), None, "not known", "not known"),
        (GOING_ON._replace(unknown=1), LEFT._replace(bytes=None, is_open=True), "not known", "not known"),
    ],
)
def test_how_much_of_a_pair_is_done_and_what_is_to_go(pair: Pair, left: Left | None, done: str, to_go: str) -> None:
    assert (progress(pair), still_to_go(pair, left, Units.DECIMAL)) == (done, to_go)


def test_of_many_moves_those_that_end_last_are_shown_the_ones_that_never_end_first(facts: Facts) -> None:
    """Of 500 that went on at the end the page had the 20 with the lowest ids."""
    ended = [ENDED._replace(source=str(broker)) for broker in range(101, 131)]
    going_on = [GOING_ON._replace(source=source, destination="7") for source in ("801", "802")]
    left = {
        ("801", "7"): LEFT._replace(source="801", destination="7"),
        ("802", "7"): NEVER._replace(source="802", destination="7"),
    }
    recorded = facts.recorded._replace(pairs=(*ended, *going_on))
    text = without_library(render(replace(facts, recorded=recorded, left=left)))
    assert "The 20 of 32 that end last." in text
    places = [text.index(f"<td>{name}</td>") for name in ("802 → 7", "801 → 7", "101 → 102", "118 → 102")]
    assert places == sorted(places)
    assert "<td>119 → 102</td>" not in text


EVIL = "<script>alert(1)</script>"


def test_what_comes_from_a_journal_is_escaped(facts: Facts) -> None:
    """Addresses of peers, topics in answers, causes of stalls, on the page and in what its drawings are made of."""
    pair = facts.recorded.pairs[0]._replace(source=EVIL, destination="$x_{")
    answer = replace(facts.answers[0], sentence=EVIL, evidence=(EVIL,))
    recorded = facts.recorded._replace(pairs=(pair,))
    text = without_library(render(replace(facts, recorded=recorded, answers=(answer,), files={EVIL: 1})))
    assert text.count("<script") == text.count('<script type="application/json">') == 7
    assert text.count("</script") == 7
    assert text.count("&lt;script&gt;") >= 5
    assert "\\u003cscript>alert(1)" in text
    assert "$x_{" in text


@pytest.mark.parametrize(("size", "dark"), [(DESK, False), (DESK, True), (PHONE, False)], ids=["desk", "dark", "phone"])
def test_the_page_is_drawn(page: Path, tmp_path: Path, size: tuple[int, int], dark: bool) -> None:
    with browser(tmp_path / "profile") as chromium:
        shot = chromium.open(page, size, dark=dark).screenshot()
    pixels = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")) / 255
    assert pixels.shape[:2] == (size[1], size[0])
    paper = pixels[5, 5]
    assert (paper.mean() < 0.2) == dark
    # Words and lines everywhere: no screenful is left empty.
    for top in range(0, size[1] - 400, 400):
        differs = np.abs(pixels[top : top + 400] - paper).sum(axis=2) > 0.1
        assert 0.002 < differs.mean() < 0.6, f"from {top} on"


# Points at the middle of the first plot, then turns the wheel there, with Ctrl and without.
POINTING = """(async () => {
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const svg = document.querySelector("figure .plot.live svg");
svg.scrollIntoView();
const box = svg.getBoundingClientRect();
const [x, y] = [box.left + box.width / 2, box.top + 100];
const at = { clientX: x, clientY: y, bubbles: true, cancelable: true, view: window };
const send = async (event) => {
  document.elementFromPoint(x, y).dispatchEvent(event);
  await wait(200);
};
const labels = () => [...svg.querySelectorAll(".role-axis-label text")].map((one) => one.textContent);
const found = { width: document.documentElement.scrollWidth, window: innerWidth, before: labels() };
for (const type of ["pointerover", "pointermove"]) await send(new PointerEvent(type, at));
await send(new MouseEvent("mousemove", at));
found.told = [...document.querySelectorAll("#vg-tooltip-element.visible tr")].map((row) => row.innerText.trim());
await send(new WheelEvent("wheel", { ...at, deltaY: -600 }));
found.scrolled = labels();
await send(new WheelEvent("wheel", { ...at, deltaY: -600, ctrlKey: true }));
found.zoomed = labels();
const square = document.querySelector('.plot.live path[stroke="var(--bad)"]');
for (const type of ["pointerover", "pointermove"]) square.dispatchEvent(new PointerEvent(type, at));
square.dispatchEvent(new MouseEvent("mousemove", at));
await wait(200);
found.square = [...document.querySelectorAll("#vg-tooltip-element.visible tr")].map((row) => row.innerText.trim());
return found;
})()"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_plots_answer_to_a_pointer_and_nothing_is_wider_than_a_phone(
    page: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    """Wide tables scroll by themselves; a wheel without Ctrl goes on through the page."""
    with browser(tmp_path / "profile") as chromium:
        found = chromium.open(page, size).evaluate(POINTING)
    assert found["width"] <= found["window"]
    assert found["told"][0].startswith("at\t2026-11-21 02:01:")
    assert [row.split("\t")[0] for row in found["told"][1:]] == [
        "as leader", "behind as leader", "as follower", "behind as follower"
    ]  # fmt: skip
    assert any(row.endswith("6 MB/s of 6 MB/s") for row in found["told"])
    who, when, what = (row.split("\t")[1] for row in found["square"])
    assert re.fullmatch(r"10[12] \w+", who)
    assert (when, what) == (
        "2026-11-21 02:00:16 UTC", "150% of its quota, the worst second 2.00 x, over its bound"
    )  # fmt: skip
    assert found["scrolled"] == found["before"]
    assert found["zoomed"] != found["before"]
    assert [label for label in found["zoomed"] if "B" in label] == [label for label in found["before"] if "B" in label]


def test_it_can_be_printed(page: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as chromium:
        data = chromium.open(page, DESK).printed()
    assert data.startswith(b"%PDF-")
    count = re.search(rb"/Type /Pages\s*/Count (\d+)", data)
    assert count is not None
    assert 2 <= int(count[1]) <= 8
