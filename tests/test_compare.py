"""Two results side by side: values, words, intervals, what is refused, and the gates."""

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from matplotlib.figure import Figure
from results_samples import make_policy, make_runs, make_setup, make_trace
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.errors import GateFailed, UsageError
from btbench.results import numbers
from btbench.results.bootstrap import Interval
from btbench.results.comparable import flatten, scenario_differences
from btbench.results.compare import Change, compare_results
from btbench.results.files import load_result
from btbench.results.gates import Gate, check_gates, parse_gate, raise_failed
from btbench.results.metrics import find_metric
from btbench.results.writer import write_result

TRACE = make_trace((400, 250, 600))
SETUP = make_setup()
SCENARIO = 'name = "{name}"\n[policy.btb]\ncopies = {copies}\n[[setup]]\nname = "70b_h100x4"\nreplicas = 3\n'


def write(folder, slowness, trace=TRACE, setups=(SETUP,), run_seed=0, seed=42, copies=4):
    """A result whose policies wait as long as `slowness` says."""
    with write_result(folder, trace, "cache_aware") as writer:
        for setup in setups:
            for policy, factor in slowness.items():
                writer.add(setup, make_policy(policy), make_runs(trace, setup, factor, run_seed))
        toml = SCENARIO.format(name=folder.name, copies=copies)
        writer.finish(scenario=folder.name, scenario_toml=toml, seed=seed, command="")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    write(root / "old", {"cache_aware": 1.0, "btb": 0.5})
    write(root / "new", {"cache_aware": 1.0, "btb": 0.25, "random": 2.0}, copies=3)
    write(root / "other_draws", {"cache_aware": 1.0, "btb": 0.5}, run_seed=1)
    write(root / "other_trace", {"btb": 0.5}, trace=replace(TRACE, digest="xxh3_128:ff", source="b.jsonl"))
    write(root / "other_seed", {"btb": 0.5}, seed=7)
    write(root / "other_model", {"btb": 0.5}, setups=[make_setup(model="qwen3-8b")])
    write(root / "two_setups", {"cache_aware": 1.0, "btb": 0.5}, setups=[SETUP, make_setup("70b_h100x8")])
    write(root / "other_windows", {"btb": 0.5}, trace=make_trace((400, 250, 500)))
    return root


def change_of(root, b, policy="btb", a="old", **options):
    comparison = compare_results(load_result(root / a), load_result(root / b), **options)
    return comparison, next(c for c in comparison.changes if c.policy == policy)


def test_a_change_has_values_difference_ratio_interval_and_words(results):
    comparison, change = change_of(results, "new")
    a, b = (load_result(results / name).row("70b_h100x4", "btb")["mean_ttft_s"] for name in ("old", "new"))
    assert (change.a, change.b, change.difference, change.ratio) == (a, b, b - a, b / a)
    assert change.interval.low < b - a < change.interval.high < 0
    assert change.paired is True
    assert change.words == f"{(a - b) / a * 100:.1f}% lower mean TTFT ({a / b:.2f}x)"
    same = next(c for c in comparison.changes if c.policy == "cache_aware")
    assert same.words == "the same mean TTFT"
    assert same.interval is None


def test_every_common_row_and_metric_is_compared_and_what_stands_alone_is_said(results):
    comparison, _ = change_of(results, "new")
    assert [(c.policy, c.part, c.metric.name) for c in comparison.changes] == [
        (policy, part, metric)
        for policy in ("cache_aware", "btb")
        for part in ("all", "art", "synthetic")
        for metric in ("mean_ttft_s", "p95_ttft_s")
    ]
    assert "In B alone: policy random." in comparison.notes
    assert comparison.differences == ('name: "old" against "new"', "policy.btb.copies: 4 against 3")


def test_draws_of_the_same_distribution_are_no_difference_beyond_noise(results):
    _, change = change_of(results, "other_draws")
    assert change.difference != 0
    assert change.words == "no difference beyond noise"


