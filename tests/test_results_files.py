"""The result folder: what it holds, that it appears whole or not at all, and what is said of a damaged one."""

import csv
import json
import os
import resource
import shutil
from pathlib import Path

import polars as pl
import pytest
from results_samples import make_replays, make_setup, make_trace

from btbench.errors import OutputError
from btbench.results.files import load_result, summary_csv, summary_json
from btbench.results.metrics import LATER, STABLE_METRICS
from btbench.results.provenance import Published
from btbench.results.requests import copies_frame, requests_frame
from btbench.results.stored import scan_copies, scan_requests
from btbench.results.summary import summary_rows
from btbench.results.table import markdown_table
from btbench.results.whole import whole_files
from btbench.results.writer import check_output, write_result

TRACE = make_trace()
SETUPS = make_setup(), make_setup("qwen3_8b_h100x4", "qwen3-8b", 2)
SLOWNESS = {"cache_aware": 1.0, "btb": 0.5}
PUBLISHED = (Published("70b_h100x4", "btb", "all", 0.6, 1.5),)
FILES = [
    "copies.parquet",
    "provenance.json",
    "report.html",
    "requests.parquet",
    "scenario.toml",
    "summary.csv",
    "summary.json",
    "table.md",
]


def replays():
    return list(make_replays(TRACE, SLOWNESS, *SETUPS))


def write(folder: Path, *, force: bool = False, charts: tuple[str, ...] = ()):
    with write_result(folder, TRACE, "cache_aware", force) as writer:
        for replay in replays():
            writer.add(*replay)
        for chart in charts:
            (writer.folder / "charts").mkdir(exist_ok=True)
            (writer.folder / "charts" / chart).write_text("a picture")
        return writer.finish(
            scenario="sample",
            scenario_toml='name = "sample"\n',
            seed=42,
            command="btbench replay sample",
            published=PUBLISHED,
            published_source="a paper",
        )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_result_holds_the_files_of_the_contract(tmp_path):
    result = write(tmp_path / "deep" / "result", charts=("ttft.png",))
    folder = tmp_path / "deep" / "result"
    assert list(contents(folder)) == ["charts/ttft.png", *FILES]
    assert result.folder == folder
    frames = [requests_frame(TRACE, *replay) for replay in replays()]
    assert pl.read_parquet(folder / "requests.parquet").equals(pl.concat(frames))
    copies = pl.concat([copies_frame(TRACE, *replay) for replay in replays()])
    assert pl.read_parquet(folder / "copies.parquet").equals(copies)
    rows = [row.as_dict() for row in summary_rows(TRACE, replays(), "cache_aware")]
    assert json.loads((folder / "summary.json").read_text()) == {"version": 1, "rows": rows}
    assert (folder / "scenario.toml").read_text() == 'name = "sample"\n'
    assert (folder / "table.md").read_text() == markdown_table(result)
    with (folder / "summary.csv").open() as file:
        for row, line in zip(rows, csv.DictReader(file), strict=True):
            assert {name: "" if value is None else str(value) for name, value in row.items()} == line
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["seed"] == 42
    assert provenance["command"] == "btbench replay sample"
    assert provenance["trace"]["digest"] == TRACE.digest
    assert [s["model"] for s in provenance["setups"]] == ["llama-3.3-70b", "qwen3-8b"]
    assert set(provenance["versions"]) == {"python", "btbench", "numba", "numpy", "polars"}


def test_a_result_reads_back_as_it_was_written(tmp_path):
    result = write(tmp_path / "result")
    assert load_result(tmp_path / "result") == result
    assert load_result(tmp_path / "result" / "summary.json") == result
    assert result.parts == ["all", "art", "synthetic"]
    assert result.row("qwen3_8b_h100x4", "btb")["mean_reduction_pct"] > 0
    assert result.row("qwen3_8b_h100x4", "btb", "chat") is None


def test_a_lone_summary_is_a_result(tmp_path):
    result = write(tmp_path / "result")
    (tmp_path / "lone").mkdir()
    (tmp_path / "result" / "summary.json").rename(tmp_path / "lone" / "summary.json")
    lone = load_result(tmp_path / "lone")
    assert lone.rows == result.rows
    assert lone.name == "lone"
    assert lone.provenance.trace is None


def test_the_same_replay_writes_the_same_bytes(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_stdout_formats_leave_out_what_differs_from_run_to_run():
    rows = summary_rows(TRACE, replays(), "cache_aware")
    for text in (summary_json(rows, STABLE_METRICS), summary_csv(rows, STABLE_METRICS)):
        assert "p95_reduction_pct" in text
        assert "engine_s" not in text
        assert "requests_per_s" not in text


def test_an_existing_result_is_kept_unless_forced(tmp_path):
    folder = tmp_path / "result"
    write(folder, charts=("old.png",))
    with pytest.raises(OutputError, match="holds a result already") as caught:
        write(folder)
    assert "--force" in caught.value.hint
    write(folder, force=True)
    assert list(contents(folder)) == FILES  # the old chart went with the old result


def test_an_empty_folder_may_be_written_to(tmp_path):
    write(tmp_path)
    assert list(contents(tmp_path)) == FILES


@pytest.mark.parametrize("foreign", ["thesis.docx", "charts/notes.txt", "data/table.md"])
def test_files_that_are_not_ours_are_never_replaced(tmp_path, foreign):
    write(tmp_path, charts=("ttft.png",))
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(OutputError, match=foreign.split("/")[0]):
        write(tmp_path, force=True)
    assert contents(tmp_path) == before


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=r"file is a file, not a folder"):
            check_output(folder, force=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="permission denied"):
        check_output(tmp_path / "result", force=False)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_failed_replay_leaves_nothing(tmp_path, failure):
    with pytest.raises(failure), write_result(tmp_path / "deep" / "result", TRACE, "cache_aware") as writer:
        writer.add(*replays()[0])
        raise failure
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replay_leaves_the_old_result(tmp_path):
    write(tmp_path, charts=("ttft.png",))
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt), write_result(tmp_path, TRACE, "cache_aware", force=True) as writer:
        writer.add(*replays()[0])
        raise KeyboardInterrupt
    assert contents(tmp_path) == before


