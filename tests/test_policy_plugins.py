"""Policies of one's own from files and entry points, as compiled functions, and on the command line."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import naive
import pytest
import strategies
from hypothesis import given, settings
from numba.core import config as numba_config
from replaying import rows_of_run, rows_of_twin
from strategies import BLOCK_TOKENS, MODEL, few_replicas, trace_of
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import Run, replay
from btbench.errors import PolicyError
from btbench.policies.parameters import BtbParameters
from btbench.policies.plugins import is_plugin, load_plugin
from btbench.policies.registry import Policy

needs_compiling = pytest.mark.skipif(bool(numba_config.DISABLE_JIT), reason="kernels are interpreted")


def serve(policy: Policy, *words: str, replicas: int = 2) -> Run:
    """Replay prompts, a letter a block, a second apart."""
    return serve_rows(policy, [(BLOCK_TOKENS * len(word), word) for word in words], replicas)


def serve_rows(policy: Policy, rows: list[tuple[int, str]], replicas: int = 2) -> Run:
    """Replay prompts of (input tokens, blocks)."""
    requests = [naive.Request(float(i), tokens, 1, tuple(word)) for i, (tokens, word) in enumerate(rows)]
    gpu = Gpu("toy", 3e13, 3e11, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 5000, 1e7, 1e7, 1e7)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))
    return replay(trace_of(requests), setup, policy, ServingOptions(), 1)


# Files and entry points

PYTHON = """\
from btbench.policies.custom import Decision


class FewestTokens:
    def route(self, request, cluster):
        return Decision(min(range(len(cluster.load)), key=lambda r: cluster.queued_tokens[r]))


class Eager:
    prefix_blocks = 3

    def route(self, request, cluster):
        return Decision(0, [1] if cluster.holds_prefix[0] and not cluster.holds_prefix[1] else [])


class Late(FewestTokens):
    prefix_blocks = 0


class NoRoute:
    pass


def plain(view, i, memory, draws, orders):
    return 0


number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PYTHON)
    return tmp_path


def test_a_class_from_a_file(folder):
    assert is_plugin("mine.py:FewestTokens")
    policy = load_plugin("mine.py:FewestTokens", folder)
    assert (policy.name, policy.spec) == ("FewestTokens", f"{folder / 'mine.py'}:FewestTokens")
    assert serve(policy, "abc", "abd").served.replica.tolist() == [0, 0]


def test_a_file_is_loaded_once_while_it_stays_as_it_is(folder):
    (folder / "mine.py").write_text(PYTHON + "open('loaded', 'a').write('x')\n")
    first, again = (load_plugin("mine.py:FewestTokens", where) for where in (folder, folder / "." / "."))
    assert first == again and (folder / "loaded").read_text() == "x"
    (folder / "mine.py").write_text(PYTHON)
    assert load_plugin("mine.py:FewestTokens", folder) != first


def test_a_class_says_what_its_copies_are_made_of(folder):
    run = serve(load_plugin("mine.py:Eager", folder), "abcd", "abcx", "abcy")
    assert (run.copies.request.tolist(), run.copies.blocks.tolist()) == ([1], [3])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.py:A", "nowhere.py: no such file"),
        ("mine.py:FewestToken", "mine.py has no 'FewestToken'\nDid you mean 'FewestTokens'"),
        ("mine.py:NoRoute", "is no policy"),
        ("mine.py:number", "is no policy: 3"),
        ("mine.py:Late", "prefix_blocks = 0"),
        ("broken.py:A", "broken.py: SyntaxError"),
        ("raising.py:A", "raising.py: ZeroDivisionError"),
        ("taken.py:btb", "btb is the name of a built-in policy"),
        ("bound.py:floor", "floor is the name of a bound"),
        ("nobody", "no such policy: 'nobody'"),
    ],
)
def test_what_is_no_policy_is_refused(folder, name, said):
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "raising.py").write_text("1 / 0\n")
    (folder / "taken.py").write_text(PYTHON.replace("FewestTokens", "btb"))
    (folder / "bound.py").write_text(PYTHON.replace("FewestTokens", "floor"))
    with pytest.raises(PolicyError) as caught:
        load_plugin(name, folder)
    assert said in str(caught.value)


@needs_compiling
def test_a_function_that_is_not_compiled_is_refused(folder):
    with pytest.raises(PolicyError, match=r"is no policy: <function plain"):
        load_plugin("mine.py:plain", folder)


