"""report.html: everything in one file, no network, sorted by a click, whole in print."""

import base64
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest
from results_samples import make_replays, make_setup, make_trace

from btbench.results.files import load_result
from btbench.results.provenance import Published
from btbench.results.report import report_page, write_report
from btbench.results.writer import write_result

SETUPS = [make_setup(f"setup{k}") for k in range(4)]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "a & b"
    trace = make_trace(labels=("art", "synthetic", "art"))
    with write_result(folder, trace, "cache_aware") as writer:
        for replay in make_replays(trace, {"cache_aware": 1.0, "<btb>": 0.5}, *SETUPS):
            writer.add(*replay)
        charts = writer.folder / "charts"
        charts.mkdir()
        (charts / "ttft_split.png").write_bytes(PNG)
        (charts / "ttft_split.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
        (charts / "reduction.png").write_bytes(PNG)
        (charts / "notes.pdf").write_bytes(b"")
        writer.finish(
            scenario="a & b",
            scenario_toml='name = "a & b"  # <kept>\n',
            seed=42,
            command="btbench replay 'a & b.toml'",
            published=[Published("setup0", "<btb>", "all", 0.5)],
            published_source="a <paper>",
        )
        write_report(writer.folder)
    return folder


class Page(HTMLParser):
    """The tables of a page as lists of rows, and every address it would load."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.sources, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def chromium(*arguments):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=True)


def test_the_page_holds_every_row_charts_scenario_and_provenance(folder):
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert page.open == []  # every element is closed
    result = load_result(folder)
    assert len(page.tables) == 3 + 1 + 1
    rows = [row[:2] for row in page.tables[0][1:]]
    assert [row for row in rows if row[1] != "floor"] == [[r.setup, r.policy] for r in result.rows if r.part == "all"]
    assert [row[0] for row in rows if row[1] == "floor"] == result.setups
    assert len({len(row) for row in page.tables[0]}) == 1
    for said in ('name = "a & b"  # <kept>', "btbench replay 'a & b.toml'", "a <paper>", "xxh3_128:0011", "numpy "):
        assert said in unescape(text)


def test_the_page_loads_nothing(folder):
    page = Page((folder / "report.html").read_text())
    assert [source.split(",")[0] for source in page.sources] == [
        "data:image/png;base64",  # reduction
        "data:image/svg+xml;base64",  # ttft_split: the sharper of its two forms
    ]
    assert not re.search(r"@import|url\(|fetch\(", (folder / "report.html").read_text())


def test_of_a_chart_on_both_pages_the_light_one_is_shown_and_films_too(folder, tmp_path):
    for name in ("ttft.png", "ttft-dark.png", "copies-dark.png", "timeline.png", "timeline.gif", "timeline-dark.gif"):
        (tmp_path / name).write_bytes(PNG)
    shown = re.findall('alt="Chart: (.*?)" src="data:(.*?);', report_page(folder, tmp_path.iterdir()))
    png, gif = "image/png", "image/gif"
    assert shown == [("ttft", png), ("timeline", png), ("timeline, moving", gif), ("copies-dark", png)]


@needs_chromium
def test_a_head_shows_that_its_column_can_be_sorted_and_how_it_is(folder, tmp_path):
    text = (folder / "report.html").read_text()
    heads = "[...document.querySelectorAll('thead button')].slice(0, 2)"
    said = f"{heads}.map(b => getComputedStyle(b, '::after').content).join('')"
    script = f"{heads}[1].click(); document.querySelector('h1').textContent = {said}"
    page = tmp_path / "heads.html"
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    assert '<h1>"&nbsp;↕""&nbsp;▲"</h1>' in chromium("--dump-dom", page.as_uri()).stdout.decode()


def test_the_page_is_the_same_bytes_again(folder):
    before = (folder / "report.html").read_bytes()
    assert write_report(folder).read_bytes() == before
    assert not list(folder.glob("*.part"))


@needs_chromium
@pytest.mark.parametrize(("clicks", "descending"), [(1, False), (2, True)])
def test_a_click_sorts_by_value(folder, tmp_path, clicks, descending):
    text = (folder / "report.html").read_text()
    click = "document.querySelectorAll('thead th button')[3].click();" * clicks  # the reductions, none for the baseline
    page = tmp_path / "clicked.html"
    page.write_text(text.replace("</body>", f"<script>{click}</script></body>"))
    table = Page(chromium("--dump-dom", page.as_uri()).stdout.decode()).tables[0][1:]
    result = load_result(folder)
    rows = [result.row(setup, policy) for setup, policy, *_ in table if policy != "floor"]
    values = [row["mean_reduction_pct"] for row in rows]
    known = [value for value in values if value is not None]
    assert values[len(known) :] == [None] * 4
    assert known == sorted(known, reverse=descending)
    assert len(set(known)) == 4


@needs_chromium
def test_it_prints(folder, tmp_path):
    chromium(f"--print-to-pdf={tmp_path / 'report.pdf'}", (folder / "report.html").as_uri())
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
