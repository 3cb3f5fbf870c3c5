"""`btbench sweep`: keys and values as a scenario takes them, every point what a replay of it says, tables and files."""

import csv
import io
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import btbench.sources
from btbench.cli.app import app
from btbench.errors import BtbenchError, ScenarioError, UsageError
from btbench.scenario import Overrides, load_scenario, load_variants, parse_setting

SCENARIO = """\
name = "small"
policies = ["cache_aware", "btb"]

[trace]
source = "generated"

[trace.generator]
bursts = 2
burst_size = 40
burst_window_s = 2.0
decoys = 3

[policy.btb]
prefix_tokens = 65536

[[setup]]
name = "one"
model = "qwen3-8b"
gpu = "h100"
gpus_per_replica = 1
replicas = 3

[[setup]]
name = "mixed"
model = "qwen3-8b"
cluster = [{ name = "a", gpu = "h100", gpus = 1 }, { name = "b", gpu = "a100", gpus = 1 }]
"""

Sweep = Callable[..., Result]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Runs `btbench sweep small.toml` in a folder that holds it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("small.toml").write_text(SCENARIO)
    return lambda *args: CliRunner().invoke(app, ["sweep", "small.toml", *args])


# Keys and values


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("policy.btb.copies=1,2", ("policy", "btb", "copies"), (1, 2)),
        ("a.b = 0, 0.5", ("a", "b"), (0, 0.5)),
        ("setup.model=qwen3-8b,glm-4.5", ("setup", "model"), ("qwen3-8b", "glm-4.5")),
        ("policy.sglang.version=0.2.2,0.3.2", ("policy", "sglang", "version"), ("0.2.2", "0.3.2")),
        ("engine.disk_cache=true,false", ("engine", "disk_cache"), (True, False)),
        ('policies=["btb"],["btb", "random"]', ("policies",), (["btb"], ["btb", "random"])),
        ('setup."my setup".replicas=4', ("setup", "my setup", "replicas"), (4,)),
        ('x="a,b",c', ("x",), ('"a', 'b"', "c")),
        ("seed=1,1,2", ("seed",), (1, 2)),
    ],
)
def test_settings_are_read_as_toml_whose_words_need_no_quotes(text: str, path: tuple, values: tuple) -> None:
    setting = parse_setting(text)
    assert (setting.path, setting.values) == (path, values)


@pytest.mark.parametrize("text", ["", "seed", "=1", "seed=", "seed=1,,2", "a b=1", "trace={source = 'x'}", "a.=1"])
def test_what_is_no_setting_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_setting(text)


def variants(tmp_path: Path, *texts: str, overrides: Overrides | None = None, scenario: str = SCENARIO) -> list:
    (tmp_path / "small.toml").write_text(scenario)
    return load_variants(tmp_path / "small.toml", [parse_setting(text) for text in texts], overrides or Overrides())


def test_every_combination_is_asked_the_last_key_changing_fastest(tmp_path: Path) -> None:
    found = variants(tmp_path, "seed=1,2", "router.signal_delay_s=0,0.5")
    assert [values for values, _ in found] == [(1, 0), (1, 0.5), (2, 0), (2, 0.5)]
    assert [(s.seed, s.options.signal_delay_s) for _, s in found] == [(1, 0.0), (1, 0.5), (2, 0.0), (2, 0.5)]
    as_file = SCENARIO.replace('name = "small"', 'name = "small"\nseed = 2') + "[router]\nsignal_delay_s = 0.5\n"
    (tmp_path / "same.toml").write_text(as_file)
    assert found[-1][1] == load_scenario(tmp_path / "same.toml")


def test_a_key_of_setups_goes_to_all_or_to_the_one_named(tmp_path: Path) -> None:
    all_of = variants(tmp_path, "setup.model=llama-3.3-70b,glm-4.5")
    assert [[s.model.name for s in scenario.setups] for _, scenario in all_of] == [
        ["llama-3.3-70b"] * 2,
        ["glm-4.5"] * 2,
    ]
    ((_, one), _) = variants(tmp_path, "setup.one.replicas=5,6")
    assert [len(s.replicas) for s in one.setups] == [5, 2]
    ((_, one), _) = variants(tmp_path, "setup.mixed.cluster.b.gpus=8,4")
    assert [r.gpus for s in one.setups for r in s.replicas] == [1, 1, 1, 1, 8]


