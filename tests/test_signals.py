"""What the router can know: the engine against a list of reports, and what holds whatever the delay."""

from collections import Counter
from dataclasses import replace
from random import Random

import naive
import naive_signals
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trees import with_trees
from replaying import PAPER_POLICIES, rows_of_run, rows_of_twin, through_engine
from strategies import MODEL, Problem, many_replicas, trace_of

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import Run, replay
from btbench.errors import ScenarioError
from btbench.policies.custom import Decision
from btbench.policies.parameters import BtbParameters, Parameters
from btbench.policies.registry import NAMES, Policy

delays = st.sampled_from([1e-9, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 3.0])
intervals = st.sampled_from([1e-3, 0.1, 0.25, 0.3, 0.5, 2.0, 1000.0])


def delayed(problems):
    """The same problems with old knowledge."""

    def build(problem: Problem, delay_s: float, interval_s: float) -> Problem:
        options = replace(problem.options, signal_delay_s=delay_s, signal_interval_s=interval_s)
        return replace(problem, options=options)

    return st.builds(build, problems, delays, intervals)


def assert_agree(problem: Problem, policies) -> None:
    with with_trees():
        for policy in policies:
            expected = rows_of_twin(naive_signals.replay(problem, policy))
            found = rows_of_run(through_engine(problem, policy))
            for part in expected:
                assert found[part] == expected[part], (policy, part)


@given(delayed(strategies.problems()))
def test_any_replay(problem):
    assert_agree(problem, [*PAPER_POLICIES, "power_of_two", "smg", "sglang"])


@settings(max_examples=25)
@given(delayed(strategies.problems(many_replicas)))
def test_more_replicas_than_a_word_has_bits(problem):
    assert_agree(problem, ["cache_aware", "btb", "smg"])


@given(delayed(strategies.problems(prompts_of=strategies.bursty_prompts)))
def test_bursts(problem):
    assert_agree(problem, ["btb"])


@given(delayed(strategies.thrashing_bursts()))
def test_copies_into_full_caches(problem):
    assert_agree(problem, ["btb"])


@settings(max_examples=50)
@given(strategies.problems(), intervals, st.sampled_from(NAMES))
def test_without_a_delay_the_interval_means_nothing(problem, interval_s, policy):
    options = replace(problem.options, signal_delay_s=0.0, signal_interval_s=interval_s)
    found = rows_of_run(through_engine(replace(problem, options=options), policy))
    assert repr(found) == repr(rows_of_run(through_engine(problem, policy)))  # text, since rejected ones have no times


@settings(max_examples=50)
@given(strategies.problems(), intervals)
def test_beyond_the_trace_a_router_knows_its_own_decisions_only(problem, interval_s):
    """So it counts what it has sent where, no prompt is known to be cached anywhere, and nothing is copied."""
    options = replace(problem.options, signal_delay_s=1e6, signal_interval_s=interval_s)
    blind = replace(problem, options=options)
    draws, expected = Random(problem.seed), []
    for _ in problem.requests:
        sent = [expected.count(r) for r in range(len(problem.setup.replicas))]
        expected.append(draws.choice([r for r, count in enumerate(sent) if count == min(sent)]))
    if problem.parameters.btb.fallback != "cache_aware":
        blind = replace(blind, parameters=Parameters())
    for policy in ("least_load", "cache_aware", "btb"):
        run = through_engine(blind, policy)
        assert run.served.replica.tolist() == expected
        assert len(run.copies.target) == 0
    for policy in ("round_robin", "random"):
        assert rows_of_run(through_engine(blind, policy)) == rows_of_run(through_engine(problem, policy))


@settings(max_examples=30)
@given(delayed(strategies.problems()), st.sampled_from(NAMES))
def test_the_same_input_gives_the_same_bytes(problem, policy):
    first, second = (through_engine(problem, policy) for _ in range(2))
    for one, other in zip((*first.served, *first.copies), (*second.served, *second.copies), strict=True):
        assert one.tobytes() == other.tobytes()


class Recorder:
    """Sends each request to the next replica, whatever it sees, and keeps what it sees."""

    seen: list = []  # noqa: RUF012

    def route(self, request, cluster) -> Decision:
        columns = (cluster.load, cluster.queued_tokens, cluster.context_tokens, cluster.now_s)
        self.seen.append([column.tolist() for column in columns])
        return Decision(request.position % len(cluster.load))


class InTurn(naive.Policy):
    """The same in the twin, which keeps reports anyway."""

    def choose(self, index, request, replicas):
        return replicas[index % len(replicas)]