@pytest.mark.parametrize(
    ("a", "b", "metric", "words"),
    [
        (1.9, 1.0, "mean_ttft_s", "47.4% lower mean TTFT (1.90x)"),
        (1.0, 1.032, "p95_ttft_s", "3.2% higher p95 TTFT (1.03x)"),
        (1.0, 1.265, "p95_ttft_s", "26.5% higher p95 TTFT (1.26x)"),
        (1.0, 1.004, "p95_ttft_s", "0.40% higher p95 TTFT"),
        (1.0, 1.99, "mean_queue_s", "99.0% higher mean queue wait (1.99x)"),
        (1.0, 2.0, "mean_queue_s", "2.00x higher mean queue wait"),
        (2.5, 1.0, "mean_queue_s", "2.50x lower mean queue wait"),
        (1.0, 5.5, "p95_queue_s", "5.50x higher p95 queue wait"),
        (1.0, 4000.0, "p95_queue_s", "4,000x higher p95 queue wait"),
        (0.5, 0.4, "hbm_hit_rate", "10.0 points lower HBM hit rate"),
        (0.072, 0.301, "hit_rate", "22.9 points higher hit rate"),
        (0.962, 0.961, "hit_rate", "0.10 points lower hit rate"),
        (7.2, 30.1, "mean_reduction_pct", "22.9 points higher reduction of mean TTFT"),
        (-3.0, 2.0, "mean_reduction_pct", "5.0 points higher reduction of mean TTFT"),
        (0.0, 0.4, "hit_rate", "40.0 points higher hit rate"),
        (0.0, 0.4, "mean_queue_s", "higher mean queue wait"),
        (3.0, 3.0, "copies", "the same copies"),
        (None, 3.0, "mean_reduction_pct", "no value"),
    ],
)
def test_words_cannot_be_misread(a, b, metric, words):
    assert Change("s", "p", "all", find_metric(metric), a, b).words == words


def test_an_interval_around_zero_is_noise_and_one_beside_it_is_not():
    metric = find_metric("mean_ttft_s")
    assert Change("s", "p", "all", metric, 1.0, 1.2, Interval(-0.1, 0.5)).is_noise
    assert not Change("s", "p", "all", metric, 1.0, 1.2, Interval(0.1, 0.3)).is_noise


@pytest.mark.parametrize(
    ("b", "said"),
    [
        ("other_trace", "trace: sample.jsonl (xxh3_128:00112233445566778899aabbccddeeff) against b.jsonl"),
        ("other_seed", "seed: 42 against 7"),
        ("other_model", "model of setup 70b_h100x4: llama-3.3-70b against qwen3-8b"),
    ],
)
def test_what_is_not_comparable_is_refused_unless_forced(results, b, said):
    with pytest.raises(UsageError) as caught:
        change_of(results, b)
    assert said in caught.value.message
    assert f'name: "old" against "{b}"' in caught.value.message  # the differences of the scenarios are listed
    assert "--force" in caught.value.hint
    comparison, change = change_of(results, b, force=True)
    assert any(said in note for note in comparison.notes)
    assert change.a is not None


def test_requests_of_another_trace_are_unpaired_and_it_is_said(results):
    same_trace, paired = change_of(results, "new")
    other_trace, unpaired = change_of(results, "other_trace", a="new", force=True)
    assert (paired.paired, unpaired.paired) == (True, False)
    assert unpaired.interval.high - unpaired.interval.low > paired.interval.high - paired.interval.low
    said = "Unpaired: the traces differ, or are not known to be the same."
    assert said in other_trace.notes
    assert said not in same_trace.notes


def test_other_windows_of_the_same_trace_are_unpaired_and_it_is_said(results):
    comparison, change = change_of(results, "other_windows")
    assert change.paired is False
    assert "Unpaired: 70b_h100x4 btb served other requests of the trace." in comparison.notes


def test_lone_summaries_are_compared_without_intervals_and_it_is_said(results, tmp_path):
    (tmp_path / "summary.json").write_bytes((results / "new" / "summary.json").read_bytes())
    comparison = compare_results(load_result(results / "old"), load_result(tmp_path / "summary.json"))
    assert all(change.interval is None for change in comparison.changes)
    assert "No intervals: requests.parquet is not beside both summaries." in comparison.notes
    assert "B does not tell its trace, seed, models: not checked." in comparison.notes


@pytest.fixture
def damaged(tmp_path):
    """Ways to change values of every row of a summary, and one of its requests."""
    folder = write(tmp_path / "damaged", {"cache_aware": 1.0, "btb": 0.25}, copies=3)

    def change_summary(**values):
        told = json.loads((folder / "summary.json").read_text())
        told["rows"] = [row | values for row in told["rows"]]
        (folder / "summary.json").write_text(json.dumps(told))
        return folder

    def change_requests(ttft_s):
        frame = pl.read_parquet(folder / "requests.parquet")
        one = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(ttft_s)).otherwise("ttft_s")
        frame.with_columns(ttft_s=one).write_parquet(folder / "requests.parquet")
        return folder

    return change_summary, change_requests


