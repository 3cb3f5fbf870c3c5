"""`btbench analyze-trace` from end to end: streams, formats, files, errors."""

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

from btbench.analysis.audit import analyze
from btbench.analysis.options import Options
from btbench.charts.trace_bursts import draw_heat_map, draw_timeline
from btbench.cli.app import app
from btbench.sources import open_trace
from btbench.trace_spec import TraceSpec

Run = Callable[..., Result]

ROW = '{"arrival_s": %s, "input_length": 700, "output_length": 5, "hash_ids": ["p0", "p1", "u%s"]}\n'
CHARTS = {"bursts.png", "fanout.png", "timeline.png", "reuse.png", "rate.png", "lengths.png"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command, in an empty folder, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *args, **more: CliRunner().invoke(app, ["analyze-trace", *map(str, args)], **more)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.jsonl"
    path.write_text("".join(ROW % (0.4 * i, i) for i in range(30)))
    return path


def test_the_answer_comes_first_and_fits_a_screen(run: Run) -> None:
    result = run("generated")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "holds deep bursts: 84 requests that share 16 blocks" in lines[0]
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def made(folder: Path, shared: int, root: bool) -> str:
    """40 prompts of 20 blocks, one a second: half of them share so many blocks; all of them the first, or none."""
    rows = []
    for i in range(40):
        ids = [f"s{k}" if k < shared and i % 2 else f"{i}-{k}" for k in range(20)]
        rows.append({"arrival_s": i * 0.2, "input_length": 5120, "output_length": 1, "hash_ids": ids})
        if root:
            ids[0] = "root"
    (folder / "made.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "made.jsonl"


@pytest.mark.parametrize(
    ("shared", "said"), [(8, "Shallower: 20 requests within 10 s share 8 blocks (2,048 tokens)."), (1, None)]
)
def test_what_is_shared_below_the_deep_ones_is_said(run: Run, tmp_path: Path, shared: int, said: str | None) -> None:
    text = " ".join(run(made(tmp_path, shared, True), "--block-tokens", 256).stdout.split("\n\n")[0].split())
    assert "of the requests that share 16 blocks or more, no two arrive within 10 s" in text
    assert (said in text) if said else ("Shallower" not in text)


def test_what_every_prompt_begins_with_is_told_apart(run: Run, tmp_path: Path) -> None:
    lines = run(made(tmp_path, 8, True), "--block-tokens", 256).stdout.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()[:1].isdigit()}
    assert rows["1"].endswith("40 a") and " a" not in rows["2"]
    assert "a: all prompts begin so, which is no burst." in lines
    assert not [
        line for line in run(made(tmp_path, 8, False), "--block-tokens", 256).stdout.splitlines() if " a" in line[-3:]
    ]


@pytest.mark.parametrize(
    ("shared", "root", "dots", "deepest"),
    [
        (1, True, [], "no two requests share 16 blocks"),
        (8, True, [20], "no two requests share 16 blocks"),
        (18, False, [20], "up to 20 requests share 16 blocks"),
    ],
)
def test_chart_titles_speak_of_deep_bursts_alone(
    tmp_path: Path, shared: int, root: bool, dots: list[int], deepest: str
) -> None:
    spec = TraceSpec(source=made(tmp_path, shared, root), block_tokens=256)
    found = analyze(open_trace(spec, tmp_path, seed=1), Options())
    assert title(draw_heat_map(found)) == f"made: {deepest} within 10 s"
    timeline = draw_timeline(found)
    count = "1 burst" if shared == 18 else "no bursts"
    assert title(timeline) == f"made: {count} of 20 requests or more that share 16 blocks"
    offsets = timeline.axes[0].collections[0].get_offsets()
    assert [int(size) for _, size in offsets] == dots


def title(figure: Figure) -> str:
    return figure.texts[0].get_text().replace("\n", " ")


def test_details_are_every_table_in_80_columns(run: Run, small: Path) -> None:
    result = run(small, "--block-tokens", 256, "--details", "--depth-tokens", 512)
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for title in ("Fan-out by depth", "How often", "Top bursts", "What btb", "Reuse", "Hit rate by", "Distributions"):
        assert any(line.startswith(title) for line in lines), title


def test_the_same_input_gives_the_same_bytes(run: Run) -> None:
    for format in ("table", "markdown", "json", "csv"):
        assert run("generated", "--format", format).stdout == run("generated", "--format", format).stdout


def test_json_has_the_documented_shape(run: Run, small: Path) -> None:
    asked = ("--block-tokens", 256, "--depths", "2,3", "--windows", "1,10", "--thresholds", "3,20")
    document = json.loads(run(small, *asked, "--format", "json").stdout)
    assert document["version"] == 1
    (trace,) = document["traces"]
    assert {"name", "requests", "requests_with_blocks", "block_tokens", "span_s", "mean_rate_per_s"} <= set(trace)
    assert [peak["window_s"] for peak in trace["arrival_peaks"]] == [1, 10]
    assert [(c["depth_blocks"], c["window_s"]) for c in trace["fanout"]] == [(2, 1), (2, 10), (3, 1), (3, 10)]
    cell = trace["fanout"][1]
    assert (cell["depth_tokens"], cell["groups"], cell["max_fanout"]) == (512, 1, 26)
    assert (cell["max_fanout_span_s"], cell["max_fanout_class"]) == (10.0, "fanout")
    assert (cell["max_fanout_independent"], cell["chain_max_fanout_independent"]) == (26, 26)
    assert cell["groups_at_least"] == cell["independent_groups_at_least"] == {"3": 1, "20": 1}
    # no depth of 16 was asked for: the headline looks there all the same, and finds prompts too short
    assert trace["deep_sync"] == trace["deep_sync"] | {"window_s": 10, "min_depth_blocks": 16, "max_fanout": 0}
    assert trace["deep_sync"]["present"] is False and trace["deep_sync"]["span_s"] == 0
    nothing = {"max_fanout": 0, "depth_blocks": None, "span_s": 0, "reads_as": "clustered"}
    assert trace["shallow_wide"] == {"window_s": 10, "min_depth_blocks": 8, **nothing}
    assert trace["reuse"]["hit_blocks"] == 58
    assert {"lengths", "arrivals", "oddities", "bursts", "btb", "root_prefixes", "ticks"} <= set(trace)


def test_csv_has_a_line_a_cell(run: Run, small: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(small, "--block-tokens", 256, "--format", "csv").stdout)))
    assert len(rows) == 18
    assert (rows[0]["trace"], rows[0]["depth_blocks"], rows[0]["groups_at_least_5"]) == ("small", "1", "0")