def test_one_way_to_say_a_prefix_takes_the_place_of_the_other(tmp_path: Path) -> None:
    ((_, scenario), _) = variants(tmp_path, "policy.btb.prefix_blocks=8,16")
    btb = scenario.policies[1]
    assert (btb.prefix_tokens, btb.parameters.btb.prefix_blocks) == (None, 8)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["policy.btb.copis=1,2"], "--set policy.btb.copis=1: policy.btb.copis: unknown key\nDid you mean 'copies'?"),
        (
            ["policy.btb.copies=2,0"],
            "--set policy.btb.copies=0: policy.btb.copies = 0 is not allowed\nAllowed: an integer",
        ),
        (
            ["seed=1", "engine.mfu=2"],
            "--set seed=1 --set engine.mfu=2: engine.mfu = 2 is not allowed\nAllowed: a number",
        ),
        (["engine.mfu=high"], '--set engine.mfu="high": engine.mfu = "high" is not allowed'),
        (["setup.gpu=h10"], '--set setup.gpu="h10": setup[1]: cluster lists the replicas, so gpu cannot be given too'),
        (["polcy.btb.copies=1"], "polcy: unknown key\nDid you mean 'policy'?"),
        (["seed.x=1"], "--set seed.x: seed is no table"),
        (["seed=1,2", "seed=3"], "--set seed: given twice"),
        (["policy.sglang.cache_threshold=0.1,0.2"], "--set policy.sglang.cache_threshold: makes no difference"),
        (["seed=7"], None),  # one value need not make a difference
    ],
)
def test_keys_are_as_strict_as_in_a_file(tmp_path: Path, texts: list[str], said: str | None) -> None:
    seeded = SCENARIO.replace('name = "small"', 'name = "small"\nseed = 7')
    if said is None:
        assert len(variants(tmp_path, *texts, scenario=seeded)) == 1
        return
    with pytest.raises(BtbenchError) as caught:
        variants(tmp_path, *texts, scenario=seeded)
    assert said in str(caught.value)


def test_a_key_that_matters_beside_another_alone_may_be_swept(tmp_path: Path) -> None:
    texts = ["policy.btb.fallback=cache_aware,sglang", "policy.sglang.cache_threshold=0.1,0.9"]
    only_btb = Overrides(policies=("btb",))
    assert len(variants(tmp_path, *texts, overrides=only_btb)) == 4


def test_mistakes_of_the_file_are_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"small\.toml, line 8: trace\.generator\.burst: unknown key"):
        variants(tmp_path, "seed=1,2", scenario=SCENARIO.replace("bursts = 2", "burst = 2"))


# What a sweep says


def rows_of(text: str) -> list[dict]:
    return json.loads(text)["rows"]


def test_intervals_of_a_point_are_over_as_many_seeds_as_asked(sweep: Sweep) -> None:
    ended = sweep(
        "--set", "engine.mfu=0.3,0.5", "-p", "cache_aware", "-p", "random", "--seeds", "5", "--format", "json"
    )
    rows = [row for row in rows_of(ended.stdout) if row["policy"] == "random"]
    assert rows and all(row["mean_reduction_low_pct"] <= row["mean_reduction_high_pct"] for row in rows)


