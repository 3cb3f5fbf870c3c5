"""`btbench list`: everything that can be named, in every format."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.cli.list_command import What
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.policies.registry import KINDS
from btbench.results.metrics import METRICS
from btbench.scenario import scenario_files

NAMES = {
    "policies": [kind.name for kind in KINDS],
    "models": list(MODELS),
    "gpus": list(GPUS),
    "scenarios": list(scenario_files()),
    "metrics": [metric.name for metric in METRICS],
}


def listed(what: str, *options: str) -> str:
    result = CliRunner().invoke(app, ["list", what, *options], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize("what", list(What))
def test_every_name_stands_in_every_format(what: str) -> None:
    table = listed(what)
    assert max(map(len, table.splitlines())) <= 80
    rows = json.loads(listed(what, "--format", "json"))[what]
    key = next(iter(rows[0]))
    assert [row[key] for row in rows] == NAMES[what]
    first_table = listed(what, "--format", "csv").split("\n\n")[0]
    assert [row[key] for row in csv.DictReader(io.StringIO(first_table))] == NAMES[what]
    markdown = listed(what, "--format", "markdown")
    for name in NAMES[what]:
        assert f"\n{name} " in table
        assert f"\n| {name} |" in markdown


def test_parameters_come_with_default_range_and_meaning() -> None:
    parameters = json.loads(listed("policies", "--format", "json"))["parameters"]
    threshold = next(row for row in parameters if (row["policy"], row["parameter"]) == ("btb", "threshold"))
    assert threshold["default"] == 2
    assert threshold["allowed"] == "an integer of at least 1"
    assert threshold["meaning"].startswith("X: ")
    assert all(row["meaning"] for row in parameters)


def test_models_and_gpus_come_with_units_and_source() -> None:
    models = listed("models")
    assert "70.6e9" in models and "328 kB" in models and "Source:" in models
    gpus = listed("gpus")
    assert "989 TFLOP/s" in gpus and "3.35 TB/s" in gpus and "Source:" in gpus
    h100 = next(row for row in json.loads(listed("gpus", "--format", "json"))["gpus"] if row["name"] == "h100")
    assert h100["flops"] == 989e12
