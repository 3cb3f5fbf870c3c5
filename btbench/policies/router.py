"""The chain of kernels: one policy number, one branch. The order is that of `registry.KINDS`, which a test checks.

An if-chain, because a compiled function handed over as an argument would be compiled anew by every process.
"""

from btbench.jit import choose_by_types, inlined
from btbench.policies.btb import route_burst
from btbench.policies.cache_aware import route_cache_aware
from btbench.policies.custom import CallbackMemory, route_callback
from btbench.policies.dynamo import note_dynamo, route_dynamo
from btbench.policies.least_load import route_least_load
from btbench.policies.llm_d import note_llm_d, route_llm_d
from btbench.policies.memory import PaperMemory, PluginMemory
from btbench.policies.mooncake import note_mooncake, route_mooncake
from btbench.policies.power_of_two import route_power_of_two
from btbench.policies.preble import route_preble
from btbench.policies.prefix_hash import route_prefix_hash
from btbench.policies.pull import route_pull
from btbench.policies.random import route_random
from btbench.policies.round_robin import route_round_robin
from btbench.policies.sglang import route_sglang
from btbench.policies.smg import route_smg

LEAST_LOAD, CACHE_AWARE, BTB, ROUND_ROBIN, RANDOM = range(5)
POWER_OF_TWO, SGLANG, SMG, PREFIX_HASH, PULL, DYNAMO, LLM_D, MOONCAKE, PREBLE = range(5, 14)


@inlined
def route_paper(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """The paper's five."""
    if code == BTB:
        r = route_burst(view, i, parameters.btb, memory, draws, orders)
        if r >= 0:
            return r
        code = parameters.btb.fallback
    if code == LEAST_LOAD:
        return route_least_load(view, draws)
    if code == CACHE_AWARE:
        return route_cache_aware(view, i, parameters.cache_aware, memory, draws)
    if code == ROUND_ROBIN:
        return route_round_robin(view, memory)
    return route_random(view, draws)


@inlined
def note_burst(code, view, i, r, memory):  # type: ignore[no-untyped-def]
    """The fallback's account of what runs and waits hears of what btb routes; its tree of prompts does not."""
    if code == DYNAMO:
        note_dynamo(view, i, r, memory.dynamo, memory.candidates)
    elif code == LLM_D:
        note_llm_d(i, r, memory.llm_d)
    elif code == MOONCAKE:
        note_mooncake(view, i, r, memory.mooncake, memory)


@inlined
def route_any(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """All of them."""
    if code == BTB:
        r = route_burst(view, i, parameters.btb, memory, draws, orders)
        code = parameters.btb.fallback
        if r >= 0:
            note_burst(code, view, i, r, memory)
            return r
    if code <= RANDOM:
        return route_paper(code, view, i, parameters, memory, draws, orders)
    if code == POWER_OF_TWO:
        return route_power_of_two(view, draws)
    if code == SGLANG:
        return route_sglang(view, i, parameters.sglang, memory.sglang, draws)
    if code == SMG:
        return route_smg(view, i, parameters.smg, memory.smg, draws)
    if code == PREFIX_HASH:
        return route_prefix_hash(view, i, parameters.prefix_hash, memory.prefix_hash, draws)
    if code == PULL:
        return route_pull(view, i, memory, draws, orders)
    if code == DYNAMO:
        return route_dynamo(view, i, parameters.dynamo, memory.dynamo, memory.candidates, draws)
    if code == LLM_D:
        return route_llm_d(view, i, parameters.llm_d, memory.llm_d, memory.candidates, draws)
    if code == MOONCAKE:
        return route_mooncake(view, i, parameters.mooncake, memory.mooncake, memory, orders)
    return route_preble(view, i, parameters.preble, memory.preble, memory.candidates)


def route(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """The replica that policy number `code` sends request i to; moves of KV it asks for are left in `orders`."""
    if isinstance(memory, CallbackMemory):
        return route_callback(view, i, memory)
    if isinstance(memory, PluginMemory):
        return memory.function(view, i, memory.memory, draws, orders)
    chain = route_paper if isinstance(memory, PaperMemory) else route_any
    return chain(code, view, i, parameters, memory, draws, orders)


@choose_by_types(route)
def _route(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    if memory.instance_class is CallbackMemory:

        def callback(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
            return route_callback(view, i, memory)

        return callback
    if memory.instance_class is PluginMemory:

        def plugin(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
            return memory.function(view, i, memory.memory, draws, orders)

        return plugin
    return (route_paper if memory.instance_class is PaperMemory else route_any).py_func
