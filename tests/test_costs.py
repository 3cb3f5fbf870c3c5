"""What KV costs to compute and to move: the published values, the laws they follow, the command, and its charts."""

import csv
import errno
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from typer.testing import CliRunner

from btbench.charts.costs import _spread
from btbench.cli.app import app
from btbench.cluster.costs import TIERS, KvCosts
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica

# JW Labs, Biting the Bullet (22 July 2026): llama-3.3-70b on 4 × h100, in ms
PUBLISHED_MS = {
    500: (35.69261880687563, 23.405714285714286, 0.8191999999999999, 0.7447272727272728, 0.01222686567164179),
    1000: (71.38523761375126, 46.81142857142857, 1.6383999999999999, 1.4894545454545456, 0.02445373134328358),
    2000: (142.77047522750252, 93.62285714285714, 3.2767999999999997, 2.978909090909091, 0.04890746268656716),
    8000: (571.0819009100101, 374.49142857142857, 13.107199999999999, 11.915636363636365, 0.19562985074626865),
    16000: (1142.1638018200201, 748.9828571428571, 26.214399999999998, 23.83127272727273, 0.3912597014925373),
    32000: (2284.3276036400403, 1497.9657142857143, 52.428799999999995, 47.66254545454546, 0.7825194029850746),
}
PUBLISHED_RATIOS = {
    "hbm": 2919.196118238119,
    "ram": 47.927100448685536,
    "rdma": 43.57009131698685,
    "disk": 1.52495319609454,
}
PAPER = KvCosts(MODELS["llama-3.3-70b"], Replica("4 × h100", GPUS["h100"], 4))

any_costs = st.builds(
    lambda model, gpu, gpus, mfu: KvCosts(model, Replica("r", gpu, gpus), mfu),
    st.sampled_from(list(MODELS.values())),
    st.sampled_from(list(GPUS.values())),
    st.integers(1, 16),
    st.floats(0.05, 1),
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*args: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, ["costs", *args])
        assert result.exit_code == status, result.output
        return result.stdout if status == 0 else result.stderr

    return invoke


@pytest.mark.parametrize("tokens", PUBLISHED_MS)
def test_the_published_times(tokens: int) -> None:
    here = [PAPER.prefill_s(tokens), *(PAPER.move_s(tier, tokens) for tier in TIERS)]
    assert [s * 1e3 for s in here] == pytest.approx(PUBLISHED_MS[tokens], rel=1e-12)


def test_the_published_ratios_and_bytes() -> None:
    assert {tier: PAPER.prefill_over_move(tier) for tier in TIERS} == pytest.approx(PUBLISHED_RATIOS, rel=1e-12)
    assert PAPER.model.kv_bytes_per_token == 327_680
    assert PAPER.prefill_s(1) * 1e6 == pytest.approx(71.38523761375126, rel=1e-12)


@given(any_costs, st.sampled_from(TIERS), st.integers(1, 10**6))
def test_a_copy_has_paid_with_the_reuse_named_and_not_before(costs: KvCosts, tier: str, tokens: int) -> None:
    reuses, move_s, prefill_s = costs.break_even_reuses(tier), costs.move_s(tier, tokens), costs.prefill_s(tokens)
    assert reuses * prefill_s >= move_s * (1 - 1e-9)
    assert reuses == 1 or (reuses - 1) * prefill_s < move_s * (1 + 1e-9)
    assert costs.mean_reuses(tier) * prefill_s == pytest.approx(move_s)


@given(any_costs, st.integers(1, 10**6))
def test_at_the_break_even_bandwidth_moving_takes_as_long_as_prefill(costs: KvCosts, tokens: int) -> None:
    move_s = costs.model.kv_bytes_per_token * tokens / costs.break_even_bytes_per_s
    assert move_s == pytest.approx(costs.prefill_s(tokens))
    for tier in TIERS:
        faster = costs.bandwidth_bytes_per_s(tier) >= costs.break_even_bytes_per_s
        assert faster == (costs.break_even_reuses(tier) == 1) or costs.mean_reuses(tier) == pytest.approx(1)


