"""Routers that keep a radix tree of the prompts they have routed, again, slow and obvious; and two random choices.

Like `naive`, it shares no code with btbench. A prompt is a text whose symbols are its blocks, and one more that nobody
else has for the tokens that its blocks leave.
"""

from itertools import count
from unittest import mock

import naive


def common_length(one, other):
    """How many symbols two texts begin with alike."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def text_of(request, block_tokens):
    """A prompt as (symbol, tokens of it), in order."""
    left, text = request.input_tokens, []
    for block in request.blocks:
        text.append((block, min(block_tokens, left)))
        left -= text[-1][1]
    return [*text, (object(), left)] if left else text


class Node:
    """A stretch of text that one or more prompts go through, and what follows it."""

    def __init__(self, text, remembered, parent):
        self.text = text  # of (symbol, tokens)
        self.parent = parent
        self.children = []
        self.used = {}  # owner to the time of its last access
        self.remembered = remembered

    @property
    def symbols(self):
        """What a prompt is matched against."""
        return [symbol for symbol, _ in self.text]

    @property
    def tokens(self):
        """The length of the text."""
        return sum(tokens for _, tokens in self.text)


class RadixTree:
    """Texts by what they have in common, each node owned by the replicas that its prompts were routed to."""

    def __init__(self):
        self.root = Node([], None, None)
        self.clock = count()

    def nodes(self):
        """All but the root."""
        found = list(self.root.children)
        for node in found:
            found += node.children
        return found

    def walk(self, symbols):
        """Where the walk along a text stops: the node, symbols of that node reached, symbols matched in all."""
        node, inside, matched = self.root, 0, 0
        while inside == len(node.text):
            following = [child for child in node.children if child.symbols[:1] == symbols[matched : matched + 1]]
            if not following:
                break
            (node,) = following
            inside = common_length(node.symbols, symbols[matched:])
            matched += inside
        return node, inside, matched

    def split(self, node, at):
        """The node's first symbols become a node of their own above it, with all that is known of it."""
        upper = Node(node.text[:at], node.remembered, node.parent)
        upper.used = dict(node.used)
        upper.children = [node]
        siblings = node.parent.children
        siblings[siblings.index(node)] = upper
        node.text = node.text[at:]
        node.parent = upper
        return upper

    def insert(self, text, owner):
        """A replica becomes an owner of all nodes of a text."""
        node, inside, matched = self.walk([symbol for symbol, _ in text])
        if inside < len(node.text):
            node = self.split(node, inside)
        if matched < len(text):
            node.children.append(Node(text[matched:], owner, node))
            node = node.children[-1]
        now = next(self.clock)
        while node is not self.root:
            node.used[owner] = now
            node = node.parent

    def remove(self, node):
        """A node that nobody owns goes; the last of its siblings takes its place."""
        siblings = node.parent.children
        siblings[siblings.index(node)] = siblings[-1]
        siblings.pop()

    def size(self, owner):
        """Tokens of all that a replica owns."""
        return sum(node.tokens for node in self.nodes() if owner in node.used)

    def evict_of(self, owner):
        """A replica loses the leaf of what it owns that it used longest ago."""
        mine = [node for node in self.nodes() if owner in node.used]
        leaves = [node for node in mine if not any(owner in child.used for child in node.children)]
        oldest = min(leaves, key=lambda node: node.used[owner])
        del oldest.used[owner]
        if not oldest.used:
            self.remove(oldest)

    def evict(self):
        """The leaf that was used longest ago goes, whoever owns it."""
        leaves = [node for node in self.nodes() if not node.children]
        self.remove(min(leaves, key=lambda node: max(node.used.values())))


class Sglang(naive.Policy):
    """SGLang's router: an owner of the matched prefix, whoever that is."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.tree = RadixTree()
        self.ticks = 0  # of the eviction timer

    def choose(self, index, request, replicas):
        """The replica for this request."""
        self.tick(request.arrival_s, replicas)
        text = text_of(request, replicas[0].costs.block_tokens)
        chosen = self.route(request, text, replicas)
        self.tree.insert(text, chosen.index)
        return chosen

    def tick(self, now_s, replicas):
        """Evict as often as the timer fired since the last request."""
        rule = self.parameters.sglang
        while (self.ticks + 1) * rule.eviction_interval_s <= now_s:
            self.ticks += 1
            for replica in replicas:
                while self.tree.size(replica.index) > rule.max_tree_tokens:
                    self.tree.evict_of(replica.index)

    def route(self, request, text, replicas):
        """Balance first, then prefix, then load or tree size."""
        rule = self.parameters.sglang
        least = min(replica.load for replica in replicas)
        most = max(replica.load for replica in replicas)
        first_least = next(replica for replica in replicas if replica.load == least)
        if most - least > rule.balance_abs_threshold and most > rule.balance_rel_threshold * least:
            return first_least
        node, inside, matched = self.tree.walk([symbol for symbol, _ in text])
        matched_tokens = sum(tokens for _, tokens in text[:matched])
        if matched_tokens / request.input_tokens > rule.cache_threshold:
            is_between = inside == len(node.text) and matched_tokens < request.input_tokens
            return replicas[self.owner(self.slip(node, is_between))]
        if rule.version == "0.2.2":
            return min(replicas, key=lambda replica: self.tree.size(replica.index))
        return first_least

    def slip(self, node, is_between):
        """By one character into a child, where some of the prompt is left between the node and its children."""
        chance = self.parameters.sglang.sub_block_match
        if chance and self.random.getrandbits(32) < chance * 2**32 and is_between and node.children:
            return self.random.choice(node.children)
        return node

    def owner(self, node):
        """The remembered owner if it still owns the node, else any; before 0.3.2 always any."""
        if self.parameters.sglang.version != "0.3.2":
            return self.random.choice(sorted(node.used))
        if node.remembered not in node.used:
            node.remembered = self.random.choice(sorted(node.used))
        return node.remembered


class Smg(naive.Policy):
    """SGLang's successor: the least loaded holder of the matched prefix, unless that one is far above the mean."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.tree = RadixTree()

    def choose(self, index, request, replicas):
        """The replica for this request."""
        text = text_of(request, replicas[0].costs.block_tokens)
        chosen = self.route(request, text, replicas)
        self.tree.insert(text, chosen.index)
        while sum(node.tokens for node in self.tree.nodes()) > self.parameters.smg.max_tree_tokens:
            self.tree.evict()
        return chosen

    def route(self, request, text, replicas):
        """Holders first, then the gate."""
        rule = self.parameters.smg
        node, _, matched = self.tree.walk([symbol for symbol, _ in text])
        if sum(tokens for _, tokens in text[:matched]) / request.input_tokens > rule.cache_threshold:
            holder = self.least_load([replica for replica in replicas if replica.index in node.used])
            mean = sum(replica.load for replica in replicas) / len(replicas)
            if not (
                holder.load > rule.balance_rel_threshold * mean and holder.load > mean + rule.balance_abs_threshold
            ):
                return holder
        return self.least_load(replicas)


class PowerOfTwo(naive.Policy):
    """The less loaded of two different ones."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        first = self.random.choice(replicas)
        others = [replica for replica in replicas if replica is not first]
        if not others:
            return first
        second = self.random.choice(others)
        return second if second.load < first.load else first


ROUTERS = {"sglang": Sglang, "smg": Smg, "power_of_two": PowerOfTwo}


def with_trees():
    """Let the twin know these policies too, `btb` among them as what it falls back on."""
    return mock.patch.dict(naive.POLICIES, ROUTERS)