@pytest.mark.parametrize(("metric", "value"), [("mean_ttft_s", 0.0), ("mean_ttft_s", 1e20), ("p95_queue_s", 0.5)])
def test_a_summary_that_its_requests_do_not_make_is_refused(results, damaged, metric, value):
    folder = damaged[0](**{metric: value})
    for other in (results / "old", folder):  # against itself: the same wrong value in both
        ended = run(other, folder, "-m", metric, "--out", folder / "charts")
        assert (ended.exit_code, ended.stdout) == (2, "")
        told = ended.stderr.replace("\n", " ")
        assert f"{folder} is damaged: requests.parquet makes a {metric} of" in told
        assert f"its summary tells {value}" in told


def test_a_gate_on_what_is_not_compared_is_held_against_the_requests_too(results, damaged):
    ended = run(results / "old", damaged[0](p99_ttft_s=0.0), "--fail-on", "btb.p99_ttft_s > +5%")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "makes a p99_ttft_s of" in ended.stderr


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_requests_whose_times_are_no_numbers_are_refused(results, damaged, value):
    ended = run(results / "old", damaged[1](value))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "column 'ttft_s' holds 1 infinite or undefined values" in ended.stderr.replace("\n", " ")


def test_a_lone_summary_of_what_no_replay_makes_is_refused(results, damaged, tmp_path):
    (tmp_path / "lone.json").write_bytes((damaged[0](mean_ttft_s=1e300) / "summary.json").read_bytes())
    ended = run(results / "old", tmp_path / "lone.json", "--out", tmp_path / "charts")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "too large (1e+300) - at `rows[0].mean_ttft_s`" in ended.stderr.replace("\n", " ")


def test_nothing_in_common_is_an_error(results, tmp_path):
    other = write(tmp_path / "r", {"round_robin": 1.0})
    with pytest.raises(UsageError, match="no setup, policy and part in common"):
        compare_results(load_result(results / "old"), load_result(other))


def test_unknown_names_are_errors_with_the_nearest(results):
    for option, said in (
        ({"metrics": ["mean_tft_s"]}, "Did you mean 'mean_ttft_s'"),
        ({"setups": ["70b"]}, "70b_h100x4"),
        ({"parts": ["synth"]}, "synthetic"),
    ):
        with pytest.raises(UsageError) as caught:
            change_of(results, "new", **option)
        assert said in str(caught.value)


def with_scenario(folder, toml):
    write(folder, {"btb": 0.5})
    (folder / "scenario.toml").write_text(toml)
    return load_result(folder)


def test_what_one_scenario_has_alone_is_named_without_its_keys(tmp_path):
    setup = '[[setup]]\nname = "{}"\nmodel = "m"\nreplicas = {}\n'
    a = setup.format("x", 4) + setup.format("y", 4) + '[[published]]\nmean_ttft_s = 1.0\n[policy."v1"]\nk = 1\n'
    b = setup.format("x", 3) + setup.format("z", 4) + '[policy."v1.2"]\nk = 1\n[models.tiny]\nparams = 1e9\n'
    a, b = with_scenario(tmp_path / "a", a), with_scenario(tmp_path / "b", 'published_source = "us"\n' + b)
    assert scenario_differences(a, b) == [
        "setup: y in A alone",
        "setup: z in B alone",
        "models: tiny in B alone",
        "policy: v1 in A alone",
        "policy: v1.2 in B alone",
        "setup.x.replicas: 4 against 3",
    ]


def test_ten_differences_are_listed_and_the_rest_counted(tmp_path):
    a, b = (
        with_scenario(tmp_path / name, "".join(f"key{k} = {value}\n" for k in range(30)))
        for name, value in (("a", 1), ("b", 2))
    )
    comparison = compare_results(a, b)
    assert len(comparison.differences) == 30
    text = run(a.folder, b.folder).stdout
    assert text.count(" against 2") == 10 and "and 20 more; all with --format json" in text
    assert run(a.folder, b.folder, "--format", "json").stdout.count(" against 2") == 30
    other_seed = write(tmp_path / "c", {"btb": 0.5}, seed=7)
    (other_seed / "scenario.toml").write_bytes((b.folder / "scenario.toml").read_bytes())
    refused = run(a.folder, other_seed).stderr
    assert len(refused.splitlines()) == 15 and "and 20 more; all with --force --format json" in refused


