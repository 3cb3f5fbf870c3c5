"""The routers people run again, slow and obvious, on the twin of the cluster model: dicts, lists, sets of blocks.

Like `naive`, it shares no code with btbench. Prompts are known to a router by all their blocks up to some depth, so
that the same block behind different ones is another.
"""

from collections import OrderedDict
from math import ceil, exp
from types import SimpleNamespace
from unittest import mock

import naive
from xxhash import xxh32_intdigest


def chain(request, costs):
    """What a prompt is made of: each block with all before it, then a fresh one for each block of tokens not listed."""
    needed = ceil(request.input_tokens / costs.block_tokens)
    listed = [request.blocks[: depth + 1] for depth in range(len(request.blocks))]
    return listed + [object() for _ in range(needed - len(listed))]


def matched(replica, request):
    """Leading blocks of a prompt that a replica has cached."""
    return sum(replica.cache.match(request.blocks))


def hit_tokens(replica, request, blocks):
    """Tokens that so many leading blocks save."""
    costs = replica.costs
    return min(blocks * costs.block_tokens, len(request.blocks) * costs.block_tokens, request.input_tokens)


class Router(naive.Policy):
    """What several of them need."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.copies = []
        self.sent = {}  # by request: tokens to prefill, as reckoned when it was sent
        self.chains = {}  # by request: what its prompt is made of

    def random_32(self):
        """The next output of the generator."""
        return self.random.getrandbits(32)

    def mine(self, replica):
        """What runs and waits on a replica and was sent by this router."""
        there = [*(sequence.served for sequence in replica.batch), *replica.queue]
        return [served for served in there if id(served.request) in self.sent]

    def send(self, request, replica, tokens):
        """Note a request down."""
        self.sent[id(request)] = tokens
        self.chains[id(request)] = chain(request, replica.costs)

    def transfer(self, index, request, giver, taker, blocks):
        """Bring the first blocks of a prompt to a replica, ahead of whatever it does next."""
        missing = []
        for block in request.blocks[:blocks]:
            if block not in taker.cache.hbm and block not in taker.cache.ram and block not in missing:
                missing.append(block)
        if missing:
            start_s = max(request.arrival_s, taker.now_s)
            seconds = taker.costs.load_s(len(missing), taker.costs.rdma_bytes_per_s)
            taker.now_s = start_s + seconds
            taker.busy_s += seconds
            taker.cache.insert(missing)
            copy = naive.Copy(index, (), giver.index, taker.index, start_s, taker.now_s, landed=True, used=True)
            self.copies.append(copy)


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


ROUTERS = {
    "prefix_hash": PrefixHash,
    "pull": Pull,
    "dynamo": Dynamo,
    "llm_d": LlmD,
    "mooncake": Mooncake,
    "btb": BtbOnAny,
}


def with_routers():
    """A context in which the twin knows the routers too."""
    return mock.patch.dict(naive.POLICIES, ROUTERS)