def test_several_traces_stand_side_by_side(run: Run, small: Path) -> None:
    result = run(small, "generated", "--block-tokens", 256)
    lines = result.stdout.splitlines()
    assert lines[0] == "Do these traces hold deep bursts?"
    present = {line.split()[0]: line.split()[-1] for line in lines if line.startswith(("small", "generated"))}
    assert present == {"small": "no", "generated": "yes"}
    assert max(map(len, lines)) <= 80
    name = "AzureLLMInferenceTrace_code"
    small.rename(small.with_name(f"{name}.jsonl"))
    result = run(f"{name}.jsonl", "generated", "--block-tokens", 256)
    assert [line for line in result.stdout.splitlines() if line.startswith(f"{name} ")]


def test_only_the_first_rows(run: Run, small: Path) -> None:
    document = json.loads(run(small, "--block-tokens", 256, "--max-rows", 7, "--format", "json").stdout)
    assert document["traces"][0]["requests"] == 7


def test_the_folder(run: Run, small: Path, tmp_path: Path) -> None:
    asked = (small, "--block-tokens", 256, "--out", "made")
    assert run(*asked).exit_code == 0
    made = tmp_path / "made"
    assert {path.name for path in made.iterdir()} == {"analysis.json", "fanout.csv", "report.md", "charts"}
    assert {path.name for path in (made / "charts").iterdir()} == CHARTS
    for name in CHARTS:
        pixels = matplotlib.image.imread(made / "charts" / name)
        assert pixels.shape[1] == 1440 and pixels.std() > 0.05  # there is something to be seen
    report = (made / "report.md").read_text()
    assert all(f"(charts/{name})" in report for name in CHARTS)
    printed = json.loads(run(*asked[:-2], "--format", "json").stdout)
    assert json.loads((made / "analysis.json").read_text()) == printed


def test_a_folder_is_not_overwritten_without_force(run: Run, small: Path, tmp_path: Path) -> None:
    asked = (small, "--block-tokens", 256, "--no-charts", "--out", "made")
    assert run(*asked).exit_code == 0
    again = run(*asked)
    assert again.exit_code == 2 and "--force" in again.stderr and again.stdout == ""
    assert run(*asked, "--force").exit_code == 0
    (tmp_path / "made" / "mine.txt").write_text("keep")
    refused = run(*asked, "--force")
    assert refused.exit_code == 2 and "mine.txt" in refused.stderr
    assert (tmp_path / "made" / "mine.txt").read_text() == "keep"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(run: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    result = run(small, "--block-tokens", 256, "--no-charts", "--out", "shut/made")
    assert result.exit_code == 2 and "shut/made" in result.stderr


def test_charts_of_several_traces_have_their_names(run: Run, small: Path, tmp_path: Path) -> None:
    result = run(small, "generated", small, "--block-tokens", 256, "--out", "made")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "made" / "charts").iterdir()}
    assert {"bursts.png", "small-1-fanout.png", "small-3-fanout.png"} <= names and len(names) == 1 + 3 * 5


def test_a_trace_of_one_request(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(ROW % (3.0, 0))
    result = run("one.jsonl", "--block-tokens", 256, "--details", "--out", "made")
    assert result.exit_code == 0, result.output
    assert "holds no deep bursts" in result.stdout


@pytest.mark.parametrize(
    ("args", "fragments"),
    [
        (("--depths", "0"), ("--depths 0", "from 1 to")),
        (("--depths", "2,x"), ("'x'", "--depths")),
        (("--depths", ""), ("--depths", "commas")),
        (("--windows", "-1"), ("'-1'", "above 0")),
        (("--windows", "inf"), ("'inf'", "above 0")),
        (("--thresholds", "1.5"), ("'1.5'", "whole numbers")),
        (("--btb-window", "nan"), ("'nan'", "from 0 on")),
        (("--setup", "70b_h100x5"), ("70b_h100x5", "70b_h100x4")),
        (("--max-rows", "0"), ("--max-rows",)),
        (("--tie", "apart"), ("--tie", "spread")),
        ((), ("--block-tokens",)),
    ],
)
def test_what_a_user_gets_wrong_is_a_few_lines_and_status_2(
    run: Run, small: Path, args: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    result = run(small, *args)
    assert result.exit_code == 2 and result.stdout == ""
    assert all(fragment in result.stderr for fragment in fragments), result.stderr
    assert len(result.stderr.splitlines()) <= 5


def test_a_missing_file(run: Run) -> None:
    result = run("nowhere.jsonl")
    assert result.exit_code == 2 and "nowhere.jsonl" in result.stderr and "Traceback" not in result.output