def test_scenarios_are_flattened_by_name():
    nested = {"a": 1, "t": {"x": [1, 2]}, "setup": [{"name": "s", "gpus": 4}], "published": [{"mean": 1.0}]}
    assert flatten(nested) == {"a": 1, "t.x": [1, 2], "setup.s.name": "s", "setup.s.gpus": 4, "published.0.mean": 1.0}


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("btb.mean_ttft_s > +5%", ("btb", "mean_ttft_s", ">", 5, True)),
        ("btb.p95_ttft_s>4.8", ("btb", "p95_ttft_s", ">", 4.8, False)),
        (" btb.copies <= -2.5 % ", ("btb", "copies", "<=", -2.5, True)),
        ("btb.hit_rate<-2points", ("btb", "hit_rate", "<", -2, True)),
        ("btb.gap_closed_pct < -1 point", ("btb", "gap_closed_pct", "<", -1, True)),
        ("btb.mean_reduction_pct < -3", ("btb", "mean_reduction_pct", "<", -3.0, False)),
        ("my.policy.copied_bytes >= 1e9", ("my.policy", "copied_bytes", ">=", 1e9, False)),
    ],
)
def test_gates_are_read(text, gate):
    read = parse_gate(text)
    assert (read.policy, read.metric.name, read.sign, read.limit, read.relative) == pytest.approx(gate)


@pytest.mark.parametrize(
    "text",
    [
        "btb.mean_ttft_s",
        "mean_ttft_s > 5",
        "btb.mean_ttft_s > five",
        "btb.mean_ttft_s == 5",
        "btb.mean_ttft_s > 5%",
        "btb.mean_ttft_s > +5",
        "btb.mean_tft_s > 5",
        "btb.mean_ttft_s > nan",
        "btb.mean_ttft_s > +５%",
        "btb.mean_ttft_s > +5 points",
        "btb.hit_rate < -2%",
        "btb.hit_rate < 2 points",
        "btb.mean_reduction_pct < -5%",
        "",
    ],
)
def test_gates_that_cannot_be_meant_are_errors(text):
    with pytest.raises(UsageError) as caught:
        parse_gate(text)
    assert caught.value.message.startswith(f"--fail-on {text!r}")


def test_a_gate_on_a_share_in_percent_is_told_how_to_write_it():
    with pytest.raises(UsageError) as caught:
        parse_gate("btb.hit_rate < -2%")
    assert "changes of hit_rate are in points" in caught.value.message
    assert "'btb.hit_rate < -2 points'" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "a", "b", "broken"),
    [
        ("p.mean_ttft_s > +5%", 1.0, 1.06, True),
        ("p.mean_ttft_s > +5%", 1.0, 1.04, False),
        ("p.mean_ttft_s > +5%", 0.0, 0.0, False),
        ("p.mean_ttft_s > +5%", 0.0, 0.1, True),
        ("p.mean_ttft_s > +5%", 100.0, 105.0, False),
        ("p.mean_ttft_s >= +5%", 1.0, 1.05, True),
        ("p.hit_rate < -2 points", 0.5, 0.479, True),
        ("p.hit_rate < -2 points", 0.5, 0.48, False),
        ("p.hit_rate < -2 points", 0.05, 0.035, False),
        ("p.mean_reduction_pct < -5 points", -10.0, -15.1, True),
        ("p.mean_reduction_pct < -5 points", -10.0, -12.0, False),
        ("p.p95_ttft_s > 4.8", None, 4.9, True),
        ("p.p95_ttft_s > 4.8", None, 4.8, False),
        ("p.p95_ttft_s >= 4.8", None, 4.8, True),
    ],
)
def test_gates_break_where_they_say(text, a, b, broken):
    gate: Gate = parse_gate(text)
    assert gate.broken(a, b) is broken