def test_a_swap_that_fails_halfway_is_undone(tmp_path, monkeypatch):
    write(tmp_path, charts=("ttft.png",))
    before = contents(tmp_path)
    rename = Path.rename

    def failing(self, target):
        if target == tmp_path / "table.md" and self.parent.name != "old":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OutputError, match="Input/output error"):
        write(tmp_path, force=True)
    assert contents(tmp_path) == before


def test_a_context_that_ends_without_finish_is_our_fault_and_loud(tmp_path):
    with pytest.raises(RuntimeError, match="without finish"), write_result(tmp_path / "r", TRACE, "btb"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path):
    """The limit on the size of a file fails a write as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"cannot write the result to .*result: File too large"):
            write(tmp_path / "result")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_result_without_the_columns_added_later_loads(tmp_path):
    result = write(tmp_path)
    file = tmp_path / "summary.json"
    summary = json.loads(file.read_text())
    for row in summary["rows"]:
        assert list(row)[-len(LATER) :] == list(LATER)
        for name in LATER:
            del row[name]
    file.write_text(json.dumps(summary))
    old = load_result(tmp_path)
    assert [row["mean_ttft_s"] for row in old.rows] == [row["mean_ttft_s"] for row in result.rows]
    assert {row["floor_mean_ttft_s"] for row in old.rows} == {None}
    assert "floor" not in markdown_table(old) and "interval" not in markdown_table(old)


def damaged(tmp_path, change):
    write(tmp_path)
    file = tmp_path / "summary.json"
    summary = json.loads(file.read_text())
    change(summary)
    file.write_text(json.dumps(summary))
    with pytest.raises(OutputError) as caught:
        load_result(tmp_path)
    return caught.value.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["rows"][3].pop("p95_ttft_s"), "missing required field `p95_ttft_s` - at `rows[3]`"),
        (lambda s: s["rows"][1].update(copies="many"), "Expected `int`, got `str` - at `rows[1].copies`"),
        (lambda s: s["rows"][0].update(mean_ttft_s=None), "Expected `float`, got `null` - at `rows[0].mean_ttft_s`"),
        (lambda s: s.pop("rows"), "missing required field `rows`"),
        (lambda s: s.pop("version"), "missing required field `version`"),
        (lambda s: s["rows"].clear(), "holds no rows"),
        (lambda s: s.update(version=2), "is of version 2; this btbench reads 1 to 1"),
    ],
)
def test_a_damaged_summary_is_named_with_the_field(tmp_path, change, said):
    message = damaged(tmp_path, change)
    assert said in message
    assert "summary.json" in message


def test_what_is_no_result_is_said(tmp_path):
    with pytest.raises(OutputError, match=r"holds no summary\.json"):
        load_result(tmp_path)
    with pytest.raises(OutputError, match="does not exist"):
        load_result(tmp_path / "nowhere")
    (tmp_path / "summary.json").write_text('{"version": 1, "rows": [')
    with pytest.raises(OutputError, match="damaged"):
        load_result(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["rows"].append(s["rows"][0]), "repeats `rows[0]`"),
        (lambda s: s["rows"][0].update(mean_ttft_s=-1.0), "below 0 (-1) - at `rows[0].mean_ttft_s`"),
    ],
)
def test_impossible_rows_are_named(tmp_path, change, said):
    assert said in damaged(tmp_path, change)


@pytest.mark.parametrize("name", ["requests.parquet", "copies.parquet"])
@pytest.mark.parametrize("how", ["damaged", "foreign", "half"])
def test_damaged_tables_are_named(tmp_path, name, how):
    result = write(tmp_path)
    file, scan = tmp_path / name, scan_requests if name == "requests.parquet" else scan_copies
    assert scan(result) is not None
    if how == "damaged":
        file.write_bytes(file.read_bytes()[:-20])
    elif how == "foreign":
        pl.DataFrame({"x": [1]}).write_parquet(file)
    else:
        pl.read_parquet(file).with_columns(setup=pl.lit(None, pl.String)).write_parquet(file)
    with pytest.raises(OutputError, match=name):
        scan(result)


def test_a_second_interrupt_while_clearing_up_leaves_nothing(tmp_path, monkeypatch):
    calls = []

    def interrupted(folder, **options):
        calls.append(folder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return remove(folder, **options)

    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_files(tmp_path / "new") as aside:
        (aside / "a.png").write_text("half")
        raise KeyboardInterrupt
    assert len(calls) == 2 and not (tmp_path / "new").exists()
