"""Scenario files: what they resolve to, and what is said about a wrong one."""

import os
import tomllib
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS, Model
from btbench.cluster.setup import Replica, ServingOptions
from btbench.errors import ScenarioError, UsageError
from btbench.policies.parameters import SmgParameters
from btbench.scenario import Overrides, PublishedRow, load_scenario, scenario_files
from btbench.scenario.lines import key_lines
from btbench.scenario.toml import format_document

BASE = """\
name = "base"
seed = 7
policies = ["btb", "cache_aware"]
baseline = "cache_aware"

[trace]
source = "trace.jsonl"
block_tokens = 16

[policy.btb]
threshold = 3
prefix_blocks = 4

[policy.cache_aware]
balance_abs_threshold = 6

[[setup]]
name = "two"
model = "toy"
gpu = "h100"
gpus_per_replica = 2
replicas = 2

[[setup]]
name = "mixed"
model = "qwen3-8b"
cluster = [
  { name = "a", gpu = "a100", gpus = 1 },
  { name = "b", gpu = "mine", gpus = 3 },
]

[models.toy]
params = 1e9
active_params = 1_000_000_000
dtype_bytes = 2
layers = 16
kv_heads = 8
head_dim = 64

[gpus.mine]
flops = 1e14
hbm_bytes_per_s = 1e12
hbm_bytes = 6e9
pcie_bytes_per_s = 2e10
rdma_bytes_per_s = 1e10
disk_bytes_per_s = 2e9
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def changed(old: str, new: str) -> str:
    assert BASE.count(old) >= 1, old
    return BASE.replace(old, new, 1)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(folder, text))
    return str(caught.value).replace(str(folder), "")


def test_resolves_names_defaults_and_numbers(tmp_path: Path) -> None:
    scenario = load_scenario(write(tmp_path, BASE))
    assert (scenario.name, scenario.seed, scenario.baseline) == ("base", 7, "cache_aware")
    assert scenario.options == ServingOptions()
    two, mixed = scenario.setups
    assert two.model == Model("toy", 1e9, 1e9, 2.0, 16, 8, 64)
    assert isinstance(two.model.active_params, float)
    assert two.replicas == (Replica("node0", GPUS["h100"], 2), Replica("node1", GPUS["h100"], 2))
    assert mixed.model == MODELS["qwen3-8b"]
    assert [(r.name, r.gpu.name, r.gpus) for r in mixed.replicas] == [("a", "a100", 1), ("b", "mine", 3)]
    assert scenario.folder == tmp_path


def test_btb_falls_back_with_the_thresholds_of_cache_aware(tmp_path: Path) -> None:
    btb, cache_aware = load_scenario(write(tmp_path, BASE)).policies
    assert (btb.kind, btb.parameters.btb.threshold, btb.parameters.btb.prefix_blocks) == ("btb", 3, 4)
    assert btb.parameters.cache_aware == cache_aware.parameters.cache_aware
    assert cache_aware.parameters.cache_aware.balance_abs_threshold == 6.0
    assert isinstance(cache_aware.parameters.cache_aware.balance_abs_threshold, float)
    assert cache_aware.parameters.btb.threshold == 2  # not cache_aware's to read, so not the scenario's 3


def test_a_variant_starts_from_its_base(tmp_path: Path) -> None:
    text = changed('"btb", "cache_aware"]', '"wide", "cache_aware"]') + '[policy.wide]\nbase = "btb"\ncopies = 8\n'
    wide, _ = load_scenario(write(tmp_path, text)).policies
    assert (wide.name, wide.kind, wide.parameters.btb.copies, wide.parameters.btb.threshold) == ("wide", "btb", 8, 3)


def test_btb_can_fall_back_on_another_policy(tmp_path: Path) -> None:
    text = changed("threshold = 3", 'fallback = "round_robin"')
    scenario = load_scenario(write(tmp_path, text))
    assert scenario.policies[0].parameters.btb.fallback == "round_robin"
    assert load_scenario(write(tmp_path, scenario.to_toml())) == scenario


def test_a_policy_of_the_users_own_is_written_so_that_it_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def route(self, request, cluster): ...\n")
    text = changed('"btb", "cache_aware"]', '"mine.py:Mine", "cache_aware"]').replace(
        'line = "cache_aware"', 'line = "Mine"'
    )
    scenario = load_scenario(write(tmp_path, text))
    assert (scenario.policies[0].name, scenario.baseline) == ("Mine", "Mine")
    elsewhere = tmp_path / "results"
    elsewhere.mkdir()
    again = load_scenario(write(elsewhere, scenario.to_toml()))
    assert [policy.spec for policy in again.policies] == [f"{tmp_path / 'mine.py'}:Mine", ""]


@pytest.mark.parametrize(("tokens", "blocks"), [(64, 4), (65, 5), (1, 1)])
def test_prefix_tokens_are_rounded_up_to_blocks(tmp_path: Path, tokens: int, blocks: int) -> None:
    text = changed("prefix_blocks = 4", f"prefix_tokens = {tokens}")
    btb = load_scenario(write(tmp_path, text)).policies[0]
    assert btb.for_blocks(16).parameters.btb.prefix_blocks == blocks


def test_a_variant_may_say_the_prefix_the_other_way(tmp_path: Path) -> None:
    variants = '[policy.t]\nbase = "btb"\nprefix_tokens = 320\n[policy.u]\nbase = "t"\n'
    assert "policy.u.base = 't': no such policy" in complaint(tmp_path, BASE + variants)
    text = changed('"btb", "cache_aware"]', '"t", "cache_aware"]') + variants.split("[policy.u]")[0]
    assert load_scenario(write(tmp_path, text)).policies[0].for_blocks(16).parameters.btb.prefix_blocks == 20


VARIANTS = """
[policy.smg]
cache_threshold = 0.2
balance_rel_threshold = 2.0
[policy.smg-tight]
base = "smg"
balance_abs_threshold = 8.0
[policy.on-tight]
base = "btb"
fallback = "smg-tight"
copies = 2
[policy.on-smg]
base = "btb"
fallback = "smg"
[policy.in-turn]
base = "round_robin"
[policy.on-turn]
base = "btb"
fallback = "in-turn"
[policy.slow]
base = "mooncake"
ttft_slo_s = 9.0
[policy.on-slow]
base = "btb"
fallback = "slow"
[policy.on-mooncake]
base = "btb"
fallback = "mooncake"
"""


def test_btb_can_fall_back_on_a_variant(tmp_path: Path) -> None:
    text = changed('"btb", "cache_aware"]', '"on-tight", "on-turn", "cache_aware"]') + VARIANTS
    on_tight, on_turn, _ = load_scenario(write(tmp_path, text)).policies
    assert (on_tight.kind, on_tight.parameters.btb.fallback, on_tight.parameters.btb.threshold) == ("btb", "smg", 3)
    assert [kind.name for kind in on_tight.kinds()] == ["btb", "smg"]
    assert on_tight.parameters.smg == SmgParameters(0.2, 8.0, 2.0)
    assert on_turn.parameters.btb.fallback == "round_robin"
    assert on_tight.kernel_parameters().smg.balance_abs_threshold == 8.0


OTHERS = ("smg", "smg-tight", "on-tight", "on-smg", "on-turn", "slow", "on-slow", "on-mooncake", "mooncake", "btb")


@pytest.mark.parametrize("names", [*combinations(OTHERS, 2), OTHERS])
def test_fallbacks_are_written_so_that_they_load_to_the_same(tmp_path: Path, names: tuple[str, ...]) -> None:
    listed = ", ".join(f'"{name}"' for name in (*names, "cache_aware"))
    scenario = load_scenario(write(tmp_path, changed('"btb", "cache_aware"', listed) + VARIANTS))
    again = load_scenario(write(tmp_path, scenario.to_toml()))
    assert again == scenario
    assert [policy.name for policy in again.policies] == [*names, "cache_aware"]


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        ("smg-tigt", "Did you mean 'smg-tight'? Allowed: least_load, "),
        ("on-smg", "Allowed: least_load, "),
        ("mine.py:Mine", "A policy of your own cannot be a fallback. Allowed: least_load, "),
    ],
)
def test_what_cannot_be_a_fallback_is_said(tmp_path: Path, fallback: str, said: str) -> None:
    told = complaint(tmp_path, changed("threshold = 3", f'fallback = "{fallback}"') + VARIANTS)
    assert f'line 11: policy.btb.fallback = "{fallback}" is not allowed' in told
    assert said in told and "smg-tight" in told.partition("Allowed")[2]
    assert "on-smg" not in told.partition("Allowed")[2]


# What is changed in BASE, and what the message must hold: line, key, value, what is allowed.
MISTAKES = [
    ("seed = 7", "sed = 7", ["line 2", "sed: unknown key", "Did you mean 'seed'?"]),
    ("seed = 7", "seed = -1", ["line 2", "seed = -1", "an integer of at least 0"]),
    ("seed = 7", "seed = 1.0", ["line 2", "seed = 1.0", "an integer of at least 0"]),
    ("seed = 7", "seed = true", ["line 2", "seed = true", "an integer"]),
    ("seed = 7", f"seed = {2**63}", ["line 2", f"seed = {2**63}"]),
    ("seed = 7", "seed = 7 8", ["line 2", "column 10", "not valid TOML"]),
    ('name = "base"', 'name = "../up"', ["line 1", 'name = "../up"', "without /"]),
    ('name = "base"', 'name = ""', ["line 1", 'name = ""']),
    ('["btb", "cache_aware"]', '["btb", "cash_aware"]', ["line 3", "policies[1] = 'cash_aware'", "'cache_aware'?"]),
    ('["btb", "cache_aware"]', "[]", ["line 3", "policies = []", "a list, not empty"]),
    ('["btb", "cache_aware"]', '["btb", 3]', ["line 3", "policies[1] = 3", "text"]),
    ('["btb", "cache_aware"]', '["cache_aware", "btb", "btb"]', ["line 3", "policies[2]", "'btb' stands here twice"]),
    ('baseline = "cache_aware"', 'baseline = "random"', ["line 4", "baseline = 'random'", "btb, cache_aware"]),
    ('source = "trace.jsonl"\n', "", ["line 6", "trace.source is missing", "text"]),
    ("block_tokens = 16", "block_tokens = 0", ["line 8", "trace.block_tokens = 0", "an integer from 1"]),
    (
        "block_tokens = 16",
        "arrival_scale = inf",
        ["line 8", "trace.arrival_scale = inf", "a number from 1e-09 to 1e+24"],
    ),
    (
        "block_tokens = 16",
        "arrival_scale = nan",
        ["line 8", "trace.arrival_scale = nan", "a number from 1e-09 to 1e+24"],
    ),
    ("block_tokens = 16", "[trace.windows]\nstart = -1", ["line 9", "start = -1", "at least 0 or 'random'"]),
    ("block_tokens = 16", "[trace.windows]\nseed = -1", ["line 9", "trace.windows.seed = -1", "at least 0"]),
    ("block_tokens = 16", "[trace.windows]\ncout = 1", ["line 9", "trace.windows.cout", "'count'?"]),
    (
        "block_tokens = 16",
        '[trace.generator]\nsplit = "tset"',
        ["line 9", "split", "Did you mean 'test'? Allowed: all, train, test."],
    ),
    ("threshold = 3", "treshold = 3", ["line 11", "policy.btb.treshold: unknown key", "'threshold'?"]),
    ("threshold = 3", "threshold = 0", ["line 11", "policy.btb.threshold = 0", "an integer of at least 1"]),
    ("threshold = 3", "window_s = nan", ["line 11", "policy.btb.window_s = nan", "a number of at least 0"]),
    ("[[setup]]", "[policy.mooncake]\nttft_slo_s = 0\n[[setup]]", ["policy.mooncake.ttft_slo_s", "a number above 0."]),
    ("threshold = 3", "copies = 1.5", ["line 11", "policy.btb.copies = 1.5", "an integer of at least 1"]),
    ("prefix_blocks = 4", "prefix_blocks = 0", ["line 12", "policy.btb.prefix_blocks = 0", "at least 1"]),
    ("prefix_blocks = 4", "prefix_tokens = 0", ["line 12", "policy.btb.prefix_tokens = 0", "from 1 to"]),
    ("threshold = 3", "prefix_tokens = 9", ["line 11", "given twice", "one of prefix_blocks and prefix_tokens"]),
    ("[policy.btb]", "[policy.bbt]", ["line 10", "policy.bbt: no such policy", "'btb'?"]),
    ("[[setup]]", '[policy.floor]\nbase = "btb"\n[[setup]]', ["line 17", "policy.floor: is the name of a bound"]),
    ("[[setup]]", '[policy.""]\nbase = "btb"\n[[setup]]', ["line 17", 'policy."" is no name', "a name of one line"]),
    ("[[setup]]", '[policy."a\\nb"]\nbase = "btb"\n[[setup]]', ["line 17", 'policy."a\\nb" is no name']),
    ("threshold = 3", 'fallback = "last_load"', ["line 11", "policy.btb.fallback", "Did you mean 'least_load'?"]),
    ("threshold = 3", 'fallback = "btb"', ["line 11", 'policy.btb.fallback = "btb" is not allowed']),
    ("threshold = 3", 'base = "btb"', ["line 11", "policy.btb.base", "btb is built in"]),
    ("balance_abs_threshold = 6", "balance = 6", ["line 15", "policy.cache_aware.balance: unknown key"]),
    ('name = "two"', 'name = "mixed"', ["line 25", "setup[1].name", "'mixed' stands here twice"]),
    ('model = "toy"', 'model = "toi"', ["line 19", "setup[0].model = 'toi': no such model", "Did you mean 'toy'?"]),
    ('gpu = "h100"', 'gpu = "h10"', ["line 20", "setup[0].gpu = 'h10': no such GPU", "Did you mean 'h100'?"]),
    ("replicas = 2\n", "replicas = 0\n", ["line 22", "setup[0].replicas = 0", "an integer from 1"]),
    ("replicas = 2\n", "replicas = 1e3\n", ["line 22", "setup[0].replicas = 1000.0", "an integer from 1"]),
    ("replicas = 2\n", "", ["line 17", "setup[0]: needs replicas"]),
    ('gpu = "mine", gpus = 3', 'gpu = "mine"', ["line 29", "setup[1].cluster[1].gpus is missing"]),
    ('gpu = "mine", gpus = 3', 'gpu = "mine", gpus = 0', ["line 29", "setup[1].cluster[1].gpus = 0"]),
    ('{ name = "b"', '{ name = "a"', ["line 29", "setup[1].cluster[1].name", "'a' stands here twice"]),
    ('model = "qwen3-8b"', 'model = "qwen3-8b"\nreplicas = 2', ["line 24", "setup[1]: cluster lists the replicas"]),
    ("params = 1e9", "params = 0", ["line 33", "models.toy.params = 0", "a number from 1e-09 to 1e+24"]),
    ("layers = 16", "layers = 16.0", ["line 36", "models.toy.layers = 16.0", "an integer"]),
    ("[models.toy]", "[models.kimi-k2]", ["models.kimi-k2: this name is built in", "setup[0].model = 'toy'"]),
    ("[gpus.mine]", "[gpus.h200]", ["gpus.h200: this name is built in", "setup[1].cluster[1].gpu = 'mine'"]),
    ("disk_bytes_per_s = 2e9", "disk_bytes_per_s = -2e9", ["line 46", "gpus.mine.disk_bytes_per_s"]),
    ("flops = 1e14", "flops = '1e14'", ["line 41", 'gpus.mine.flops = "1e14"', "a number from 1e-09 to 1e+24"]),
    ("[[setup]]", "[engine]\nmfu = 1.5\n[[setup]]", ["line 18", "engine.mfu = 1.5", "from 1e-06 to 1"]),
    ("[[setup]]", "[engine]\nmax_batch = 0\n[[setup]]", ["line 18", "engine.max_batch = 0"]),
    ("[[setup]]", "[engine]\ndisk_cache = 1\n[[setup]]", ["line 18", "engine.disk_cache = 1", "true or false"]),
    ("[[setup]]", '[engine]\ncopies_wait = "no"\n[[setup]]', ["line 18", 'engine.copies_wait = "no"', "true or false"]),
]


@pytest.mark.parametrize(("old", "new", "fragments"), MISTAKES, ids=[" ".join(m[2][:2]) for m in MISTAKES])
def test_a_mistake_is_named_with_line_key_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, fragments: list[str]
) -> None:
    message = complaint(tmp_path, changed(old, new))
    assert message.startswith("/scenario.toml")
    for fragment in fragments:
        assert fragment in message


def test_every_mistake_is_told_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    message = complaint(tmp_path, changed("seed = 7", "seed = -7").replace("threshold = 3", "treshold = 3"))
    first, *rest = message.splitlines()
    assert first.endswith("2 mistakes")
    assert [line.split(":")[0] for line in rest] == ["line 2", "line 11"]


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        ('setup = "tow"\npolicy = "btb"\nmean_ttft_s = 1', "published[0].setup = 'tow': no such setup"),
        ('setup = "two"\npolicy = "random"\nmean_ttft_s = 1', "published[0].policy = 'random': no such policy"),
        ('setup = "two"\npolicy = "btb"\nmean_ttft_s = -1', "published[0].mean_ttft_s = -1"),
        ('setup = "two"\npolicy = "btb"', "published[0].mean_ttft_s is missing"),
    ],
)
def test_published_values_name_a_setup_and_policy_of_the_scenario(tmp_path: Path, rows: str, fragment: str) -> None:
    message = complaint(tmp_path, f"{BASE}\n[[published]]\n{rows}\n")
    line = 48 + next((k for k, row in enumerate(rows.splitlines(), 1) if row.split()[0] in fragment), 0)
    assert f"line {line}: {fragment}" in message


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (None, "neither a built-in scenario nor a file"),
        (b"", "policies is missing"),
        (b"seed = 1\nname = '\xff'", "line 2: not UTF-8 text"),
        (b"[trace]\nsource = [1,", "line 2: not valid TOML"),
    ],
)
def test_a_file_that_is_no_scenario(tmp_path: Path, content: bytes | None, fragment: str) -> None:
    path = tmp_path / "scenario.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioError, match=fragment):
        load_scenario(path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario(tmp_path)


def test_an_unknown_built_in_name_gets_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="Did you mean 'default'"):
        load_scenario("defalt")


# Built-in scenarios


def test_built_in_scenarios_open_with_their_question() -> None:
    assert {"default", "paper", "quickstart"} <= scenario_files().keys()
    for name, path in scenario_files().items():
        assert path.read_text(encoding="utf-8").splitlines()[0].endswith("?")
        assert load_scenario(name) == load_scenario(path)
        assert load_scenario(name).name == name


@pytest.mark.parametrize("name", ["default", "paper"])
def test_the_papers_setups_and_parameters(name: str) -> None:
    scenario = load_scenario(name)
    assert [(s.name, s.model.name, s.replicas[0].gpu.name, s.replicas[0].gpus) for s in scenario.setups] == [
        ("70b_h100x4", "llama-3.3-70b", "h100", 4),
        ("qwen3_8b_h100x4", "qwen3-8b", "h100", 4),
        ("glm45_h100x4", "glm-4.5", "h100", 4),
        ("glm52_h100x8", "glm-5.2", "h100", 8),
        ("kimi_k2_h100x8", "kimi-k2", "h100", 8),
        ("dense1t_b300x4", "dense-1t", "b300", 4),
    ]
    assert {len(setup.replicas) for setup in scenario.setups} == {4}
    btb = scenario.policies[2].for_blocks(256).parameters.btb
    assert (btb.threshold, btb.prefix_blocks, btb.window_s, btb.copies, scenario.seed) == (2, 256, 1.0, 4, 42)
    assert scenario.published_source and len(scenario.published) == (12 if name == "default" else 24)


# Round trip


@pytest.mark.parametrize("name", sorted(scenario_files()))
def test_a_built_in_scenario_written_and_read_is_the_same(tmp_path: Path, name: str) -> None:
    scenario = load_scenario(name)
    assert load_scenario(write(tmp_path, scenario.to_toml())) == scenario


def test_a_scenario_written_and_read_is_the_same(tmp_path: Path) -> None:
    text = changed('"btb", "cache_aware"]', '"btb", "wide", "least_load", "plain", "cache_aware"]')
    text += '[policy.wide]\nbase = "btb"\nprefix_tokens = 99\n[policy."plain"]\nbase = "random"\n'
    text += '[[published]]\nsetup = "two"\npolicy = "wide"\nmean_ttft_s = 1\np95_ttft_s = 2.5\n'
    scenario = load_scenario(write(tmp_path, text))
    assert scenario.published == (PublishedRow("two", "wide", "all", 1.0, 2.5),)
    again = load_scenario(write(tmp_path, scenario.to_toml()))
    assert again == scenario
    assert again.to_toml() == scenario.to_toml()


def test_a_trace_beside_the_scenario_is_found_from_the_result_too(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").touch()
    result = tmp_path / "results" / "base"
    result.mkdir(parents=True)
    scenario = load_scenario(write(tmp_path, BASE))
    copy = load_scenario(write(result, scenario.to_toml(result)))
    assert os.path.samefile(copy.folder / copy.trace.source, tmp_path / "trace.jsonl")
    assert tomllib.loads(scenario.to_toml(result))["trace"]["source"] == "../../trace.jsonl"


@pytest.mark.skipif("BTBENCH_CONFORMANCE" not in os.environ, reason="BTBENCH_CONFORMANCE names no folder of cases")
def test_the_conformance_cases_load_and_read_back_the_same(tmp_path: Path) -> None:
    cases = sorted(Path(os.environ["BTBENCH_CONFORMANCE"]).glob("*/scenario.toml"))
    assert cases
    for path in cases:
        scenario = load_scenario(path)
        assert load_scenario(write(tmp_path, scenario.to_toml())) == scenario
        assert scenario.name == path.parent.name


# What the command line changes


def test_setups_are_narrowed_and_the_papers_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, BASE)
    assert [s.name for s in load_scenario(path, Overrides(setups=("mixed",))).setups] == ["mixed"]
    paper = load_scenario(path, Overrides(setups=("70b_h100x4", "two"))).setups
    assert [setup.name for setup in paper] == ["70b_h100x4", "two"]
    assert paper[0] == load_scenario("paper").setups[0]
    with pytest.raises(UsageError, match="--setup tow: no such setup\nDid you mean 'two'"):
        load_scenario(path, Overrides(setups=("tow",)))


def test_policies_are_narrowed_and_built_in_ones_added(tmp_path: Path) -> None:
    path = write(tmp_path, BASE)
    scenario = load_scenario(path, Overrides(policies=("cache_aware", "round_robin")))
    assert [policy.name for policy in scenario.policies] == ["cache_aware", "round_robin"]
    assert (scenario.baseline, scenario.notes) == ("cache_aware", ())
    other = load_scenario(path, Overrides(policies=("random", "btb")))
    assert other.baseline == "random" and "against random" in other.notes[0]
    assert other.policies[1].parameters.btb.threshold == 3
    with pytest.raises(UsageError, match="--policy rnd"):
        load_scenario(path, Overrides(policies=("rnd",)))


def test_options_say_how_a_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, BASE)
    trace = load_scenario(path, Overrides(reading={"tie": "spread", "block_tokens": 32})).trace
    assert (trace.source, trace.tie, trace.block_tokens) == ("trace.jsonl", "spread", 32)
    with pytest.raises(UsageError, match="tie: says how a file is read, but default generates its trace"):
        load_scenario("default", Overrides(reading={"tie": "spread"}))


def test_published_values_follow_what_is_left() -> None:
    scenario = load_scenario("default", Overrides(setups=("glm45_h100x4",), policies=("btb",)))
    assert [(row.setup, row.policy) for row in scenario.published] == [("glm45_h100x4", "btb")]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("some/where/conversation_trace.jsonl.gz", "conversation_trace"),
        ("bursted-art:test", "bursted-art-test"),
        ("hf:owner/repo@main/data", "owner-repo-main-data"),
        ("-", "stdin"),
        ("...", "trace"),
    ],
)
def test_another_trace_makes_another_question(source: str, name: str) -> None:
    scenario = load_scenario("default", Overrides(trace=source, seed=5))
    assert (scenario.name, scenario.trace.source, scenario.seed) == (name, source, 5)
    assert scenario.trace.generator is None and scenario.published == ()
    assert scenario.folder == Path()


# TOML


def test_lines_of_keys() -> None:
    text = '''a = 1 # = b
"q.r" = """
x = 3
""" # "
c.d = [
  1, [2,
  3], { k = "]", l.m = 'x' },
]
[[s]]
n = "[s]"
[s.t]
u = 2024-01-01T00:00:00Z
[[s]]
[s.t]
u = {}
'''
    lines = key_lines(text)
    expected = {
        ("a",): 1,
        ("q.r",): 2,
        ("c",): 5,
        ("c", "d"): 5,
        ("c", "d", 0): 6,
        ("c", "d", 1): 6,
        ("c", "d", 1, 0): 6,
        ("c", "d", 1, 1): 7,
        ("c", "d", 2): 7,
        ("c", "d", 2, "k"): 7,
        ("c", "d", 2, "l"): 7,
        ("c", "d", 2, "l", "m"): 7,
        ("s",): 9,
        ("s", 0): 9,
        ("s", 0, "n"): 10,
        ("s", 0, "t"): 11,
        ("s", 0, "t", "u"): 12,
        ("s", 1): 13,
        ("s", 1, "t"): 14,
        ("s", 1, "t", "u"): 15,
    }
    assert lines == expected
    tomllib.loads(text)


KEYS = st.text(min_size=1, max_size=5)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read_again_and_every_key_has_a_line(document: dict[str, object]) -> None:
    text = format_document(document)
    assert tomllib.loads(text) == document
    lines = key_lines(text)
    for key in document:
        assert 1 <= lines[(key,)] <= text.count("\n")
