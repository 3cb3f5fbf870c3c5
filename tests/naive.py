"""The `paper` cluster model again, slow and obvious: dicts, lists, one class a noun, plain Python numbers.

It shares no code with btbench. It reads the bare numbers of a model, a GPU and a policy's parameters, and
repeats every formula in the order of operations of the model's description, so that engine and twin
agree bit for bit. Blocks are opaque ids: nothing is joined, skipped or worked out ahead.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from math import ceil
from random import Random


class CapacityError(Exception):
    """A model or a request does not fit a replica."""


@dataclass(frozen=True)
class Request:
    """One row of a trace."""

    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple = ()  # ids of the prompt's blocks, in order


@dataclass(eq=False)
class Served:
    """What became of one request."""

    request: Request
    replica: int
    start_s: float = -1.0
    reuse_s: float = -1.0
    prefill_s: float = -1.0
    finish_s: float = -1.0
    hit_tokens: int = -1
    tier: str = ""


@dataclass(eq=False)
class Copy:
    """One prefix on its way to a replica over RDMA."""

    request: int  # at whose arrival it was asked for
    key: tuple
    source: int  # first replica that held it
    target: int
    start_s: float
    ready_s: float
    landed: bool = False
    used: bool = False  # a request with this prefix was admitted at the target and found all of it


class Cache:
    """Prefix blocks of one replica: an LRU list of at most `budget_blocks` in HBM, the rest in RAM."""

    def __init__(self, budget_blocks):
        self.budget_blocks = budget_blocks
        self.hbm = OrderedDict()  # least recently used first
        self.ram = set()
        self.ready_s = {}  # by block: when what brought it in had computed or received it

    def insert(self, blocks, ready_s):
        """Make blocks the most recently used ones; then what is too much moves to RAM.

        Blocks that were in neither tier are there at `ready_s`.
        """
        for block in blocks:
            if block not in self.hbm and block not in self.ram:
                self.ready_s[block] = ready_s
            self.ram.discard(block)
            self.hbm[block] = None
            self.hbm.move_to_end(block)
        while len(self.hbm) > self.budget_blocks:
            block, _ = self.hbm.popitem(last=False)
            self.ram.add(block)

    def match(self, blocks):
        """Leading blocks in HBM and in RAM, up to the first that is in neither."""
        hbm = ram = 0
        for block in blocks:
            if block in self.hbm:
                hbm += 1
            elif block in self.ram:
                ram += 1
            else:
                break
        return hbm, ram

    def holds(self, blocks):
        """Whether all blocks are in HBM."""
        return all(block in self.hbm for block in blocks)


class Costs:
    """What one replica can hold, and how long its work takes."""

    def __init__(self, model, replica, options, block_tokens):
        gpus, gpu = replica.gpus, replica.gpu
        self.flops_per_s = gpus * gpu.flops * options.mfu
        self.hbm_bytes_per_s = gpus * gpu.hbm_bytes_per_s * options.mbu
        self.ram_bytes_per_s = gpus * gpu.pcie_bytes_per_s
        self.rdma_bytes_per_s = gpus * gpu.rdma_bytes_per_s
        self.disk_bytes_per_s = gpu.disk_bytes_per_s
        self.active_params = model.active_params
        self.active_bytes = model.active_params * model.dtype_bytes
        self.kv_bytes_per_token = 2 * model.layers * model.kv_heads * model.head_dim * model.dtype_bytes
        self.block_tokens = block_tokens
        self.block_bytes = self.kv_bytes_per_token * block_tokens
        self.copies_wait = options.copies_wait
        room = gpus * gpu.hbm_bytes - model.params * model.dtype_bytes
        if room < 0:
            raise CapacityError(f"{model.name} does not fit {replica.name}")
        self.budget_tokens = int(room / self.kv_bytes_per_token)
        self.budget_blocks = int(room / self.block_bytes)
        if self.budget_tokens < block_tokens:
            raise CapacityError(f"{model.name} leaves no room for KV on {replica.name}")

    def prefill_s(self, tokens):
        """Time to prefill tokens."""
        return 2 * self.active_params * tokens / self.flops_per_s

    def decode_s(self, steps, sequences, context_tokens):
        """Time of decode steps of a batch whose contexts sum to `context_tokens` at the start."""
        read_tokens = steps * context_tokens + sequences * steps * (steps - 1) / 2
        return (self.active_bytes * steps + self.kv_bytes_per_token * read_tokens) / self.hbm_bytes_per_s

    def load_s(self, blocks, bytes_per_s):
        """Time to move blocks from a tier."""
        return blocks * self.block_bytes / bytes_per_s


@dataclass(eq=False)
class Sequence:
    """One request in the running batch."""

    served: Served
    tokens_left: int
    context_tokens: int


@dataclass(eq=False)
class Replica:
    """One replica with its own clock."""

    index: int
    costs: Costs
    max_batch: int
    disk: set | None  # shared by all replicas; None where there is no disk cache
    cache: Cache = field(init=False)
    now_s: float = 0.0
    busy_s: float = 0.0
    queue: deque = field(default_factory=deque)  # of Served
    batch: list = field(default_factory=list)  # of Sequence
    landed: list = field(default_factory=list)  # of Copy

    def __post_init__(self):
        self.cache = Cache(self.costs.budget_blocks)

    @property
    def load(self):
        """Requests in flight here."""
        return len(self.batch) + len(self.queue)

    def spend(self, seconds):
        """Let the clock run while the replica works."""
        self.now_s += seconds
        self.busy_s += seconds

    def advance(self, until_s=None):
        """Serve until a time, or to the end."""
        while True:
            while self.queue and len(self.batch) < self.max_batch and self.fits(self.queue[0].request):
                self.admit(self.queue.popleft())
            if until_s is not None and self.now_s >= until_s:
                return
            if not self.batch:
                if until_s is not None:
                    self.now_s = until_s
                return
            self.decode(until_s)

    def fits(self, request):
        """Whether the token budget holds one more request; never true of an impossible one."""
        need = request.input_tokens + request.output_tokens
        used = sum(s.served.request.input_tokens + s.served.request.output_tokens for s in self.batch)
        if used + need > self.costs.budget_tokens:
            if not self.batch:
                raise CapacityError(f"{request} does not fit replica {self.index}")
            return False
        return True

    def admit(self, served):
        """Reuse what is cached, prefill the rest, join the batch."""
        request, costs = served.request, self.costs
        blocks, tier, load_s = self.find(request.blocks)
        if tier != "disk":
            self.mark_used_copy(request.blocks, blocks)
        cacheable_tokens = min(len(request.blocks) * costs.block_tokens, request.input_tokens)
        served.hit_tokens = min(blocks * costs.block_tokens, cacheable_tokens)
        served.tier = tier if served.hit_tokens else "miss"
        served.reuse_s = min(load_s, costs.prefill_s(served.hit_tokens))
        served.prefill_s = costs.prefill_s(request.input_tokens - served.hit_tokens)
        served.start_s = self.now_s
        self.batch.append(Sequence(served, request.output_tokens, request.input_tokens))
        self.spend(served.reuse_s + served.prefill_s)
        all_blocks = ceil((request.input_tokens + request.output_tokens) / costs.block_tokens)
        fresh = [object() for _ in range(all_blocks - len(request.blocks))]
        resident = [*request.blocks, *fresh]
        self.cache.insert(resident, self.now_s)
        if self.disk is not None:
            self.disk.update(resident)

    def find(self, blocks):
        """The best cached prefix: blocks, tier, load time."""
        hbm, ram = self.cache.match(blocks)
        local = (hbm + ram, "ram" if ram else "hbm", self.costs.load_s(ram, self.costs.ram_bytes_per_s))
        if self.disk is None:
            return local
        on_disk = 0
        while on_disk < len(blocks) and blocks[on_disk] in self.disk:
            on_disk += 1
        disk = (on_disk, "disk", self.costs.load_s(on_disk, self.costs.disk_bytes_per_s))
        if disk[0] != local[0]:
            return max(disk, local, key=lambda found: found[0])
        return disk if disk[2] < local[2] else local

    def mark_used_copy(self, blocks, found):
        """The latest landed copy of a request's prefix, not yet used, has been of use."""
        for copy in reversed(self.landed):
            if not copy.used and found >= len(copy.key) and copy.key == blocks[: len(copy.key)]:
                copy.used = True
                return

    def decode(self, until_s):
        """Decode until a sequence ends or the time is up, but at least one step."""
        context_tokens = sum(sequence.context_tokens for sequence in self.batch)

        def time_of(steps):
            return self.costs.decode_s(steps, len(self.batch), context_tokens)

        steps = min(sequence.tokens_left for sequence in self.batch)
        if until_s is not None and time_of(steps) > until_s - self.now_s:
            steps = max(1, bisect_right(range(1, steps), until_s - self.now_s, key=time_of))
        self.spend(time_of(steps))
        for sequence in self.batch:
            sequence.tokens_left -= steps
            sequence.context_tokens += steps
            if sequence.tokens_left == 0:
                sequence.served.finish_s = self.now_s
        self.batch = [sequence for sequence in self.batch if sequence.tokens_left]