def test_nvme_is_one_pool_and_the_rest_grows_with_the_gpus() -> None:
    one, eight = (KvCosts(PAPER.model, Replica("r", GPUS["h100"], n)) for n in (1, 8))
    assert eight.bandwidth_bytes_per_s("disk") == one.bandwidth_bytes_per_s("disk")
    assert all(eight.bandwidth_bytes_per_s(tier) == 8 * one.bandwidth_bytes_per_s(tier) for tier in TIERS[1:])
    assert eight.prefill_s(100) == pytest.approx(one.prefill_s(100) / 8)


def test_the_table_prints_the_published_digits(run) -> None:
    table = run()
    for line in (
        "500 tokens        35.7 23.4 0.819 0.745 0.0122",
        "8,000 tokens      571.1 374.5 13.1 11.9 0.196",
        "32,000 tokens     2,284.3 1,498.0 52.4 47.7 0.783",
        "NVMe              7.00 GB/s 1.52x 1 0.66",
        "RDMA              200 GB/s 43.6x 1 0.023",
    ):
        assert re.search(r"\s+".join(map(re.escape, line.split())), table), line
    assert "4.59 GB/s" in table and "328 kB" in table
    assert max(map(len, table.splitlines())) <= 80
    assert "| llama-3.3-70b on 4 × h100 | 8,000 tokens | 571.1 | 374.5 | 13.1 | 11.9 | 0.196 |" in run(
        "--format", "markdown"
    )


def test_json_and_csv_hold_everything_in_full(run) -> None:
    told = json.loads(run("--tokens", "8000", "--format", "json"))
    assert told["times"] == [
        {"tokens": 8000}
        | dict(zip(("prefill_s", *(f"{tier}_s" for tier in TIERS)), _seconds(PAPER, 8000), strict=True))
    ]
    assert told["setup"][0]["break_even_bytes_per_s"] == PAPER.break_even_bytes_per_s
    assert [row["tier"] for row in told["tiers"]] == list(TIERS)
    rows = list(csv.DictReader(io.StringIO(run("--tokens", "8000", "--format", "csv"))))
    times = {row["way"]: float(row["value"]) for row in rows if (row["metric"], row["tokens"]) == ("time_s", "8000")}
    assert times == dict(zip(("prefill", *TIERS), _seconds(PAPER, 8000), strict=True))
    of_setup = {row["metric"]: float(row["value"]) for row in rows if not row["way"]}
    assert of_setup["break_even_bytes_per_s"] == PAPER.break_even_bytes_per_s
    assert {(row["model"], row["gpu"], row["gpus"]) for row in rows} == {("llama-3.3-70b", "h100", "4")}
    assert len(rows) == 5 + 4 * 4 + 3 and all(None not in row and None not in row.values() for row in rows)


def _seconds(costs: KvCosts, tokens: int) -> list[float]:
    return [costs.prefill_s(tokens), *(costs.move_s(tier, tokens) for tier in TIERS)]


def test_a_slow_disk_needs_more_than_one_reuse(run) -> None:
    told = json.loads(run("--model", "qwen3-8b", "--gpus", "8", "--format", "json"))
    assert {row["tier"]: row["break_even_reuses"] for row in told["tiers"]} == {
        "disk": 6,
        "rdma": 1,
        "ram": 1,
        "hbm": 1,
    }


