"""What the twin's router can know where its knowledge is old: timestamped reports in a list, replicas as they were."""

from collections import OrderedDict
from fractions import Fraction

import naive


def copy_of(cache):
    """A cache as it is now, to be kept."""
    kept = naive.Cache(cache.budget_blocks)
    kept.hbm, kept.ram = OrderedDict(cache.hbm), set(cache.ram)
    kept.ready_s = cache.ready_s  # which no router knows
    return kept


class Report:
    """Every replica as it was at a time."""

    def __init__(self, taken_s, landed_s, replicas, sent):
        self.taken_s = taken_s
        self.landed_s = landed_s  # the last arrival so far, at which copies land
        self.loads = [replica.load for replica in replicas]
        self.queued_tokens = [sum(s.request.input_tokens for s in replica.queue) for replica in replicas]
        self.context_tokens = [sum(s.context_tokens for s in replica.batch) for replica in replicas]
        self.clocks_s = [replica.now_s for replica in replicas]
        self.caches = [copy_of(replica.cache) for replica in replicas]
        self.sent = list(sent)


class SeenReplica:
    """A replica as a router knows it. Its clock is the real one, for a copy sets it when it is ordered."""

    def __init__(self, replica, load, cache):
        self.real = replica
        self.index, self.costs = replica.index, replica.costs
        self.load, self.cache = load, cache

    @property
    def now_s(self):
        """The real clock."""
        return self.real.now_s

    @now_s.setter
    def now_s(self, value):
        self.real.now_s = value

    @property
    def busy_s(self):
        """The real work done."""
        return self.real.busy_s

    @busy_s.setter
    def busy_s(self, value):
        self.real.busy_s = value


def last_multiple(time_s, interval_s):
    """The last k × interval_s, as a float, that is not after a time."""
    k = int(Fraction(time_s) / Fraction(interval_s)) + 1
    while k * interval_s > time_s:
        k -= 1
    return k * interval_s


class Delayed:
    """A policy that hears of the cluster `delay_s` late, every `interval_s`, and of its own decisions at once."""

    def __init__(self, policy, requests, delay_s, interval_s, counts_itself=False):
        self.policy = policy
        self.counts_itself = counts_itself  # the answers it has sent on, whatever reports say
        self.delay_s, self.interval_s = delay_s, interval_s
        looks = {last_multiple(r.arrival_s - delay_s, interval_s) for r in requests if r.arrival_s >= delay_s}
        self.looks = sorted(looks)  # when somebody will have wanted to see the cluster
        self.reports = []
        self.landed_s = -1.0
        self.sent = []  # requests sent to each replica
        self.copies = policy.copies
        policy.is_awaited = self.is_awaited

    def watch(self, t, replicas):
        """Take the reports that are due before an arrival."""
        self.sent = self.sent or [0] * len(replicas)
        while self.looks and self.looks[0] < t:
            for replica in replicas:
                replica.advance(self.looks[0])
            self.take(replicas)

    def land(self, t, replicas):
        """Copies land at arrivals; a report of this very moment is taken behind that."""
        self.policy.land(t, replicas)
        self.landed_s = t
        if self.looks and self.looks[0] == t:
            self.take(replicas)

    def take(self, replicas):
        """Take the report that is due."""
        self.reports.append(Report(self.looks.pop(0), self.landed_s, replicas, self.sent))

    def choose(self, index, request, replicas):
        """The replica for this request."""
        chosen = self.policy.choose(index, request, self.seen(request.arrival_s, replicas)).real
        self.sent[chosen.index] += 1
        return chosen

    def latest(self, now_s):
        """The latest report that has arrived, if any."""
        seen_s = last_multiple(now_s - self.delay_s, self.interval_s) if now_s >= self.delay_s else -1.0
        arrived = [report for report in self.reports if report.taken_s <= seen_s]
        return arrived[-1] if arrived else None

    def seen(self, now_s, replicas):
        """The replicas as this router knows them: as reported, and with what it has sent there since."""
        self.report = self.latest(now_s)
        if self.report is None:
            return [
                SeenReplica(replica, self.load(r, replica), naive.Cache(replica.costs.budget_blocks))
                for r, replica in enumerate(replicas)
            ]
        then = self.report
        return [SeenReplica(replica, self.load(r, replica), then.caches[r]) for r, replica in enumerate(replicas)]

    def load(self, r, replica):
        """Requests in flight: as reported, and what was sent there since."""
        if self.counts_itself:
            return replica.load
        return self.report.loads[r] + self.sent[r] - self.report.sent[r] if self.report else self.sent[r]

    def is_awaited(self, copy):
        """A copy is under way until a report has come that was taken after it landed."""
        return self.report is None or copy.ready_s > self.report.landed_s + 1e-12


def replay(problem, policy_name):
    """Replay a problem with the delay and the interval that its options name."""
    policy = naive.POLICIES[policy_name](problem.parameters, problem.seed)
    options, deciding = problem.options, {policy_name, problem.parameters.btb.fallback if policy_name == "btb" else ""}
    counts = bool(deciding & {"sglang", "smg", "prefix_hash"})
    delayed = Delayed(policy, problem.requests, options.signal_delay_s, options.signal_interval_s, counts)
    return naive.serve(problem.requests, problem.block_tokens, problem.setup, problem.options, delayed)
