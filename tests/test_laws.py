"""Laws of a replay, on the engine, on the twin and on the golden files."""

from dataclasses import replace

import naive
import numpy as np
import polars as pl
import pytest
import strategies
from cases import GOLDEN, read_case
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import Row, assert_lawful
from replaying import PAPER_POLICIES, inside_engine, rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import Problem, trace_of

from btbench.cluster.gpus import Gpu
from btbench.cluster.models import Model
from btbench.policies.registry import NAMES

policies = st.sampled_from(PAPER_POLICIES)


def assert_rows_lawful(problem: Problem, found: dict) -> None:
    rows = [Row(request, *row) for request, row in zip(problem.requests, found["served"], strict=True)]
    assert_lawful(problem, rows, [(target, start_s, ready_s) for _, _, target, start_s, ready_s, _ in found["copies"]])


@settings(max_examples=25)
@given(problem=strategies.problems())
@pytest.mark.parametrize("policy", NAMES)
def test_every_built_in_policy_is_lawful(problem, policy):
    assert_rows_lawful(problem, rows_of_run(through_engine(problem, policy)))


@given(strategies.problems(), policies)
def test_the_twin_is_lawful(problem, policy):
    assert_rows_lawful(problem, rows_of_twin(through_twin(problem, policy)))


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_golden_files_are_lawful(folder):
    case = read_case(folder)
    expected = pl.read_parquet(folder / "expected.parquet")
    if "window" not in expected.columns:
        expected = expected.with_columns(window=pl.lit("0"))
    columns = ["replica", "start_s", "reuse_s", "prefill_s", "finish_s", "hit_tokens", "tier"]
    replays = expected.sort("request").partition_by("setup", "policy", "window", as_dict=True)
    assert len(replays) == len(case.setups) * len(case.policies) * len(case.windows)
    for (setup_name, policy, window), answers in replays.items():
        (setup,) = (s for s in case.setups if s.name == setup_name)
        requests = tuple(case.windows[window])
        problem = Problem(requests, setup, case.options, case.parameters, case.seed, case.block_tokens)
        rows = [Row(request, *row) for request, row in zip(requests, answers.select(columns).rows(), strict=True)]
        # the files do not tell copies, so a law on idle time cannot be held against btb
        assert_lawful(problem, rows, [] if policy != "btb" else [(r, 0.0, 1e9) for r in range(len(setup.replicas))])


@given(strategies.problems(), policies)
def test_hbm_ram_and_free_blocks_add_up(problem, policy):
    """Walk every replica's cache at the end of a replay: lists, bits and counts tell one story, the twin's."""
    state, _ = inside_engine(problem, policy)
    twin = through_twin(problem, policy)
    for r, replica in enumerate(twin.replicas):
        assert_cache_adds_up(state, r, replica.cache)
        here = state.replicas[r]
        assert here.used_tokens == here.context_tokens == here.batch == state.load[r] == 0, "all have left"


def assert_cache_adds_up(state, r: int, twin: naive.Cache) -> None:
    cache, replica, replicas = state.cache, state.replicas[r], len(state.replicas)
    first_own = len(cache.places) - len(state.requests)
    word, bit = r // 64, np.uint64(1 << (r % 64))
    listed, place = [], replica.oldest
    while place >= 0:
        assert place not in listed
        listed.append(place)
        place = cache.places[place].newer
    in_hbm = in_ram = 0
    for run, record in enumerate(cache.runs):
        pair = run * replicas + r
        resident = bool(cache.resident[run, word] & bit)
        where = pair if len(cache.table) == 0 else next(iter(np.flatnonzero(cache.table == pair)), None)
        ram_blocks = int(cache.places[where].ram_blocks) if resident else 0
        assert 0 <= ram_blocks <= record.blocks
        assert bool(cache.in_hbm[run, word] & bit) == (resident and ram_blocks == 0)
        assert (where in listed) == (resident and ram_blocks < record.blocks)
        in_hbm += record.blocks - ram_blocks if resident else 0
        in_ram += ram_blocks
    for i in np.flatnonzero(state.served.replica == r):
        ram_blocks = int(cache.places[first_own + i].ram_blocks)
        in_hbm += state.requests[i].own_blocks - ram_blocks
        in_ram += ram_blocks
    assert in_hbm == replica.hbm_blocks == len(twin.hbm) <= replica.cache_budget == twin.budget_blocks
    assert in_ram == len(twin.ram)


@settings(max_examples=50)
@given(strategies.problems(), policies)
def test_the_same_input_gives_the_same_bytes_and_is_left_alone(problem, policy):
    trace = trace_of(problem.requests)
    before = [getattr(trace, name).tobytes() for name in ("arrival_s", "input_tokens", "run_offsets", "runs")]
    first, second = (through_engine(problem, policy) for _ in range(2))
    for one, other in zip((*first.served, *first.copies), (*second.served, *second.copies), strict=True):
        assert one.tobytes() == other.tobytes()
    assert before == [getattr(trace, name).tobytes() for name in ("arrival_s", "input_tokens", "run_offsets", "runs")]