def test_failed_gates_are_named_with_both_values(results):
    old, new = load_result(results / "old"), load_result(results / "new")
    gates = [parse_gate(text) for text in ("btb.mean_ttft_s < -5%", "btb.p95_ttft_s > 0.1", "btb.mean_ttft_s > +5%")]
    checks = check_gates(gates, old, new, [], [])
    assert [check.failed for check in checks] == [True, True, False]
    with pytest.raises(GateFailed) as caught:
        raise_failed(checks)
    a, b = (result.row("70b_h100x4", "btb")["mean_ttft_s"] for result in (old, new))
    assert caught.value.message.startswith("2 gates failed:\n")
    said = f"btb.mean_ttft_s < -5%: 70b_h100x4 of {results / 'new'} went from {a:.7g} to {b:.7g} s"
    assert said in caught.value.message
    raise_failed([check for check in checks if not check.failed])


@pytest.mark.parametrize(
    ("text", "setups", "parts"),
    [
        ("bbt.mean_ttft_s > +5%", [], []),
        ("btb.mean_ttft_s > +5%", ["70b_h100x8"], []),
        ("btb.mean_ttft_s > +5%", [], ["chat"]),
        ("cache_aware.mean_reduction_pct < 5", [], []),
        ("random.mean_ttft_s > +5%", [], []),  # in the new result alone: no value to hold it against
    ],
)
def test_a_gate_that_cannot_be_checked_is_an_error(results, text, setups, parts):
    with pytest.raises(UsageError, match="cannot be checked"):
        check_gates([parse_gate(text)], load_result(results / "old"), load_result(results / "new"), setups, parts)


@pytest.mark.parametrize(("a", "b"), [("two_setups", "old"), ("old", "two_setups")])
def test_a_setup_that_one_result_lacks_is_no_gate_passed(results, a, b):
    ended = run(results / a, results / b, "--fail-on", "btb.mean_ttft_s > +5%")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "old has no setup '70b_h100x8'" in ended.stderr.replace("\n", " ")
    narrowed = run(results / a, results / b, "--fail-on", "btb.mean_ttft_s > +5%", "--setup", "70b_h100x4")
    assert narrowed.exit_code == 0


def run(*arguments, **environment):
    return CliRunner(env={"COLUMNS": "80", **environment}).invoke(app, ["compare", *map(str, arguments)])


def test_the_command_prints_the_table_and_ends_with_0(results):
    ended = run(results / "old", results / "new")
    assert ended.exit_code == 0
    assert f"A: {results / 'old'} (old)" in ended.stdout.replace("\n", "")
    assert "Comparison of mean TTFT, all requests" in ended.stdout
    assert "% lower" in ended.stdout
    assert "policy.btb.copies: 4 against 3" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert run(results / "old", results / "new").stdout == ended.stdout


def test_a_failed_gate_ends_with_1_after_everything_is_written(results, tmp_path):
    summary, junit = tmp_path / "summary.md", tmp_path / "gates.xml"
    summary.write_text("before\n")
    ended = run(
        results / "old",
        results / "new",
        "--fail-on",
        "btb.mean_ttft_s < -5%",
        "--fail-on",
        "btb.mean_ttft_s > +5%",
        "--junit",
        junit,
        "--github-summary",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert ended.exit_code == 1
    assert "a gate failed" in ended.stderr
    assert "FAILED" in ended.stdout
    assert summary.read_text().startswith("before\n# B against A\n")
    assert "## Gates" in summary.read_text()
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]


