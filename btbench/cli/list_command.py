"""`btbench list`: what can be named in a scenario or on the command line."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, get_type_hints

import typer

from btbench.cli.options import DebugOption, Format, FormatOption
from btbench.cli.rows import Rows, print_rows


class What(StrEnum):
    """What `list` knows."""

    policies = "policies"
    models = "models"
    gpus = "gpus"
    scenarios = "scenarios"
    metrics = "metrics"


def list_names(
    what: Annotated[What, typer.Argument(help="What to list.")],
    format: FormatOption = Format.table,
    debug: DebugOption = False,
) -> None:
    """List the policies, models, GPUs, scenarios or metrics.

    With their parameters, defaults, ranges, units and sources.

    \b
    Examples:
      btbench list policies
      btbench list metrics --format markdown
    """
    tables = {
        What.policies: _policies,
        What.models: _models,
        What.gpus: _gpus,
        What.scenarios: _scenarios,
        What.metrics: _metrics,
    }
    print_rows(tables[what](), format, _NOTES.get(what, ()))


_NOTES = {
    What.policies: ('Set in [policy.<name>] of a scenario. A variant: [policy.<your name>] with base = "<policy>".',),
    What.models: ("Source: the models' cards, as used in the published table. Your own: [models.<name>].",),
    What.gpus: (
        "Dense rates of one GPU; disk is one NVMe pool a replica. Source: the makers' data sheets, as used in the "
        "published table. Your own: [gpus.<name>].",
    ),
    What.scenarios: ("Replay one with: btbench replay <name>",),
}


def _policies() -> dict[str, Rows]:
    from btbench.policies.registry import KINDS
    from btbench.scenario.policies import policy_table
    from btbench.scenario.words import allowed, meaning

    parameters = []
    for kind in KINDS:
        table = policy_table(kind)
        hints = get_type_hints(table, include_extras=True)
        parameters += [
            {
                "policy": kind.name,
                "parameter": key,
                "default": field.default,
                "allowed": allowed(hints[key]),
                "meaning": meaning(hints[key]),
            }
            for key, field in table.model_fields.items()
        ]
    policies = [{"policy": kind.name, "rule": kind.summary, "source": kind.source} for kind in KINDS]
    return {"policies": policies, "parameters": parameters}


def _models() -> dict[str, Rows]:
    from btbench.cluster.models import MODELS

    return {
        "models": [
            asdict(model) | {"kv_bytes_per_token": model.kv_bytes_per_token, "weight_bytes": model.weight_bytes}
            for model in MODELS.values()
        ]
    }


def _gpus() -> dict[str, Rows]:
    from btbench.cluster.gpus import GPUS

    return {"gpus": [asdict(gpu) for gpu in GPUS.values()]}


def _scenarios() -> dict[str, Rows]:
    from btbench.scenario import load_scenario, scenario_files

    rows = []
    for name, path in scenario_files().items():
        scenario = load_scenario(path)
        question = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        rows.append(
            {
                "name": name,
                "question": question,
                "trace": scenario.trace.source,
                "setups": ", ".join(setup.name for setup in scenario.setups),
                "policies": ", ".join(policy.name for policy in scenario.policies),
            }
        )
    return {"scenarios": rows}


def _metrics() -> dict[str, Rows]:
    from btbench.results.metrics import METRICS

    return {"metrics": [metric._asdict() for metric in METRICS]}
