"""The routers people run again, slow and obvious, on the twin of the cluster model: dicts, lists, sets of blocks.

Like `naive`, it shares no code with btbench.
"""

from collections import OrderedDict
from math import ceil, exp
from types import SimpleNamespace
from unittest import mock

import naive
from naive_preble import Preble
from naive_router_base import Router, chain, hit_tokens, matched
from xxhash import xxh32_intdigest


class PrefixHash(Router):
    """Consistent hashing with bounded loads."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.hashes = {}

    def choose(self, index, request, replicas):
        """The replica for this request."""
        rule = self.parameters.prefix_hash
        depth = ceil(rule.prefix_tokens / replicas[0].costs.block_tokens)
        key = request.blocks[:depth] or object()
        if key not in self.hashes:
            self.hashes[key] = self.random_32()
        ring = sorted(
            (xxh32_intdigest(f"replica {replica.index} point {k}".encode()), replica.index)
            for replica in replicas
            for k in range(rule.ring_points)
        )
        behind = [owner for position, owner in ring if position >= self.hashes[key]]
        home = replicas[behind[0] if behind else ring[0][1]]
        total = sum(replica.load for replica in replicas)
        allowed = [r for r in replicas if r.load <= rule.load_factor * (total + 1) / len(replicas)]
        if home in allowed or not allowed:
            return home
        return min(allowed, key=lambda replica: replica.load)


class Pull(Router):
    """Least loaded; moves what another has where that beats prefilling it."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        chosen = self.least_load(replicas)
        giver = max(replicas, key=lambda replica: matched(replica, request))
        here, there = matched(chosen, request), matched(giver, request)
        moving_s = chosen.costs.load_s(there - here, chosen.costs.rdma_bytes_per_s)
        saved = hit_tokens(chosen, request, there) - hit_tokens(chosen, request, here)
        if moving_s < chosen.costs.prefill_s(saved):
            self.transfer(index, request, giver, chosen, there)
        return chosen


class Dynamo(Router):
    """Blocks to prefill and blocks in use."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        rule = self.parameters.dynamo
        costs = {replica.index: self.cost(request, replica) for replica in replicas}
        if rule.temperature > 0:
            chosen = self.draw(costs, replicas)
        else:
            chosen = self.pick(replicas, lambda replica: costs[replica.index])
        cached = max(matched(chosen, request), self.on_disk(chosen, request))
        self.send(request, chosen, request.input_tokens - hit_tokens(chosen, request, cached))
        return chosen

    def note(self, request, replica):
        """Hear of a request that btb sends."""
        cached = max(matched(replica, request), self.on_disk(replica, request))
        self.send(request, replica, request.input_tokens - hit_tokens(replica, request, cached))

    def on_disk(self, replica, request):
        """Leading blocks of a prompt on the shared disk."""
        blocks = 0
        while replica.disk is not None and blocks < len(request.blocks) and request.blocks[blocks] in replica.disk:
            blocks += 1
        return blocks

    def cost(self, request, replica):
        """What the request costs there."""
        rule = self.parameters.dynamo
        hbm, ram = replica.cache.match(request.blocks)
        disk = max(0, self.on_disk(replica, request) - hbm - ram)
        credit = rule.overlap_credit * hbm + rule.host_credit * ram + rule.disk_credit * disk
        waiting = request.input_tokens
        in_use = set(chain(request, replica.costs))
        for served in self.mine(replica):
            first_token_s = served.start_s + (served.reuse_s + served.prefill_s)
            if served.start_s < 0 or first_token_s > request.arrival_s:
                waiting += self.sent[id(served.request)]
            in_use |= set(self.chains[id(served.request)])
        prefill = max(0.0, waiting / replica.costs.block_tokens - credit)
        return rule.prefill_load_scale * prefill + len(in_use)

    def draw(self, costs, replicas):
        """A replica by its cost."""
        lowest, highest = min(costs.values()), max(costs.values())
        scaled = {i: (cost - lowest) / (highest - lowest) if highest > lowest else 0.0 for i, cost in costs.items()}
        weights = [exp(-scaled[replica.index] / self.parameters.dynamo.temperature) for replica in replicas]
        left = self.random_32() / 2**32 * sum(weights)
        for replica, weight in zip(replicas, weights, strict=True):
            if left < weight:
                return replica
            left -= weight
        return replicas[-1]


class LlmD(Router):
    """Weighted scores."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.tables = {}  # by replica: blocks sent there, least recently first

    def choose(self, index, request, replicas):
        """The replica for this request."""
        rule = self.parameters.llm_d
        waiting = {replica.index: self.waiting(replica, request.arrival_s) for replica in replicas}
        spread = max(waiting.values()) - min(waiting.values())

        def score(replica):
            queue = (max(waiting.values()) - waiting[replica.index]) / spread if spread else 1.0
            in_use = sum(sequence.context_tokens for sequence in replica.batch)
            kv = 1.0 - in_use / replica.costs.budget_tokens
            prefix = self.known(replica, request) / len(chain(request, replica.costs))
            return rule.queue_weight * queue + rule.kv_weight * kv + rule.prefix_weight * prefix

        chosen = self.pick(replicas, lambda replica: -score(replica))
        self.send(request, chosen, 0)
        table = self.tables.setdefault(chosen.index, OrderedDict())
        for block in self.chains[id(request)]:
            table[block] = None
            table.move_to_end(block)
            if len(table) > rule.table_blocks:
                table.popitem(last=False)
        return chosen

    def note(self, request, replica):
        """Hear of a request that btb sends: it waits, but is not in the table."""
        self.send(request, replica, 0)

    def waiting(self, replica, now_s):
        """Requests whose prefill has not begun."""
        return sum(served.start_s < 0 or served.start_s > now_s for served in self.mine(replica))

    def known(self, replica, request):
        """Leading blocks of a prompt in a replica's table."""
        table = self.tables.get(replica.index, {})
        blocks = 0
        while blocks < len(request.blocks) and request.blocks[: blocks + 1] in table:
            blocks += 1
        return blocks


