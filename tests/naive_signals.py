"""What the twin's router can know where its knowledge is old: timestamped reports in a list, replicas as they were."""

from collections import OrderedDict

import naive


def copy_of(cache):
    """A cache as it is now, to be kept."""
    kept = naive.Cache(cache.budget_blocks)
    kept.hbm, kept.ram = OrderedDict(cache.hbm), set(cache.ram)
    return kept


class Report:
    """Every replica as it was at a time."""

    def __init__(self, taken_s, replicas, sent):
        self.taken_s = taken_s
        self.loads = [replica.load for replica in replicas]
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


class Delayed:
    """A policy that hears of the cluster `delay_s` late, every `interval_s`, and of its own decisions at once."""

    def __init__(self, policy, delay_s, interval_s):
        self.policy = policy
        self.delay_s, self.interval_s = delay_s, interval_s
        self.reports = []
        self.ticks = 0  # multiples of the interval that have passed
        self.sent = []  # requests sent to each replica
        self.copies, self.land = policy.copies, policy.land
        policy.is_awaited = self.is_awaited

    def choose(self, index, request, replicas):
        """The replica for this request."""
        self.sent = self.sent or [0] * len(replicas)
        if self.ticks * self.interval_s <= request.arrival_s:
            self.reports.append(Report(request.arrival_s, replicas, self.sent))
        while self.ticks * self.interval_s <= request.arrival_s:
            self.ticks += 1
        chosen = self.policy.choose(index, request, self.seen(request.arrival_s, replicas)).real
        self.sent[chosen.index] += 1
        return chosen

    def latest(self, now_s):
        """The latest report that has arrived, if any."""
        arrived = [report for report in self.reports if report.taken_s + self.delay_s <= now_s]
        return arrived[-1] if arrived else None

    def seen(self, now_s, replicas):
        """The replicas as this router knows them: as reported, and with what it has sent there since."""
        self.report = self.latest(now_s)
        if self.report is None:
            return [
                SeenReplica(replica, sent, naive.Cache(replica.costs.budget_blocks))
                for replica, sent in zip(replicas, self.sent, strict=True)
            ]
        then = self.report
        return [
            SeenReplica(replica, then.loads[r] + self.sent[r] - then.sent[r], then.caches[r])
            for r, replica in enumerate(replicas)
        ]

    def is_awaited(self, copy):
        """A copy is under way until a report has come that was taken after it landed."""
        return self.report is None or copy.ready_s > self.report.taken_s + 1e-12


def replay(problem, policy_name):
    """Replay a problem with the delay and the interval that its options name."""
    policy = naive.POLICIES[policy_name](problem.parameters, problem.seed)
    delayed = Delayed(policy, problem.options.signal_delay_s, problem.options.signal_interval_s)
    return naive.serve(problem.requests, problem.block_tokens, problem.setup, problem.options, delayed)