@settings(max_examples=50)
@given(delayed(strategies.problems()))
def test_all_that_is_seen_of_a_replica_is_what_it_was_at_the_time_of_the_report(problem):
    options, replicas = problem.options, len(problem.setup.replicas)
    Recorder.seen = []
    policy = Policy("recorder", "custom", custom=Recorder)
    replay(trace_of(problem.requests), problem.setup, policy, options, problem.seed)
    seen = Recorder.seen[-len(problem.requests) :]  # a replay that had to compile is done again
    twin = InTurn(problem.parameters, problem.seed)
    twin = naive_signals.Delayed(twin, problem.requests, options.signal_delay_s, options.signal_interval_s)
    naive.serve(problem.requests, problem.block_tokens, problem.setup, options, twin)
    for i, (request, columns) in enumerate(zip(problem.requests, seen, strict=True)):
        sent = Counter(k % replicas for k in range(i))
        report = twin.latest(request.arrival_s)
        if report is None:
            assert columns == [[sent[r] for r in range(replicas)], [0] * replicas, [0] * replicas, [0.0] * replicas]
            continue
        loads = [report.loads[r] + sent[r] - report.sent[r] for r in range(replicas)]
        assert columns[:3] == [loads, report.queued_tokens, report.context_tokens]
        for r in range(replicas):
            if report.loads[r] > 0:  # an idle replica's clock stands still in the engine, until it has work
                assert columns[3][r] == report.clocks_s[r]


@settings(max_examples=50)
@given(strategies.problems(), intervals)
def test_a_router_that_hears_nothing_has_its_own_account_alone(problem, interval_s):
    """`mooncake` takes the replica to which it has sent the least to prefill, `llm_d` weighs what it has sent where."""
    options = replace(problem.options, signal_delay_s=1e6, signal_interval_s=interval_s, max_batch=1000)
    speed = {(replica.gpu, replica.gpus) for replica in problem.setup.replicas}
    blind = replace(problem, options=options, parameters=Parameters())
    sent, expected = [0] * len(problem.setup.replicas), []
    for request in problem.requests:
        expected.append(sent.index(min(sent)))
        sent[expected[-1]] += request.input_tokens
    if len(speed) == 1:
        assert through_engine(blind, "mooncake").served.replica.tolist() == expected
    rule = Parameters().llm_d._replace(kv_weight=0.0, prefix_weight=0.0)
    waits = through_engine(replace(blind, parameters=Parameters(llm_d=rule)), "llm_d").served.replica.tolist()
    for i in range(len(waits)):
        counts = [waits[:i].count(r) for r in range(len(sent))]
        assert counts[waits[i]] == min(counts)


def three_replicas(prompts: list[tuple[float, str]], options: ServingOptions, rule: BtbParameters) -> Run:
    """`btb` on three replicas that serve a prompt, a letter a block, in no time."""
    gpu = Gpu("toy", 3e14, 3e12, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 1e5, 1e9, 1e9, 1e9)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", gpu, 1) for r in range(3)))
    rows = tuple(naive.Request(t, 8 * len(word), 1, tuple(word)) for t, word in prompts)
    return through_engine(Problem(rows, setup, options, Parameters(btb=rule), 42), "btb")


def test_a_copy_counts_as_under_way_until_a_report_tells_that_it_landed():
    """By hand: ordered at 1.5, where the report of 0.5 shows one holder; landed at 2; seen at 3, a second late."""
    prompts = [(0.0, "ab"), (0.5, "x"), (1.5, "ab"), (2.0, "ab"), (2.5, "ab"), (3.0, "ab"), (3.5, "ab"), (4.0, "ab")]
    options = ServingOptions(signal_delay_s=1.0, signal_interval_s=0.25)
    run = three_replicas(prompts, options, BtbParameters(threshold=2, prefix_blocks=2, window_s=10.0, copies=2))
    holder, other, *burst = run.served.replica.tolist()
    (copied,) = {0, 1, 2} - {holder, other}
    assert list(zip(run.copies.request, run.copies.source, run.copies.target, strict=True)) == [(2, holder, copied)]
    assert burst[:3] == [holder] * 3, "at 1.5, 2 and 2.5 one holder is known"
    assert burst[3] == copied, "at 3 two are, and what was sent to the first since 2 has not been seen to end"


def test_a_report_is_of_its_multiple_of_the_interval_wherever_arrivals_are():
    """By hand: reports every 2 s, 1 s late; those of 2 and of 4 are taken between arrivals."""
    prompts = [(1.9, "ab"), (3.0, "cd"), (3.9, "ab"), (4.5, "cd"), (5.1, "cd")]
    options = ServingOptions(signal_delay_s=1.0, signal_interval_s=2.0)
    run = three_replicas(prompts, options, BtbParameters(threshold=2, prefix_blocks=2, window_s=10.0, copies=3))
    first, second, third, fourth, fifth = run.served.replica.tolist()
    assert third == first, "at 3.9 the report of 2 shows who has ab"
    assert fourth not in (second, third), "at 4.5 it is the latest still: nobody has cd, two have been sent something"
    assert fifth == second, "at 5.1 the report of 4 shows who has cd, which is not yet the fourth"


def test_reports_that_would_fill_the_memory_are_refused():
    prompts = [(0.1 * i, f"a{i % 500}") for i in range(20_000)]
    rows = tuple(naive.Request(t, 16, 1, (word[0], word)) for t, word in prompts)
    gpu = Gpu("toy", 3e14, 3e12, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 1e5, 1e9, 1e9, 1e9)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", gpu, 1) for r in range(1500)))
    options = ServingOptions(signal_delay_s=1e9, signal_interval_s=1e-9)
    with pytest.raises(ScenarioError, match=r"signal_interval_s = 1e-09: 20,003 reports .* GB"):
        through_engine(Problem(rows, setup, options, Parameters(), 42), "least_load")
