"""`btbench list`: what can be named in a scenario or on the command line."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from btbench.cli.options import DebugOption, Format, FormatOption
from btbench.cli.policy_blocks import policy_blocks, policy_rows
from btbench.cli.rows import Rows, plain_tables, print_rows
from btbench.errors import UsageError, nearest


class What(StrEnum):
    """What `list` knows."""

    policies = "policies"
    models = "models"
    gpus = "gpus"
    scenarios = "scenarios"
    metrics = "metrics"


def list_names(
    what: Annotated[What, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    format: FormatOption = Format.table,
    debug: DebugOption = False,
) -> None:
    """List the policies, models, GPUs, scenarios or metrics.

    With their parameters, defaults, ranges, units and sources, and what a policy leaves out of the real router.

    \b
    Examples:
      btbench list policies
      btbench list policies sglang
      btbench list metrics --format markdown
    """
    tables = {
        What.policies: policy_rows,
        What.models: _models,
        What.gpus: _gpus,
        What.scenarios: _scenarios,
        What.metrics: _metrics,
    }
    listed: Mapping[str, Rows] = tables[what]()
    if name is not None:
        listed = _only(name, what, listed)
    print_rows(listed, format, _NOTES.get(what, ()), policy_blocks if what is What.policies else plain_tables)


def _only(name: str, what: What, listed: Mapping[str, Rows]) -> Mapping[str, Rows]:
    """The rows of one, whose name stands in the first column of each table."""
    found = {title: [row for row in rows if next(iter(row.values())) == name] for title, rows in listed.items()}
    if not found[what]:
        names = [str(next(iter(row.values()))) for row in listed[what]]
        raise UsageError(f"there is no {name!r} among the {what}", nearest(name, names))
    return found


_NOTES = {
    What.policies: (
        "Parameters: default, allowed, meaning; set in [policy.<name>] of a scenario.",
        'A variant: [policy.<your name>] with base = "<policy>".',
    ),
    What.models: ("Source: the models' cards, as used in the published table. Your own: [models.<name>].",),
    What.gpus: (
        "Dense rates of one GPU; disk is one NVMe pool a replica. Source: the makers' data sheets, as used in the "
        "published table. Your own: [gpus.<name>].",
    ),
    What.scenarios: ("Replay one with: btbench replay <name>",),
}


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