NOWHERE = SimpleNamespace(index=-1, queue=[])  # where a request goes that is turned away


class Mooncake(Router):
    """The smallest estimated TTFT."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        giver = max(replicas, key=lambda replica: matched(replica, request))
        best = matched(giver, request)
        estimates = [self.estimate(request, replica, best) for replica in replicas]
        slo_s = self.parameters.mooncake.ttft_slo_s
        if slo_s is not None and min(estimates) > slo_s:
            return NOWHERE
        chosen = replicas[estimates.index(min(estimates))]
        prefix = self.prefix(request, chosen, best)
        if prefix > matched(chosen, request):
            self.transfer(index, request, giver, chosen, prefix)
        self.send(request, chosen, request.input_tokens - hit_tokens(chosen, request, prefix))
        return chosen

    def note(self, request, replica):
        """Hear of a request that btb sends."""
        found = matched(replica, request)
        self.send(request, replica, request.input_tokens - hit_tokens(replica, request, found))

    def prefix(self, request, replica, best):
        """How much of the prompt it would find there, after the transfer where one is assumed."""
        own = matched(replica, request)
        return best if best / max(own, 1) > self.parameters.mooncake.balancing_threshold else own

    def estimate(self, request, replica, best):
        """Its TTFT there."""
        costs = replica.costs
        prefix = self.prefix(request, replica, best)
        transfer_s = costs.load_s(prefix - matched(replica, request), costs.rdma_bytes_per_s)
        queued = sum(self.sent[id(served.request)] for served in replica.queue if id(served.request) in self.sent)
        queue_s = max(0.0, replica.now_s - request.arrival_s) + costs.prefill_s(queued)
        return transfer_s + queue_s + costs.prefill_s(request.input_tokens - hit_tokens(replica, request, prefix))


class BtbOnAny(naive.Btb):
    """`btb` whose fallback may move KV too."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.fallback.copies = self.copies

    @property
    def served(self):
        """What became of the requests so far."""
        return self.fallback.served

    @served.setter
    def served(self, served):
        if hasattr(self, "fallback"):
            self.fallback.served = served


ROUTERS = {
    "prefix_hash": PrefixHash,
    "pull": Pull,
    "dynamo": Dynamo,
    "llm_d": LlmD,
    "mooncake": Mooncake,
    "preble": Preble,
    "btb": BtbOnAny,
}


def with_routers():
    """A context in which the twin knows the routers too."""
    return mock.patch.dict(naive.POLICIES, ROUTERS)
