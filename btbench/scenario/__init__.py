"""Scenario files: the question a replay answers, read strictly; every message names key, line, and what is allowed.

text -> `tables` (shape, types, ranges) -> `resolve` (names that refer to one another) -> `value.Scenario`, which
writes itself as a file again.
"""

from btbench.scenario.load import Overrides, load_scenario, load_variants, scenario_files
from btbench.scenario.settings import Setting, parse_setting
from btbench.scenario.value import PublishedRow, Scenario

__all__ = [
    "Overrides",
    "PublishedRow",
    "Scenario",
    "Setting",
    "load_scenario",
    "load_variants",
    "parse_setting",
    "scenario_files",
]