@pytest.fixture
def distribution(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package `their_router` that offers policies, on the path for one test."""
    site = folder / "site"
    metadata = site / "their_router-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-router\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[btbench.policies]\nfewest = their_router:FewestTokens\ngone = their_router:Gone\nodd = their_router:number\n"
    )
    (site / "their_router.py").write_text(PYTHON)
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("their_router", None)


def test_a_class_by_its_entry_point(distribution):
    assert is_plugin("fewest") and not is_plugin("fewer")
    policy = load_plugin("fewest", Path())
    assert (policy.name, policy.spec) == ("fewest", "fewest")
    assert serve(policy, "abc", "abd").served.replica.tolist() == [0, 0]


def test_entry_points_that_lead_nowhere(distribution):
    with pytest.raises(PolicyError, match=r"policy 'gone' cannot be loaded: AttributeError"):
        load_plugin("gone", Path())
    with pytest.raises(PolicyError, match=r"^policy 'odd' is no policy: 3"):
        load_plugin("odd", Path())
    with pytest.raises(PolicyError, match=r"no such policy: 'fewes'\nDid you mean 'fewest'"):
        load_plugin("fewes", Path())


def test_policies_of_packages_are_listed_with_package_and_kind(distribution, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (distribution / "their_router.py").write_text(
        PYTHON.replace("class FewestTokens:", 'class FewestTokens:\n    """The shortest queue.\n\n    By tokens."""')
    )
    listed = CliRunner().invoke(app, ["list", "policies", "fewest", "--format", "json"])
    assert json.loads(listed.stdout)["policies"] == [
        {
            "policy": "fewest",
            "rule": "The shortest queue.",
            "source": "their-router 1.0, their_router:FewestTokens, Python class",
            "leaves_out": "",
        }
    ]
    whole = CliRunner().invoke(app, ["list", "policies"]).stdout
    assert "gone          policy 'gone' cannot be loaded: AttributeError" in whole
    assert "their-router 1.0, their_router:Gone, cannot be loaded" in whole


def test_policies_of_packages_are_among_what_is_allowed_without_being_loaded(distribution, folder):
    (distribution / "their_router.py").write_text("raise SystemExit")
    (folder / "small.toml").write_text(SCENARIO)
    result = run_replay("-p", "fewes")
    assert "Did you mean 'fewest'?" in result.stderr and "preble, fewest, gone, odd." in result.stderr
    (folder / "small.toml").write_text(SCENARIO.replace('["cache_aware"]', '["cache_aware", "fewes"]'))
    assert "Did you mean 'fewest'?" in run_replay().stderr
    assert "their_router" not in sys.modules


# Compiled functions

COMPILED = """\
from typing import NamedTuple

import numpy as np

from btbench.jit import inlined
from btbench.policies.picks import pick_least_loaded


class Memory(NamedTuple):
    sent: np.ndarray


def new_memory(view):
    return Memory(np.zeros(len(view.load), np.int64))


@inlined
def fewest_sent(view, i, memory, draws, orders):
    r = 0
    for other in range(1, len(memory.sent)):
        if memory.sent[other] < memory.sent[r]:
            r = other
    memory.sent[r] += 1
    return r
"""

WITHOUT_MEMORY = """\
import numba
import numpy as np

from btbench.jit import inlined
from btbench.policies.picks import pick_least_loaded


@inlined
def told(view, i, memory, draws, orders):
    '''Does what the length of the input says.'''
    tokens = view.requests[i].input_tokens
    if tokens == 999:
        raise ValueError("nothing to tell")
    if tokens == 998:
        return -3
    if tokens >= 2000:
        orders.transfer_runs[0] = tokens - 2000
        orders.transfer_source[0] = 1
        return 0
    if tokens >= 1000:
        orders.ordered[0] = 1
        orders.source[0] = (tokens - 1000) // 100 - 1
        orders.target[0] = (tokens - 1000) % 100 // 10 - 1
        return 0
    if tokens >= 100:
        return tokens - 100
    return pick_least_loaded(view.load, draws)


@inlined
def reads_answers(view, i, memory, draws, orders):
    return view.requests[i].output_tokens


@inlined
def writes(view, i, memory, draws, orders):
    view.load[0] = 0
    return 0


@inlined
def winds_the_clock(view, i, memory, draws, orders):
    view.replicas[0].now = 0.0
    return 0


@numba.njit
def set_clock(replica):
    replica.now = 0.0


@numba.njit(cache=True)
def set_clocks(replicas, r):
    set_clock(replicas[r])
    return r


@inlined
def has_the_clock_wound(view, i, memory, draws, orders):
    return set_clocks(view.replicas, 0)


@inlined
def empties_by_flat(view, i, memory, draws, orders):
    view.load.flat[0] = 0
    return 0


@numba.njit
def by_iterator(load):
    for each in np.nditer(load):
        each[()] = 0


@inlined
def empties_by_iterator(view, i, memory, draws, orders):
    by_iterator(view.load)
    return 0


@numba.njit
def counted(load):
    return np.zeros(len(load))


@inlined
def makes_arrays(view, i, memory, draws, orders):
    return int(counted(view.load)[0])


@inlined
def makes_a_sum(view, i, memory, draws, orders):
    return (view.load + 1)[0]


@inlined
def makes_a_list(view, i, memory, draws, orders):
    return [r for r in range(3)][0]


@inlined
def half(view, i, memory, draws, orders):
    return 0.5


@inlined
def too_few(view, i):
    return 0
"""


MAKES = "does not compile: makes an array, a list, text or the like"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "counting.py").write_text(COMPILED)
    (folder / "told.py").write_text(WITHOUT_MEMORY)
    (folder / "forgetful.py").write_text(COMPILED.replace("np.zeros(", "np.zero("))
    yield folder


@pytest.fixture(scope="module")
def told(compiled: Path) -> Policy:
    return load_plugin("told.py:told", compiled)


def test_a_compiled_function_remembers(compiled):
    run = serve(load_plugin("counting.py:fewest_sent", compiled), *["ab"] * 7, replicas=3)
    assert run.served.replica.tolist() == [0, 1, 2, 0, 1, 2, 0]


@given(problem=strategies.problems(few_replicas))
@settings(max_examples=50)
def test_a_compiled_function_agrees_with_the_twin(told, problem):
    """Draws and all: below 100 tokens it is `least_load`."""
    rows = tuple(replace(request, input_tokens=min(request.input_tokens, 99)) for request in problem.requests)
    policy = naive.LeastLoad(problem.parameters, problem.seed)
    expected = rows_of_twin(naive.serve(rows, problem.block_tokens, problem.setup, problem.options, policy))
    run = replay(trace_of(rows), problem.setup, told, problem.options, problem.seed)
    assert rows_of_run(run) == expected


def replay_told(told: Policy, *tokens: int, blocks: str = "ab") -> Run:
    parameters = told.parameters._replace(btb=BtbParameters(prefix_blocks=2))
    return serve_rows(replace(told, parameters=parameters), [(n, blocks) for n in tokens])


def test_a_compiled_function_copies_and_transfers(told):
    """100: to replica 0, which holds ab then; 1120: a copy from 0 to 1; 2001: to 0, with the run that 1 holds."""
    run = replay_told(told, 100, 1120, 100)
    copied = zip(*(column.tolist() for column in run.copies[:3]), run.copies.blocks.tolist(), strict=True)
    assert list(copied) == [(1, 0, 1, 2)]
    run = replay_told(told, 101, 2001, 100)
    moved = zip(*(column.tolist() for column in run.copies[:3]), run.copies.blocks.tolist(), strict=True)
    assert list(moved) == [(1, 1, 0, 2)]
    assert run.served.hit_tokens.tolist()[1] == 16


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (102, "no replica 2"),
        (998, "no replica -3"),  # which a built-in policy returns to turn a request away
        (999, "ValueError: nothing to tell"),
        (1020, "orders a copy or transfer that cannot be made"),  # from replica -1
        (1320, "cannot be made"),  # from replica 2
        (1130, "cannot be made"),  # to replica 2
        (1100, "cannot be made"),  # to replica -1
        (1110, "cannot be made"),  # to where it comes from
        (1210, "cannot be made"),  # from one that does not hold it
        (2002, "cannot be made"),  # more than the prompt has
    ],
)
def test_a_wrong_decision_of_a_compiled_function_names_policy_and_request(told, tokens, said):
    with pytest.raises(PolicyError, match=rf"^policy 'told', request 1: .*{said}"):
        replay_told(told, 100, tokens)


@pytest.mark.parametrize(
    "tokens",
    [
        (100, 2001),  # a transfer from replica 1, which has not got it
        (101, 100, 1120),  # a copy to replica 1, which holds it
    ],
)
def test_kv_is_not_moved_from_where_it_is_not_to_where_it_is(told, tokens):
    with pytest.raises(PolicyError, match=rf"request {len(tokens) - 1}: .*cannot be made"):
        replay_told(told, *tokens)


def test_a_compiled_copy_of_what_is_shorter_than_a_prefix(told):
    with pytest.raises(PolicyError, match=r"request 1: orders a copy"):
        replay_told(told, 100, 1120, blocks="a")


@needs_compiling
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("told.py:reads_answers", r"does not compile: KeyError: 'output_tokens'"),
        ("told.py:writes", r"does not compile: Cannot modify readonly array.* \(told.py, line 37\)"),
        ("told.py:winds_the_clock", r"writes to what it may only look at \(told.py, line 43\)"),
        ("told.py:has_the_clock_wound", r"writes to what it may only look at \(told.py, line 49\)"),
        ("told.py:empties_by_flat", r"writes to what it may only look at \(told.py, line 65\)"),
        ("told.py:empties_by_iterator", r"writes to what it may only look at \(told.py, line 71\)"),
        ("told.py:half", r"returns float64"),
        ("told.py:makes_arrays", rf"{MAKES} \(told.py, line 83\)\n.* make arrays once, in new_memory"),
        ("told.py:makes_a_sum", rf"{MAKES} \(told.py, line 93\)"),
        ("told.py:makes_a_list", rf"{MAKES} \(told.py, line 98\)"),
        ("told.py:too_few", r"does not compile: TypeError: .*5 argument"),
        ("forgetful.py:fewest_sent", r"new_memory: AttributeError"),
    ],
)
def test_a_function_that_does_not_compile_is_refused(compiled, name, said):
    with pytest.raises(PolicyError, match=rf"^policy '{name.split(':')[1]}'.*{said}"):
        serve(load_plugin(name, compiled), "ab", "ab")


@needs_compiling
def test_a_function_that_is_refused_is_refused_again(compiled):
    """Also by another replay of one process, for which it is compiled already."""
    policy = load_plugin("told.py:has_the_clock_wound", compiled)
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"writes to what it may only look at"):
            serve(policy, "ab", "ab")


# The command line

SCENARIO = """\
name = "small"
policies = ["cache_aware"]
[trace]
source = "generated"
[trace.generator]
bursts = 2
burst_size = 6
burst_window_s = 2.0
decoys = 3
[[setup]]
name = "one"
model = "qwen3-8b"
gpu = "h100"
gpus_per_replica = 1
replicas = 3
"""


def run_replay(*args: str):
    return CliRunner().invoke(app, ["replay", "small.toml", "--no-charts", *args])


def test_the_command_line_takes_a_class_of_a_file(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (folder / "small.toml").write_text(SCENARIO)
    result = run_replay("--policy", "cache_aware", "--policy", "mine.py:FewestTokens")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("FewestTokens") for line in lines)
    again = CliRunner().invoke(app, ["replay", "results/small/scenario.toml", "--no-charts", "-o", "again", "-q"])
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout.replace("results/small", "again")


@pytest.mark.parametrize("other", ["there/mine.py:FewestTokens", "FewestTokens"])
def test_two_policies_of_one_name_are_refused_before_any_is_loaded(folder, other):
    (folder / "there").mkdir()
    (folder / "there/mine.py").write_text("1 / 0")
    (folder / "small.toml").write_text(SCENARIO + '[policy.FewestTokens]\nbase = "btb"\n')
    result = run_replay("-p", "cache_aware", "-p", "mine.py:FewestTokens", "-p", other)
    assert (result.exit_code, result.stdout) == (2, "")
    said = f"Error: --policy {other}: mine.py:FewestTokens has the name 'FewestTokens' too"
    assert said in " ".join(result.stderr.split())
    assert run_replay("-p", "btb", "-p", "btb").exit_code == 0  # one policy, said twice


def test_the_command_line_says_what_a_policy_did_wrong(folder):
    (folder / "small.toml").write_text(SCENARIO)
    (folder / "mine.py").write_text(PYTHON.replace("Decision(min", "Decision(7 + min"))
    result = run_replay("--policy", "mine.py:FewestTokens")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "policy 'FewestTokens', request 0: replica: no replica 7" in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert not Path("results").exists()