def test_every_point_is_what_a_replay_of_it_says(sweep: Sweep) -> None:
    ended = sweep("--set", "policy.btb.copies=1,2", "--set", "seed=1,2", "--format", "json", "-q")
    assert (ended.exit_code, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told["keys"] == [{"key": "policy.btb.copies", "values": [1, 2]}, {"key": "seed", "values": [1, 2]}]
    assert len(told["rows"]) == 2 * 2 * (2 * 2 * 2)  # points, setups, policies, parts
    Path("point.toml").write_text(SCENARIO.replace("prefix_tokens", "copies = 2\nprefix_tokens"))
    replayed = CliRunner().invoke(app, ["replay", "point.toml", "--seed", "1", "--format", "json", "--no-charts", "-q"])
    here = [row for row in told["rows"] if (row.pop("policy.btb.copies"), row.pop("seed")) == (2, 1)]
    assert here == rows_of(replayed.stdout)


def test_the_table_has_a_line_for_each_point_policy_and_setup_in_80_columns(sweep: Sweep) -> None:
    ended = sweep("--set", "policy.btb.copies=1,2", "--set", "router.signal_delay_s=0,0.5")
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert lines[0] == "Sweep of small over policy.btb.copies and router.signal_delay_s"
    assert max(map(len, lines)) <= 80
    for setup in ("one", "mixed"):
        for policy in ("cache_aware", "btb"):
            start = lines.index(next(line for line in lines if line.split() == [setup, policy]))
            points = [line[2:].split("  ")[0] for line in lines[start + 1 : start + 5]]
            assert points == [f"copies = {m}, signal_delay_s = {d}" for m in (1, 2) for d in (0, 0.5)]
    assert "Reductions and gaps are against cache_aware." in ended.stdout
    assert (
        sweep("--set", "policy.btb.copies=1,2", "--set", "router.signal_delay_s=0,0.5", "-j", "1").stdout
        == ended.stdout
    )


def test_setups_policies_and_metrics_narrow_it(sweep: Sweep) -> None:
    args = ["--set", "policy.btb.window_s=0.1,1", "-s", "one", "-p", "btb", "-m", "hit_rate", "-m", "copies"]
    ended = sweep(*args, "--format", "markdown")
    table = [line for line in ended.stdout.splitlines() if line.startswith("|")]
    assert table[0] == "| policy | point | hit rate | copies |"
    assert [line.split("|")[1:3] for line in table[2:]] == [
        [" btb ", " window_s = 0.1 "],
        [" btb ", " window_s = 1 "],
    ]
    assert "Note: the baseline cache_aware is not among the policies" in ended.stderr
    assert ended.stderr.count("Note: the baseline") == 1


def test_csv_has_the_keys_first(sweep: Sweep) -> None:
    settings = [
        "setup.model=qwen3-8b,glm-4.5", 'policies=["cache_aware"],["cache_aware", "btb"]',
        "setup.one.gpus_per_replica=4", "setup.mixed.cluster.gpus=4",
    ]  # fmt: skip
    ended = sweep(*(word for setting in settings for word in ("--set", setting)), "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(ended.stdout)))
    assert list(lines[0])[:7] == [
        "setup.model", "policies", "setup.one.gpus_per_replica", "setup.mixed.cluster.gpus", "setup", "policy", "part",
    ]  # fmt: skip
    assert list(dict.fromkeys(line["policies"] for line in lines)) == ['["cache_aware"]', '["cache_aware", "btb"]']
    assert [line["setup.model"] for line in lines[:1] + lines[-1:]] == ["qwen3-8b", "glm-4.5"]
    assert "engine_s" not in lines[0]


def test_a_trace_is_opened_once_for_each_trace_table(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    open_trace = btbench.sources.open_trace

    def count(spec, *args, **options):
        opened.append(spec.arrival_scale)
        return open_trace(spec, *args, **options)

    monkeypatch.setattr(btbench.sources, "open_trace", count)
    args = ["--set", "seed=1,2,3", "--set", "trace.arrival_scale=1,2", "--set", "engine.mfu=0.4,0.5", "--format", "csv"]
    ended = sweep(*args)
    assert ended.exit_code == 0, ended.output
    assert opened == [1.0, 2.0]
    lines = list(csv.DictReader(io.StringIO(ended.stdout)))
    points = list(dict.fromkeys((line["seed"], line["trace.arrival_scale"], line["engine.mfu"]) for line in lines))
    assert points == [(s, a, m) for s in "123" for a in "12" for m in ("0.4", "0.5")]  # not in the order replayed


def test_out_holds_json_csv_scenario_and_charts(sweep: Sweep) -> None:
    args = ["--set", "policy.btb.copies=1,2", "-m", "mean_ttft_s", "-m", "mean_reduction_pct"]
    ended = sweep(*args, "-o", "out", "--format", "json", "-j", "2")
    assert ended.stderr.endswith("2 points and 2 charts in out\n")
    files = {
        str(path.relative_to("out")): path.read_bytes() for path in sorted(Path("out").rglob("*")) if path.is_file()
    }
    assert list(files) == [
        "charts/mean_reduction_pct.png", "charts/mean_ttft_s.png", "scenario.toml", "sweep.csv", "sweep.json",
    ]  # fmt: skip
    assert files["sweep.json"].decode() == ended.stdout
    assert files["sweep.csv"].decode() == sweep(*args, "--format", "csv").stdout
    assert load_scenario("out/scenario.toml") == load_scenario("small.toml")
    again = sweep(*args, "-o", "out")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "out holds a result already" in again.stderr
    assert sweep(*args, "-o", "out", "--force", "-j", "1").exit_code == 0
    assert {name: Path("out", name).read_bytes() for name in files} == files
    Path("out/mine.txt").write_text("")
    assert "mine.txt" in sweep(*args, "-o", "out", "--force").stderr


def test_of_three_keys_nothing_is_drawn_and_it_is_said(sweep: Sweep) -> None:
    args = ["--set", "policy.btb.copies=1,2", "--set", "seed=1,2", "--set", "engine.mfu=0.4,0.5", "-s", "one"]
    ended = sweep(*args, "-o", "out")
    assert "Note: charts are drawn of one key or two" in ended.stderr
    assert sorted(path.name for path in Path("out").iterdir()) == ["scenario.toml", "sweep.csv", "sweep.json"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--set"),
        (["--set", "policy.btb.copis=1,2"], "Did you mean 'copies'?"),
        (["--set", "seed=1,2", "-m", "mean_tft_s"], "Did you mean 'mean_ttft_s'?"),
        (["--set", "seed=1,2", "--part", "art"], "--part art: "),
        (["--set", "seed=1,2", "--seed", "3"], "--set seed: makes no difference"),
        (["--set", "setup.model=qwen3-8b,llama-3.3-70b"], "at model = llama-3.3-70b: setup"),
    ],
)
def test_bad_input_is_status_2_and_leaves_nothing(sweep: Sweep, args: list[str], said: str) -> None:
    before = sorted(Path().rglob("*"))
    ended = sweep(*args, "-o", "out")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert said in ended.stderr.replace("\n", " ")
    assert sorted(Path().rglob("*")) == before


def test_the_scenario_of_a_sweep_is_toml(sweep: Sweep) -> None:
    sweep("--set", "seed=1,2", "-o", "deep/out", "-p", "btb")
    assert tomllib.loads(Path("deep/out/scenario.toml").read_text())["policies"] == ["btb"]


def test_a_policy_that_turns_every_request_away_leaves_the_rest_told(sweep: Sweep) -> None:
    """On the first point alone: its row there holds counts, and so does no row of a replay's."""
    never = '[policy.never]\nbase = "mooncake"\n'
    Path("small.toml").write_text(SCENARIO.replace('"btb"]', '"never"]').replace("[policy.btb]", never))
    text = Path("small.toml").read_text().replace("prefix_tokens = 65536\n", "ttft_slo_s = 1e-6\n")
    Path("small.toml").write_text(text)
    ended = sweep("--set", "policy.never.ttft_slo_s=1e-6,1e6", "-s", "one", "--format", "json", "-o", "out")
    assert ended.exit_code == 0, ended.output
    rows = [row for row in rows_of(ended.stdout) if row["policy"] == "never" and row["part"] == "all"]
    assert [row["mean_ttft_s"] is None for row in rows] == [True, False]
    assert rows[0]["requests"] == rows[0]["rejected"] > 0
    replay = ["replay", "small.toml", "-s", "one", "--format", "json", "--no-charts"]
    ended = CliRunner().invoke(app, replay)
    assert ended.exit_code == 0, ended.output
    assert {row["policy"] for row in rows_of(ended.stdout)} == {"cache_aware"}
    assert (
        "never turns away every request on one, so it has no row there." in Path("results/small/table.md").read_text()
    )
    ended = CliRunner().invoke(app, [*replay, "-p", "never", "--force"])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "every request was turned away" in ended.stderr


def test_a_policy_of_the_users_own_is_loaded_once_for_all_points(sweep: Sweep) -> None:
    Path("mine.py").write_text(
        "from btbench.policies.custom import Decision\n"
        "open('loaded', 'a').write('x')\n"
        "class First:\n"
        "    def route(self, request, cluster):\n"
        "        return Decision(0)\n"
    )
    own = ["-p", "mine.py:First", "-s", "one"]
    assert sweep("--set", "engine.mfu=0.3,0.4,0.5", *own, "-o", "out").exit_code == 0
    assert Path("loaded").read_text() == "x"
    ended = sweep("--set", "policy.btb.copies=1,2", *own)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "--set policy.btb.copies: makes no difference" in ended.stderr