def test_a_full_disk_leaves_the_older_files_as_they_were(results, tmp_path, monkeypatch):
    summary, junit = tmp_path / "summary.md", tmp_path / "gates.xml"
    summary.write_text("before\n")
    junit.write_text("<?xml older")
    command = [results / "old", results / "new", "--fail-on", "btb.mean_ttft_s > +5%"]

    def fill_the_disk(path, text, **options):
        with path.open("w") as stream:
            stream.write(text[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    ended = run(*command, "--junit", junit)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"cannot write {junit}: No space left" in ended.stderr.replace("\n", " ")
    assert junit.read_text() == "<?xml older"
    monkeypatch.undo()
    ordinary = Path.open

    def fill_it_again(path, mode="r", **options):
        stream = ordinary(path, mode, **options)
        if mode == "a":
            stream.write("half")
            stream.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return stream

    monkeypatch.setattr(Path, "open", fill_it_again)
    ended = run(*command, "--github-summary", GITHUB_STEP_SUMMARY=str(summary))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert summary.read_text() == "before\n"


def test_no_file_of_another_kind_is_replaced_by_junit_and_no_result_takes_charts(results, tmp_path):
    gate = [results / "old", results / "new", "--fail-on", "btb.mean_ttft_s > +500%"]
    summary = (results / "old" / "summary.json").read_bytes()
    ended = run(*gate, "--junit", results / "old" / "summary.json")
    assert (ended.exit_code, ended.stdout) == (2, "") and "is no XML, and not replaced" in " ".join(
        ended.stderr.split()
    )
    assert (results / "old" / "summary.json").read_bytes() == summary
    for _ in range(2):
        assert run(*gate, "--junit", tmp_path / "gates.xml").exit_code == 0
    ended = run(*gate, "--out", results / "new", "--force")
    assert ended.exit_code == 2 and "holds a result" in ended.stderr


def test_requests_that_were_turned_away_are_no_gain(results, tmp_path):
    """Of two results that turned different numbers away, times are of other requests; a gate on them is refused."""
    less = tmp_path / "less"
    shutil.copytree(results / "new", less)
    summary = json.loads((less / "summary.json").read_text())
    for row in summary["rows"]:
        row["rejected"] = 7 if row["policy"] == "btb" else 0
    (less / "summary.json").write_text(json.dumps(summary))
    (less / "requests.parquet").unlink(missing_ok=True)
    told = " ".join(run(results / "old", less).stdout.split())
    assert "of other requests" in told and "B: btb turned away 7 of" in told and "its numbers are of the rest" in told
    gate = ["--fail-on", "btb.mean_ttft_s > +500%"]
    ended = run(results / "old", less, *gate)
    assert ended.exit_code == 2
    assert "turned away 7 requests" in " ".join(ended.stderr.split()) and "'btb.rejected > 0'" in ended.stderr
    assert run(results / "old", less, *gate, "--fail-on", "btb.rejected > 10").exit_code == 0


def test_gates_of_several_results_are_told_apart(results, tmp_path):
    gate, junit = ("--fail-on", "btb.mean_ttft_s < -5%"), tmp_path / "gates.xml"
    write(tmp_path / "newer", {"cache_aware": 1.0, "btb": 0.25})
    new, newer = str(results / "new"), str(tmp_path / "newer" / "summary.json")
    ended = run(results / "old", new, newer, *gate, "--junit", junit)
    (suite,) = ElementTree.parse(junit).getroot()
    assert [case.get("classname") for case in suite] == [f"{new}.70b_h100x4.all", f"{tmp_path}/newer.70b_h100x4.all"]
    told = ended.stderr.replace("\n", " ")
    assert f"70b_h100x4 of {new} went" in told and f"70b_h100x4 of {tmp_path}/newer went" in told
    rows = json.loads(run(results / "old", new, newer, *gate, "--format", "json").stdout)["gates"]
    assert [row["result"] for row in rows] == [new, f"{tmp_path}/newer"]


def test_shares_change_by_points_in_tables_and_gates(results, tmp_path):
    share = {"hit_rate": 0.25}, {"hit_rate": 0.3}
    for name, values in zip("ab", share, strict=True):
        file = write(tmp_path / name, {"cache_aware": 1.0}) / "summary.json"
        told = json.loads(file.read_text())
        told["rows"] = [row | values for row in told["rows"]]
        file.write_text(json.dumps(told))
    command = (tmp_path / "a", tmp_path / "b", "-m", "hit_rate", "--fail-on", "cache_aware.hit_rate > +4 points")
    ended = run(*command, "--format", "markdown")
    assert ended.exit_code == 1 and "0.25 to 0.3, +5.0 points" in ended.stderr.replace("\n", " ")
    assert "| cache_aware | 25.0% | 30.0% | +5.0 points | – | – | 5.0 points higher |" in ended.stdout
    assert "| 70b_h100x4 | 25.0% | 30.0% | +5.0 points | FAILED |" in ended.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.99999, "+1.0%"),
        (0.994, "+0.99%"),
        (0.2, "+0.20%"),
        (-0.0512, "-0.051%"),
        (99.94, "+99.9%"),
        (99.96, "+100%"),
        (3e-14, "+3e-14%"),
        (float("-inf"), "-∞"),
    ],
)
def test_changes_are_written_in_one_style(value, text):
    assert numbers.change(value) == text


