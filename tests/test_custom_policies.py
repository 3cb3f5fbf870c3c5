"""Policies of one's own as Python classes: what they decide, what they see, and what happens where they go wrong."""

from dataclasses import replace

import naive
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import rows_of_run, rows_of_twin
from strategies import MODEL, Problem, few_replicas, trace_of

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import Run, replay
from btbench.errors import PolicyError
from btbench.policies import custom
from btbench.policies.custom import Decision
from btbench.policies.parameters import BtbParameters, Parameters
from btbench.policies.registry import Policy


def through_class(problem: Problem, policy: type) -> Run:
    """Replay with a policy in Python; Y is the problem's."""
    named = Policy(policy.__name__, "custom", problem.parameters, custom=policy)
    return replay(trace_of(problem.requests), problem.setup, named, problem.options, problem.seed)


def through_naive(problem: Problem, policy: naive.Policy) -> naive.Replay:
    return naive.serve(problem.requests, problem.block_tokens, problem.setup, problem.options, policy)


def toys(replicas: int = 2) -> Setup:
    """Equal replicas with room for 5,000 tokens."""
    gpu = Gpu("toy", 3e13, 3e11, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 5000, 1e7, 1e7, 1e7)
    return Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))


# Classes that do what the twin does


class FirstLeast:
    """Fewest in flight, the first on ties."""

    def route(self, request, cluster) -> Decision:
        return Decision(int(cluster.load.argmin()))


class NaiveFirstLeast(naive.Policy):
    """The same."""

    def choose(self, index, request, replicas):
        return min(replicas, key=lambda replica: replica.load)


class Spreader:
    """Copies every prefix that someone holds to all others; goes to the longest match, the last on ties."""

    def route(self, request, cluster) -> Decision:
        copies = []
        if cluster.holds_prefix.any():
            copies = np.flatnonzero(~cluster.holds_prefix & ~cluster.awaits_prefix)
        matched = cluster.matched_blocks.tolist()
        return Decision(max(range(len(matched)), key=lambda r: (matched[r], r)), copies)


class NaiveSpreader(naive.Btb):
    """The same."""

    def choose(self, index, request, replicas):
        blocks = self.parameters.btb.prefix_blocks
        key = request.blocks[:blocks]
        holders = [replica for replica in replicas if len(key) == blocks and replica.cache.holds(key)]
        if holders:
            awaited = [copy.target for copy in self.copies if copy.key == key and not copy.landed]
            for replica in replicas:
                if replica not in holders and replica.index not in awaited:
                    start_s = max(request.arrival_s, replica.now_s)
                    replica.now_s = start_s + replica.costs.load_s(blocks, replica.costs.rdma_bytes_per_s)
                    replica.busy_s += replica.costs.load_s(blocks, replica.costs.rdma_bytes_per_s)
                    self.copies.append(naive.Copy(index, key, holders[0].index, replica.index, start_s, replica.now_s))
        return max(replicas, key=lambda replica: (sum(replica.cache.match(request.blocks)), replica.index))


class Drawn:
    """Any replica, by the policy's own draws."""

    def route(self, request, cluster) -> Decision:
        return Decision(cluster.random.choice(range(len(cluster.load))))


@pytest.mark.parametrize(("policy", "twin"), [(FirstLeast, NaiveFirstLeast), (Drawn, naive.RandomChoice)])
@given(problem=strategies.problems(few_replicas))
@settings(max_examples=50)
def test_a_class_agrees_with_the_twin(policy, twin, problem):
    expected = rows_of_twin(through_naive(problem, twin(problem.parameters, problem.seed)))
    assert rows_of_run(through_class(problem, policy)) == expected


@pytest.mark.parametrize("prompts", [strategies.bursty_prompts, strategies.flat_prompts, strategies.any_prompts])
def test_a_class_that_copies_agrees_with_the_twin(prompts):
    @settings(max_examples=50)
    @given(strategies.problems(prompts_of=prompts))
    def check(problem):
        expected = rows_of_twin(through_naive(problem, NaiveSpreader(problem.parameters, problem.seed)))
        assert rows_of_run(through_class(problem, Spreader)) == expected

    check()


def test_copies_to_many_replicas_that_no_burst_would_make():
    """40 replicas, 30 prefixes seen twice, a minute apart: 30 × 39 copies, more than a table for bursts would hold."""
    rows = [naive.Request(60.0 * i, 32, 1, tuple(f"p{i % 30}x{k}" for k in range(4))) for i in range(60)]
    parameters = Parameters(btb=BtbParameters(prefix_blocks=4))
    problem = Problem(tuple(rows), toys(40), ServingOptions(), parameters, 42)
    assert len(through_class(problem, Spreader).copies.target) == 30 * 39


# What a class sees


