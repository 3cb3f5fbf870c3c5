"""What the twins of the routers share: what a prompt is made of, and a router's account of what it has sent.

Prompts are known to a router by all their blocks up to some depth, so that the same block behind different ones is
another.
"""

from math import ceil

import naive


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
            start_s = max(request.arrival_s, taker.now_s, self.leave_s(giver, missing))
            seconds = taker.costs.load_s(len(missing), taker.costs.rdma_bytes_per_s)
            taker.now_s = start_s + seconds
            taker.busy_s += seconds
            taker.cache.insert(missing, taker.now_s)
            copy = naive.Copy(index, (), giver.index, taker.index, start_s, taker.now_s, landed=True, used=True)
            self.copies.append(copy)
