"""`btbench list`: everything that can be named, in every format, and one alone."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.cli.console import stdout
from btbench.cli.list_command import What
from btbench.cli.options import Format
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
    assert max(map(len, table.splitlines())) <= 80 and "…" not in table
    rows = json.loads(listed(what, "--format", "json"))[what]
    key = next(iter(rows[0]))
    assert [row[key] for row in rows] == NAMES[what]
    first_table = listed(what, "--format", "csv").split("\n\n")[0]
    assert [row[key] for row in csv.DictReader(io.StringIO(first_table))] == NAMES[what]
    markdown = listed(what, "--format", "markdown")
    for name in NAMES[what]:
        assert f"\n{name} " in f"\n{table}"
        assert f"\n| {name} |" in markdown


def test_parameters_come_with_default_range_and_meaning() -> None:
    parameters = json.loads(listed("policies", "--format", "json"))["parameters"]
    threshold = next(row for row in parameters if (row["policy"], row["parameter"]) == ("btb", "threshold"))
    assert threshold["default"] == 2
    assert threshold["meaning"].startswith("X: ")
    assert all(row["meaning"] for row in parameters)
    allowed = {f"{row['policy']}.{row['parameter']}": row["allowed"] for row in parameters}
    assert allowed["btb.threshold"] == allowed["btb.prefix_tokens"] == "integer ≥ 1"
    assert allowed["btb.fallback"] == "any policy but btb"
    assert allowed["btb.window_s"] == "≥ 0"
    assert allowed["sglang.version"] == "0.2.2 | 0.2.4 | 0.3.2"
    assert allowed["sglang.sub_block_match"] == "0 to 1"
    assert allowed["mooncake.ttft_slo_s"] == "> 0"


def test_a_policy_that_people_run_comes_with_its_source_and_what_it_leaves_out() -> None:
    for kind in KINDS:
        assert kind.source and len(kind.leaves_out) <= 140
        assert kind.is_papers != bool(kind.leaves_out), kind.name
    assert {row["leaves_out"] for row in json.loads(listed("policies", "--format", "json"))["policies"]} == {
        kind.leaves_out for kind in KINDS
    }


def test_parameters_stand_below_their_policy() -> None:
    assert listed("policies", "mooncake").splitlines()[:7] == [
        "mooncake      smallest estimated TTFT; moves KV where a far longer match lies",
        "              elsewhere",
        "  source      Qin et al., Mooncake, FAST 2025, Algorithm 1",
        "  leaves out  decoding instances (here replicas decode too, but queue estimates",
        "              ignore it), loading from RAM",
        "  balancing_threshold  2     > 0  longest match / own above which KV moves",
        "  ttft_slo_s           none  > 0  requests estimated to take longer everywhere",
    ]


@pytest.mark.parametrize("width", [40, 60, 200])
@pytest.mark.parametrize("what", list(What))
def test_no_word_is_lost_at_any_width(what: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout(), "width", width)
    table = listed(what)
    assert max(map(len, table.splitlines())) <= width and "…" not in table


@pytest.mark.parametrize("what", list(What))
def test_one_can_be_listed_alone(what: str) -> None:
    name = NAMES[what][-1]
    assert [row[next(iter(row))] for row in json.loads(listed(what, name, "--format", "json"))[what]] == [name]
    alone = listed(what, name)
    assert not [other for other in NAMES[what][:-1] if f"\n{other} " in f"\n{alone}"]


@pytest.mark.parametrize("format", list(Format))
def test_a_policy_without_parameters_can_be_listed_alone(format: str) -> None:
    assert "any replica, uniformly" in listed("policies", "random", "--format", format)


def test_an_unknown_name_is_an_error_with_the_nearest_spelling() -> None:
    result = CliRunner().invoke(app, ["list", "policies", "sglng"])
    assert result.exit_code == 2
    assert "there is no 'sglng' among the policies\nDid you mean 'sglang'? Allowed: least_load, " in result.stderr


def test_models_and_gpus_come_with_units_and_source() -> None:
    models = listed("models")
    assert "70.6e9" in models and "328 kB" in models and "Source:" in models
    gpus = listed("gpus")
    assert "989 TFLOP/s" in gpus and "3.35 TB/s" in gpus and "Source:" in gpus
    h100 = next(row for row in json.loads(listed("gpus", "--format", "json"))["gpus"] if row["name"] == "h100")
    assert h100["flops"] == 989e12