def small(*words: str, **parameters) -> Problem:
    """Prompts, a letter a block, a second apart, on two replicas; Y = 2."""
    rows = tuple(naive.Request(float(i), 8 * len(word), 1, tuple(word)) for i, word in enumerate(words))
    return Problem(rows, toys(), ServingOptions(), Parameters(btb=BtbParameters(prefix_blocks=2, **parameters)), 42)


class Looking:
    """Goes where the twin's `random` goes, and keeps all that it can see."""

    seen: list = []  # noqa: RUF012

    def route(self, request, cluster) -> Decision:
        public = {name: value for name, value in vars(cluster).items() if isinstance(value, np.ndarray)}
        self.seen.append([tuple(request), {name: value.tolist() for name, value in public.items()}])
        return Decision(cluster.random.choice(range(len(cluster.load))))


def looked_at(problem: Problem) -> list:
    Looking.seen = []
    through_class(problem, Looking)
    return Looking.seen[-len(problem.requests) :]  # a replay that had to compile is done again


@given(strategies.problems(), st.data())
@settings(max_examples=50)
def test_a_class_sees_nothing_of_answers_or_of_the_future(problem, data):
    """From some request on, answers may get any other length, or no request may come: what it saw by then stays."""
    cut = data.draw(st.integers(0, len(problem.requests) - 1))
    longest = 300 + max(r.input_tokens + r.output_tokens for r in problem.requests)
    setup = replace(
        problem.setup,
        replicas=tuple(
            replace(r, gpu=replace(r.gpu, hbm_bytes=MODEL.weight_bytes + MODEL.kv_bytes_per_token * longest))
            for r in problem.setup.replicas
        ),
    )
    problem = replace(problem, setup=setup)
    seen = looked_at(problem)[: cut + 1]
    others = tuple(replace(r, output_tokens=data.draw(st.integers(1, 300))) for r in problem.requests[cut:])
    assert looked_at(replace(problem, requests=problem.requests[:cut] + others))[: cut + 1] == seen
    assert looked_at(replace(problem, requests=problem.requests[: cut + 1])) == seen


def test_prefixes_are_numbered_as_they_come():
    """Y = 2: ab, cd, ab again, a prompt of one block, and ef, which nobody has again."""
    seen = looked_at(small("abx", "cdx", "aby", "a", "ef", "cd"))
    assert [request[3] for request, _ in seen] == [0, 1, 0, -1, 2, 1]


def test_what_a_class_sees_of_the_cluster_by_hand():
    """On replica 0 abc was served; a copy of ab is under way to replica 1 when abd comes."""

    class Copying:
        seen: list = []  # noqa: RUF012

        def route(self, request, cluster) -> Decision:
            self.seen.append(
                (
                    cluster.matched_blocks.tolist(),
                    cluster.holds_prefix.tolist(),
                    cluster.awaits_prefix.tolist(),
                    cluster.load.tolist(),
                    cluster.kv_token_budget.tolist(),
                )
            )
            return Decision(0, [1] if request.position == 1 else [])

    problem = small("abc", "abd", "abc", "xyz")
    slow = replace(problem.setup.replicas[0].gpu, rdma_bytes_per_s=5e3)  # 2 blocks of 4 KiB: 1.6 s
    problem = replace(problem, setup=Setup("toys", MODEL, tuple(Replica(f"n{r}", slow, 1) for r in range(2))))
    run = through_class(problem, Copying)
    idle, budget = [0, 0], [5000, 5000]
    assert Copying.seen[-4:] == [
        ([0, 0], [False, False], [False, False], idle, budget),
        ([2, 0], [True, False], [False, False], idle, budget),
        ([3, 0], [True, False], [False, True], idle, budget),
        ([0, 0], [False, False], [False, False], idle, budget),
    ]
    assert (run.copies.source.tolist(), run.copies.target.tolist()) == ([0], [1])
    assert run.copies.ready_s[0] == pytest.approx(1.0 + 8192 / 5e3)


# Classes that go wrong


def endlessly():
    while True:
        yield 1


def deciding(decide) -> type:
    """A class named Bad that sends the first request to replica 0 and decides on the second as told."""

    class Bad:
        def route(self, request, cluster):
            return Decision(0) if request.position == 0 else decide(request, cluster)

    return Bad


def raise_(error: BaseException):
    raise error