@given(strategies.problems(), st.sampled_from(NAMES), st.data())
def test_no_request_is_routed_by_the_length_of_its_answer(problem, policy, data):
    """Answers may get any other length from some request on: that one, and those before it, go where they went."""
    cut = data.draw(st.integers(0, len(problem.requests) - 1))
    budget = min(
        naive.Costs(problem.setup.model, r, problem.options, problem.block_tokens).budget_tokens
        for r in problem.setup.replicas
    )
    others = tuple(
        replace(request, output_tokens=data.draw(st.integers(1, budget - request.input_tokens)))
        for request in problem.requests[cut:]
    )
    changed = replace(problem, requests=problem.requests[:cut] + others)
    replicas = [through_engine(p, policy).served.replica for p in (problem, changed)]
    assert replicas[0][: cut + 1].tolist() == replicas[1][: cut + 1].tolist()


@given(strategies.problems(), policies, st.data())
def test_the_future_changes_nothing(problem, policy, data):
    """Without its last requests a trace goes where it went, and what ended before they came ends as it did."""
    cut = data.draw(st.integers(0, len(problem.requests) - 1))
    whole = rows_of_run(through_engine(problem, policy))["served"]
    part = rows_of_run(through_engine(replace(problem, requests=problem.requests[:cut]), policy))["served"]
    assert [row[0] for row in part] == [row[0] for row in whole[:cut]]
    if not problem.options.disk_cache:  # else replicas that run to their ends in turn see each other's later writes
        known_s = problem.requests[cut].arrival_s
        assert [row for row in part if row[4] < known_s] == [row for row in whole[:cut] if row[4] < known_s]


@given(strategies.problems(), policies)
def test_names_of_blocks_do_not_matter(problem, policy):
    names: dict = {}
    for request in reversed(problem.requests):
        for block in request.blocks:
            names.setdefault(block, f"{len(names):x}")
    renamed = tuple(replace(r, blocks=tuple(names[block] for block in r.blocks)) for r in problem.requests)
    assert rows_of_run(through_engine(problem, policy)) == rows_of_run(
        through_engine(replace(problem, requests=renamed), policy)
    )


@given(strategies.problems(), policies)
def test_half_the_speed_takes_twice_the_time(problem, policy):
    """All rates halved and all arrivals doubled (which is exact in binary) doubles every time."""
    slow = with_hardware(problem, rates=0.5, hbm=1.0, dtype=1.0)
    btb = problem.parameters.btb
    slow = replace(
        slow,
        requests=tuple(replace(r, arrival_s=2 * r.arrival_s) for r in problem.requests),
        parameters=problem.parameters._replace(btb=btb._replace(window_s=2 * btb.window_s)),
    )
    fast_rows, slow_rows = (rows_of_run(through_engine(p, policy))["served"] for p in (problem, slow))
    assert slow_rows == [(r, *(2 * t for t in times), hit, tier) for r, *times, hit, tier in fast_rows]


@given(strategies.problems(), policies)
def test_twice_the_bytes_at_twice_the_bytes_per_second_is_the_same(problem, policy):
    """Bytes are only ever divided by bytes per second or held against bytes."""
    wide = with_hardware(problem, rates=2.0, hbm=2.0, dtype=2.0)
    flops = [replace(r, gpu=replace(r.gpu, flops=r.gpu.flops / 2)) for r in wide.setup.replicas]
    wide = replace(wide, setup=replace(wide.setup, replicas=tuple(flops)))
    assert rows_of_run(through_engine(problem, policy)) == rows_of_run(through_engine(wide, policy))


def with_hardware(problem: Problem, rates: float, hbm: float, dtype: float) -> Problem:
    """The same problem on other hardware, every number multiplied."""

    def scaled(gpu: Gpu) -> Gpu:
        speeds = [name for name in vars(gpu) if name.endswith("_per_s") or name == "flops"]
        return replace(gpu, hbm_bytes=hbm * gpu.hbm_bytes, **{name: rates * getattr(gpu, name) for name in speeds})

    model: Model = replace(problem.setup.model, dtype_bytes=dtype * problem.setup.model.dtype_bytes)
    replicas = tuple(replace(r, gpu=scaled(r.gpu)) for r in problem.setup.replicas)
    return replace(problem, setup=replace(problem.setup, model=model, replicas=replicas))


def test_round_robin_starts_with_the_second_replica():
    requests = tuple(naive.Request(float(t), 8, 1) for t in range(7))
    gpu = Gpu("toy", 1e12, 1e12, 1e10, 1e9, 1e9, 1e9)
    setup = strategies.Setup("three", strategies.MODEL, tuple(strategies.Replica(f"n{i}", gpu, 1) for i in range(3)))
    problem = Problem(requests, setup, strategies.ServingOptions(), strategies.Parameters(), 42)
    assert through_engine(problem, "round_robin").served.replica.tolist() == [1, 2, 0, 1, 2, 0, 1]