class Policy:
    """Chooses a replica for each request. `parameters` are those of all policies."""

    def __init__(self, parameters, seed):
        self.parameters = parameters
        self.random = Random(seed)
        self.copies = []  # all that were ever started, in that order
        self.served = []  # what became of the requests so far

    def watch(self, t, replicas):
        """What a router sees on the way to an arrival at `t`: nothing, it sees the arrival itself."""

    def land(self, t, replicas):
        """What was under way and is there by now enters the caches."""

    def note(self, request, replica):
        """Hear of a request that another policy has sent to a replica."""

    def leave_s(self, giver, blocks):
        """From when on the giver can send blocks: at any time, or, where copies wait, once it has the last of them."""
        return max(giver.cache.ready_s[block] for block in blocks) if giver.costs.copies_wait else 0.0

    def pick(self, replicas, key):
        """A replica with the smallest key, drawn uniformly."""
        smallest = min(key(replica) for replica in replicas)
        return self.random.choice([replica for replica in replicas if key(replica) == smallest])

    def least_load(self, replicas):
        """A replica with the fewest requests in flight."""
        return self.pick(replicas, lambda replica: replica.load)

    def cache_aware(self, request, replicas):
        """The replica with the longest cached prefix, unless the load is out of balance."""
        least = min(replica.load for replica in replicas)
        most = max(replica.load for replica in replicas)
        limits = self.parameters.cache_aware
        if most > limits.balance_abs_threshold and most > limits.balance_rel_threshold * least:
            return self.least_load(replicas)
        return self.pick(replicas, lambda replica: (-sum(replica.cache.match(request.blocks)), replica.load))


