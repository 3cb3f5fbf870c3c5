"""Names a shell completes behind an option or an argument: `btbench replay -p ca<TAB>`."""

from collections.abc import Iterable

# A shell waits for each of these, so that they import what they need and no more.


def scenario_names(incomplete: str) -> list[str]:
    """The built-in scenarios."""
    from btbench.scenario import scenario_files

    return _beginning(scenario_files(), incomplete)


def policy_names(incomplete: str) -> list[str]:
    """The built-in policies."""
    from btbench.policies.registry import NAMES

    return _beginning(NAMES, incomplete)


def setup_names(incomplete: str) -> list[str]:
    """The setups of the paper, which can be named beside any scenario."""
    from btbench.scenario import load_scenario

    return _beginning([setup.name for setup in load_scenario("paper").setups], incomplete)


def trace_names(incomplete: str) -> list[str]:
    """The traces of the catalogue."""
    from btbench.sources.catalogue import entries

    return _beginning(entries(), incomplete)


def model_names(incomplete: str) -> list[str]:
    """The built-in models."""
    from btbench.cluster.models import MODELS

    return _beginning(MODELS, incomplete)


def gpu_names(incomplete: str) -> list[str]:
    """The built-in GPUs."""
    from btbench.cluster.gpus import GPUS

    return _beginning(GPUS, incomplete)


def metric_names(incomplete: str) -> list[str]:
    """The metrics of a summary."""
    from btbench.results.metrics import BY_NAME

    return _beginning(BY_NAME, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
