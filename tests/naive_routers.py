"""The routers people run again, slow and obvious, on the twin of the cluster model: dicts, lists, sets of blocks.

Like `naive`, it shares no code with btbench. Prompts are known to a router by all their blocks up to some depth, so
that the same block behind different ones is another.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class Node:
    """A node of a radix tree: some blocks in a row, below a parent."""

    blocks: list
    parent: "Node | None" = None
    children: list = field(default_factory=list)
    owners: set = field(default_factory=set)  # replicas it is allocated to

    def path(self):
        """The nodes from the top to this one."""
        return [*(self.parent.path() if self.parent.parent else []), self]

    @property
    def before(self):
        """Blocks above it."""
        return sum(len(node.blocks) for node in self.path()[:-1])

    @property
    def is_long(self):
        """Whether it is longer than what lies above it."""
        return len(self.blocks) > self.before

    def insert(self, blocks):
        """Put blocks in below this node; returns the node they end at."""
        if not blocks:
            return self
        for child in self.children:
            common = 0
            while common < min(len(blocks), len(child.blocks)) and blocks[common] == child.blocks[common]:
                common += 1
            if common == len(child.blocks):
                return child.insert(blocks[common:])
            if common:
                return self.split(child, common).insert(blocks[common:])
        self.children.append(Node(blocks, self))
        return self.children[-1]

    def split(self, child, length):
        """Put a node between this one and a child, for the first blocks of the child."""
        upper = Node(child.blocks[:length], self, [child], set(child.owners))
        self.children[self.children.index(child)] = upper
        child.blocks, child.parent = child.blocks[length:], upper
        return upper


@dataclass(eq=False)
class Hit:
    """One request that counts as load of a node."""

    index: int
    arrival_s: float
    node: Node
    tokens: int


class Preble(Router):
    """Exploit or explore; keep the load even."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.tree = Node([])
        self.hits = []
        self.requests = 0  # since the last rebalancing

    def choose(self, index, request, replicas):
        """The replica for this request."""
        rule = self.parameters.preble
        now_s, block_tokens = request.arrival_s, replicas[0].costs.block_tokens
        self.hits = [hit for hit in self.hits if not hit.arrival_s < now_s - rule.history_s]
        prompt = chain(request, replicas[0].costs)
        last = self.tree.insert(prompt)
        candidates = replicas
        if len(last.blocks) < last.before:
            nearest = [node for node in last.path() if node.owners][-1]
            candidates = [replica for replica in replicas if replica.index in nearest.owners]
        chosen = min(candidates, key=self.cost_s)
        missing = self.missing(last.path(), chosen)
        for node in last.path():
            node.owners.add(chosen.index)
        long = [node for node in last.path() if node.is_long][-1]
        tokens = missing * len(long.blocks) * block_tokens // len(prompt)
        self.hits.append(Hit(index, now_s, long, tokens))
        self.requests += 1
        if self.requests >= rule.rebalance_min_requests_per_replica * len(replicas):
            self.requests = 0
            while self.rebalance(replicas, now_s):
                pass
        return chosen

    def missing(self, path, replica):
        """Blocks behind the first node that is not allocated to a replica."""
        for depth, node in enumerate(path):
            if replica.index not in node.owners:
                return sum(len(node.blocks) for node in path[depth:])
        return 0

    def share(self, node):
        """The load of a node on each of its replicas."""
        return sum(hit.tokens for hit in self.hits if hit.node is node) // len(node.owners)

    def nodes_on(self, replica):
        """The nodes that bring load to a replica, by their oldest hit."""
        nodes = list(dict.fromkeys(hit.node for hit in self.hits))
        return [node for node in nodes if replica.index in node.owners and self.share(node) > 0]

    def cost_s(self, replica, more_tokens=0):
        """What a replica has to do, with so many more tokens of load."""
        ended = [served.request.output_tokens for served in self.served if served.finish_s >= 0]
        answer_tokens = sum(ended) / len(ended) if ended else 0.0
        context_tokens = sum(sequence.context_tokens for sequence in replica.batch)
        step_s = replica.costs.decode_s(1, len(replica.batch), context_tokens)
        tokens = more_tokens + sum(self.share(node) for node in self.nodes_on(replica))
        return replica.costs.prefill_s(tokens) + replica.load * answer_tokens * step_s

    def rebalance(self, replicas, now_s):
        """Move nodes from the dearest replica to the cheapest; whether that has changed anything."""
        rule = self.parameters.preble
        dear, cheap = max(replicas, key=self.cost_s), min(replicas, key=self.cost_s)
        if dear is cheap or self.cost_s(dear) < rule.rebalance_ratio * self.cost_s(cheap):
            return False
        nodes = self.nodes_on(dear)
        if len(nodes) == 1:
            if self.has_slowed(nodes[0], now_s):
                nodes[0].owners.add(cheap.index)
            return False
        has_moved = False
        for node in nodes:
            tokens = self.share(node)
            fits = self.cost_s(cheap, tokens) <= self.cost_s(dear, -tokens)
            if cheap.index not in node.owners and fits:
                node.owners ^= {dear.index, cheap.index}
                has_moved = True
                if self.cost_s(dear) < rule.rebalance_ratio * self.cost_s(cheap):
                    break
        return has_moved

    def has_slowed(self, node, now_s):
        """Whether TTFT has grown from the older half of the history to the newer."""
        rule = self.parameters.preble
        older, newer = [], []
        for hit in self.hits:
            if hit.node is not node or hit.index >= len(self.served):
                continue
            served = self.served[hit.index]
            if served.start_s >= 0 and served.start_s + (served.reuse_s + served.prefill_s) <= now_s:
                half = older if hit.arrival_s < now_s - rule.history_s / 2 else newer
                half.append(served.start_s - hit.arrival_s + served.reuse_s + served.prefill_s)
        if not older or not newer:
            return False
        return sum(newer) / len(newer) >= rule.split_ttft_ratio * (sum(older) / len(older))


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