def write(name: str):
    def decide(request, cluster):
        getattr(cluster, name)[0] = 1
        return Decision(0)

    return decide


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (lambda request, cluster: None, "returned None"),
        (lambda request, cluster: 1, "returned 1"),
        (lambda request, cluster: (0, []), r"returned \(0, \[\]\)"),
        (lambda request, cluster: Decision(2), "replica: no replica 2"),
        (lambda request, cluster: Decision(-1), "replica: no replica -1"),
        (lambda request, cluster: Decision(0.5), "replica: no replica 0.5"),
        (lambda request, cluster: Decision(True), "replica: no replica True"),
        (lambda request, cluster: Decision("node0"), "replica: no replica 'node0'"),
        (lambda request, cluster: Decision(0, [2]), "copies: no replica 2"),
        (lambda request, cluster: Decision(0, [None]), "copies: no replica None"),
        (lambda request, cluster: Decision(0, 1), "TypeError"),
        (lambda request, cluster: Decision(0, [0]), "replica 0 has the prefix, or awaits it"),
        (lambda request, cluster: Decision(0, [1, 1]), "replica 1 has the prefix, or awaits it"),
        (lambda request, cluster: Decision(0, endlessly()), "replica 1 has the prefix, or awaits it"),
        (lambda request, cluster: cluster.load.setflags(write=True), "ValueError: cannot set WRITEABLE flag"),
        (lambda request, cluster: raise_(KeyError("what")), "KeyError: 'what'"),
        (lambda request, cluster: raise_(SystemExit(3)), "SystemExit: 3"),
        (lambda request, cluster: request.output_tokens, "AttributeError: 'Request' object has no .*'output_tokens'"),
        (lambda request, cluster: cluster.used_tokens, "AttributeError: 'Cluster' object has no .*'used_tokens'"),
        *(
            (write(name), "ValueError: assignment destination is read-only")
            for name in (
                *("load", "queued_tokens", "context_tokens", "now_s", "kv_token_budget"),
                *("matched_blocks", "holds_prefix", "awaits_prefix"),
            )
        ),
    ],
)
def test_a_wrong_decision_names_policy_and_request(decide, said):
    with pytest.raises(PolicyError, match=rf"^policy 'Bad', request 1: {said}"):
        through_class(small("abc", "abd"), deciding(decide))


def forcing(decide) -> type:
    """A class that first makes whatever it sees writable, by the way its arrays lead back to, and spoils it."""

    class Forcing:
        def route(self, request, cluster):
            for array in [value for value in vars(cluster).values() if isinstance(value, np.ndarray)]:
                memory = array.base.obj
                memory.setflags(write=True)
                memory[:] = 1
            return decide(request)

    return Forcing


def test_what_a_class_gets_at_by_force_is_not_the_replays():
    words = ["abc", "abd", "xyz", "abc", "abd"]
    problem = small(*words)
    problem = replace(problem, requests=tuple(replace(r, arrival_s=r.arrival_s / 1e4) for r in problem.requests))
    run = through_class(problem, forcing(lambda request: Decision(request.position % 2)))
    honest = through_class(problem, type("Honest", (), {"route": lambda self, r, c: Decision(r.position % 2)}))
    assert rows_of_run(run) == rows_of_run(honest)
    seen = looked_at(problem)
    assert seen[-1][1]["load"] != [1, 1] and seen[-1][1]["now_s"] != [1.0, 1.0]


def test_a_class_cannot_claim_by_force_that_somebody_holds_a_prefix():
    with pytest.raises(PolicyError, match=r"policy 'Forcing', request 0: asked for a copy that nobody holds"):
        through_class(small("abc", "abd"), forcing(lambda request: Decision(0, [1])))


def test_a_copy_that_nobody_holds_or_of_a_prompt_too_short():
    for word in ("xyz", "a"):
        with pytest.raises(PolicyError, match=r"policy 'Bad', request 1: asked for a copy that nobody holds"):
            through_class(small("abc", word), deciding(lambda request, cluster: Decision(0, [1])))


def test_a_copy_to_where_one_is_under_way():
    slow = small("abc", "abd", "abe")
    gpu = replace(slow.setup.replicas[0].gpu, rdma_bytes_per_s=1.0)
    slow = replace(slow, setup=Setup("toys", MODEL, tuple(Replica(f"n{r}", gpu, 1) for r in range(2))))
    with pytest.raises(PolicyError, match=r"request 2: replica 1 has the prefix, or awaits it"):
        through_class(slow, deciding(lambda request, cluster: Decision(0, [1])))


def test_numbers_of_numpy_will_do():
    run = through_class(small("abc", "abd"), deciding(lambda r, c: Decision(np.int64(1), np.array([1], np.int8))))
    assert (run.served.replica.tolist(), run.copies.target.tolist()) == ([0, 1], [1])


def test_a_class_that_cannot_be_made():
    class Wants:
        def __init__(self, something):
            pass

        def route(self, request, cluster):
            return Decision(0)

    with pytest.raises(PolicyError, match=r"policy 'Wants' cannot be made: TypeError.*'something'"):
        through_class(small("abc"), Wants)


# The documentation


def test_the_example_of_the_documentation_runs():
    """It stands indented in the module's docstring."""
    example = "\n".join(line[4:] for line in custom.__doc__.splitlines() if line.startswith("    "))
    names: dict = {"Decision": Decision}
    exec(example, names)
    run = through_class(small("ab", "ab", "ab"), names["FewestTokens"])
    assert len(run.served.replica) == 3