def test_markdown_takes_no_name_for_maths(results, tmp_path):
    text = run(results / "old", write(tmp_path / "$x$", {"btb": 0.5}), "--format", "markdown").stdout
    assert "/<span>$</span>x<span>$</span> (" in text


def test_differences_have_a_sign(results):
    text = run(results / "new", results / "old", "--format", "markdown").stdout
    assert re.search(r"\| \+\d+ ms \| 1\.\d+ \| .* higher \(1\.\d\dx\) \|", text)


def test_the_words_fit_80_columns_beside_the_interval(results):
    text = run(results / "old", results / "new", "--part", "all").stdout
    assert re.search(r"^  btb .*% +\d\d\.\d% lower \(1\.\d\dx\)$", text, re.MULTILINE)


def test_junit_may_go_to_a_pipe(results, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    ended = run(results / "old", results / "new", "--fail-on", "btb.p95_ttft_s > 99", "--junit", tmp_path / "pipe")
    assert ended.exit_code == 0
    assert os.read(reader, 1 << 16).endswith(b"</testsuites>\n")
    os.close(reader)


def test_charts_that_are_there_are_replaced_with_force_alone(results, tmp_path):
    command = [results / "old", results / "new", "-m", "hit_rate", "--part", "all", "--out", tmp_path]
    (tmp_path / "hit_rate.png").write_text("mine")
    ended = run(*command)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "hit_rate.png exists already" in ended.stderr.replace("\n", "")
    assert (tmp_path / "hit_rate.png").read_text() == "mine"
    assert run(*command, "--force").exit_code == 0
    assert (tmp_path / "hit_rate.png").read_bytes().startswith(b"\x89PNG")


def test_a_full_disk_leaves_no_part_of_the_charts(results, tmp_path, monkeypatch):
    save = Figure.savefig

    def save_all_but_one(figure, path, **options):
        if path.name == "p95_ttft_s-art.png":
            raise OSError(errno.ENOSPC, "No space left on device")
        save(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", save_all_but_one)
    ended = run(results / "old", results / "new", "--out", tmp_path / "new")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Error: cannot write {tmp_path}/new") and "No space left" in ended.stderr
    assert ".btbench-" not in ended.stderr
    assert not (tmp_path / "new").exists()


def test_gates_left_out_of_csv_are_told_on_stderr(results):
    command = (results / "old", results / "new", "--format", "csv")
    gate = ("--fail-on", "btb.p95_ttft_s > 99")
    assert "CSV holds no gates" in run(*command, *gate).stderr
    assert run(*command).stderr == run(*command, *gate, "--quiet").stderr == ""


def test_json_and_csv_hold_every_change(results):
    told = json.loads(run(results / "old", results / "new", results / "other_draws", "--format", "json").stdout)
    assert [len(c["rows"]) for c in told["comparisons"]] == [12, 12]
    row = told["comparisons"][0]["rows"][6]
    assert (row["policy"], row["part"], row["metric"], row["paired"]) == ("btb", "all", "mean_ttft_s", True)
    assert row["low"] < row["difference"] < row["high"]
    lines = list(csv.DictReader(io.StringIO(run(results / "old", results / "new", "--format", "csv").stdout)))
    assert len(lines) == 12
    assert float(lines[6]["ratio"]) == row["ratio"]


def test_markdown_has_a_table_for_each_metric_and_part(results):
    text = run(results / "old", results / "new", "-m", "hit_rate", "-m", "copied_bytes", "--format", "markdown").stdout
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## Comparison of {metric}, {part}"
        for part in ("all requests", "art", "synthetic")
        for metric in ("hit rate", "copied bytes")
    ]
    assert text.endswith(
        '- The scenarios differ in:\n  - name: "old" against "new"\n  - policy.btb.copies: 4 against 3\n'
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("old",),
        ("old", "nowhere"),
        ("old", "other_trace"),
        ("old", "new", "--fail-on", "btb.mean_ttft_s > 5%"),
        ("old", "new", "--github-summary"),
    ],
)
def test_bad_input_ends_with_2_and_prints_nothing(results, arguments):
    paths = [argument if argument.startswith(("-", "btb.")) else results / argument for argument in arguments]
    ended = run(*paths, GITHUB_STEP_SUMMARY="")
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("Error: ")


def test_help_needs_no_data_frames():
    code = "import sys, btbench.cli.compare; sys.exit('polars' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0