def test_models_and_gpus_of_a_scenario_can_be_named(run, tmp_path: Path) -> None:
    scenario = tmp_path / "own.toml"
    scenario.write_text(
        'policies = ["btb"]\n[trace]\nsource = "generated"\n[engine]\nmfu = 0.25\n'
        '[[setup]]\nname = "s"\nmodel = "tiny"\ngpu = "card"\ngpus_per_replica = 2\nreplicas = 1\n'
        "[models.tiny]\nparams = 1e9\nactive_params = 1e9\ndtype_bytes = 2.0\n"
        "layers = 10\nkv_heads = 4\nhead_dim = 64\n"
        "[gpus.card]\nflops = 1e14\nhbm_bytes_per_s = 1e12\nhbm_bytes = 2e10\npcie_bytes_per_s = 2e10\n"
        "rdma_bytes_per_s = 1e10\ndisk_bytes_per_s = 3e9\n"
    )
    own = ("--scenario", str(scenario), "--model", "tiny", "--gpu", "card", "--gpus", "2", "--format", "json")
    (row,) = json.loads(run(*own, "--tokens", "1000"))["times"]
    assert row["prefill_s"] == pytest.approx(2e9 * 1000 / (2e14 * 0.25))
    assert row["rdma_s"] == pytest.approx(2 * 10 * 4 * 64 * 2 * 1000 / 2e10)
    (row,) = json.loads(run(*own, "--tokens", "1000", "--mfu", "0.5"))["times"]
    assert row["prefill_s"] == pytest.approx(2e9 * 1000 / (2e14 * 0.5))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--model", "llama"), "llama-3.3-70b"),
        (("--gpu", "h1000"), "Did you mean 'h100'?"),
        (("--tokens", "500,x"), "whole numbers"),
        (("--tokens", "0"), "whole numbers"),
        (("--mfu", "1.5"), "at most 1"),
        (("--mfu", "1e-300"), "at least 1e-06"),
        (("--charts", "svg"), "--out"),
        (("--mfu", "nan"), "at most 1"),
        (("--gpus", "0"), "--gpus"),
        (("--scenario", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(run, args: tuple[str, ...], said: str) -> None:
    assert said in run(*args, status=2)


def test_what_does_not_fit_is_noted_and_the_times_are_told() -> None:
    big = CliRunner().invoke(app, ["costs", "--model", "dense-1t"])
    assert big.exit_code == 0 and "do not fit 4 × h100, 680.0 GB short" in big.stderr
    long = CliRunner().invoke(app, ["costs", "--tokens", "1000000"])
    assert "room for 545,654 tokens only" in long.stderr
    assert not CliRunner().invoke(app, ["costs", "--tokens", "1000000", "-q"]).stderr


def test_charts_are_written_on_request(run, tmp_path: Path) -> None:
    run("--out", str(tmp_path / "new"), "--charts", "svg", "--theme", "dark")
    drawn = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert drawn == [f"{stem}-dark.{kind}" for stem in ("costs", "costs_bars") for kind in ("png", "svg")]


def test_a_wrong_format_of_charts_is_told_before_the_table(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["costs", "--out", str(tmp_path / "new"), "--charts", "gif"])
    assert (ended.exit_code, ended.stdout) == (2, "") and "'gif'" in ended.stderr
    assert not (tmp_path / "new").exists()


def test_files_that_are_there_are_replaced_with_force_alone(tmp_path: Path) -> None:
    mine = tmp_path / "costs.png"
    mine.write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    ended = CliRunner().invoke(app, ["costs", "--out", str(tmp_path)])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "costs.png exists already" in ended.stderr.replace("\n", "") and "--force" in ended.stderr
    assert mine.read_text() == "mine" and not (tmp_path / "costs_bars.png").exists()
    assert CliRunner().invoke(app, ["costs", "--out", str(tmp_path), "--force"]).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["costs.png", "costs_bars.png", "notes.txt"]
    assert mine.read_bytes().startswith(b"\x89PNG") and (tmp_path / "notes.txt").read_text() == "mine"


def test_a_full_disk_leaves_no_charts_and_names_the_folder_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Figure.savefig

    def save_the_first(figure: Figure, path: Path, **options: Any) -> None:
        if path.name == "costs_bars.png":
            raise OSError(errno.ENOSPC, "No space left on device")
        save(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", save_the_first)
    ended = CliRunner().invoke(app, ["costs", "--out", str(tmp_path / "new")])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Error: cannot write {tmp_path}/new") and "No space left" in ended.stderr
    assert ".btbench-" not in ended.stderr
    assert not (tmp_path / "new").exists()


def test_one_token_is_one(run) -> None:
    assert re.search(r"^ +1 token ", run("--tokens", "1"), re.MULTILINE)


def test_names_at_the_end_of_lines_keep_apart() -> None:
    spread = _spread({"a": 0.50, "b": 0.49, "c": 0.48, "d": 0.1}, 0.05)
    assert spread == pytest.approx({"a": 0.50, "b": 0.45, "c": 0.40, "d": 0.1})