class LeastLoad(Policy):
    """Fewest requests in flight."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        return self.least_load(replicas)


class CacheAware(Policy):
    """Longest cached prefix."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        return self.cache_aware(request, replicas)


class RoundRobin(Policy):
    """Each in turn."""

    counter = 0

    def choose(self, index, request, replicas):
        """The replica for this request."""
        self.counter += 1
        return replicas[self.counter % len(replicas)]


class RandomChoice(Policy):
    """Any."""

    def choose(self, index, request, replicas):
        """The replica for this request."""
        return self.random.choice(replicas)


class Btb(Policy):
    """Copies a prefix that arrives in bursts to several replicas, and sends its requests to them."""

    def __init__(self, parameters, seed):
        super().__init__(parameters, seed)
        self.fallback = POLICIES[parameters.btb.fallback](parameters, seed)
        self.fallback.random = self.random  # btb's own draws
        self.arrivals_s = {}  # by key

    def land(self, t, replicas):
        """Copies that are ready enter the caches."""
        for copy in self.copies:
            if not copy.landed and copy.ready_s <= t + 1e-12:
                replicas[copy.target].cache.insert(copy.key, copy.ready_s)
                replicas[copy.target].landed.append(copy)
                copy.landed = True

    def is_awaited(self, copy):
        """Whether a copy is still under way, as far as the router knows."""
        return not copy.landed

    def choose(self, index, request, replicas):
        """The replica for this request."""
        t, rule = request.arrival_s, self.parameters.btb
        if len(request.blocks) < rule.prefix_blocks:
            return self.fallback.choose(index, request, replicas)
        key = request.blocks[: rule.prefix_blocks]
        recent = [s for s in [*self.arrivals_s.get(key, []), t] if not s < t - rule.window_s]
        self.arrivals_s[key] = recent
        if len(recent) < rule.threshold:
            return self.fallback.choose(index, request, replicas)
        holders = [replica for replica in replicas if replica.cache.holds(key)]
        if not holders:
            return self.fallback.choose(index, request, replicas)
        self.spread(index, t, key, holders, replicas)
        chosen = self.least_load(holders)
        self.fallback.note(request, chosen)
        return chosen

    def spread(self, index, t, key, holders, replicas):
        """Start copies of a prefix until enough replicas hold it or wait for it."""
        waiting = [copy.target for copy in self.copies if copy.key == key and self.is_awaited(copy)]
        need = self.parameters.btb.copies - len(holders) - len(waiting)
        others = [r for r in replicas if r not in holders and r.index not in waiting]
        for replica in sorted(others, key=lambda replica: replica.load)[: max(0, need)]:
            seconds = replica.costs.load_s(len(key), replica.costs.rdma_bytes_per_s)
            start_s = max(t, replica.now_s, self.leave_s(holders[0], key))
            replica.now_s = max(t, replica.now_s) + seconds  # occupied at once, however late the blocks come
            replica.busy_s += seconds
            self.copies.append(Copy(index, key, holders[0].index, replica.index, start_s, start_s + seconds))


POLICIES = {
    "least_load": LeastLoad,
    "cache_aware": CacheAware,
    "btb": Btb,
    "round_robin": RoundRobin,
    "random": RandomChoice,
}


@dataclass
class Replay:
    """One window replayed."""

    served: list  # of Served, in arrival order
    copies: list  # of Copy, in the order they were started
    replicas: list  # of Replica, as they are at the end


def replay(requests, block_tokens, setup, options, policy_name, parameters, seed=42):
    """Replay one window. Raises CapacityError where the model or a request does not fit."""
    return serve(requests, block_tokens, setup, options, POLICIES[policy_name](parameters, seed))


def serve(requests, block_tokens, setup, options, policy):
    """Replay one window under a policy object."""
    disk = set() if options.disk_cache else None
    costs = [Costs(setup.model, replica, options, block_tokens) for replica in setup.replicas]
    replicas = [Replica(index, cost, options.max_batch, disk) for index, cost in enumerate(costs)]
    served = policy.served = []
    for index, request in enumerate(sorted(requests, key=lambda request: request.arrival_s)):
        policy.watch(request.arrival_s, replicas)
        for replica in replicas:
            replica.advance(request.arrival_s)
        policy.land(request.arrival_s, replicas)
        chosen = policy.choose(index, request, replicas)
        served.append(Served(request, chosen.index))
        chosen.queue.append(served[-1])
    for replica in replicas:
        replica.advance()
    return Replay(served, policy.copies, replicas)
