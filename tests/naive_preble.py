"""`preble` again, slow and obvious: a radix tree of nodes, and a list of the hits that count as load."""

from dataclasses import dataclass, field

from naive_router_base import Router, chain


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
