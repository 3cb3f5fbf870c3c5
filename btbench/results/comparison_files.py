"""Comparisons and their gates for programs: as JSON and CSV, and gates as JUnit XML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from xml.etree import ElementTree

from btbench.results.compare import Change, Comparison
from btbench.results.comparison_text import shown_parts
from btbench.results.gates import Check


def _change_row(of: Change) -> dict[str, object]:
    return {
        "setup": of.setup,
        "policy": of.policy,
        "part": of.part,
        "metric": of.metric.name,
        "a": of.a,
        "b": of.b,
        "difference": of.difference,
        "ratio": of.ratio,
        "low": of.interval.low if of.interval else None,
        "high": of.interval.high if of.interval else None,
        "paired": of.paired,
        "windows_a": of.windows[0] if of.windows else None,
        "windows_b": of.windows[1] if of.windows else None,
        "words": of.words,
    }


def comparison_json(comparisons: Sequence[Comparison], checks: Sequence[Check]) -> str:
    """All comparisons and gates as strict JSON; `low` and `high` bound the difference b - a.

    `windows_a` and `windows_b` were drawn for it, null where single requests were.
    """
    told = {
        "version": 1,
        "comparisons": [
            {
                "a": str(comparison.a.folder),
                "b": str(comparison.b.folder),
                "notes": list(comparison.notes),
                "scenario_differences": list(comparison.differences),
                "rows": [_change_row(change) for change in comparison.changes],
            }
            for comparison in comparisons
        ],
        "gates": [check._asdict() | {"gate": check.gate.text} for check in checks],
    }
    return json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def comparison_csv(comparisons: Sequence[Comparison]) -> str:
    """One line a change, opened by the folders of both results; parts that hold the same requests once."""
    text = io.StringIO()
    rows = [
        {"result_a": comparison.a.folder, "result_b": comparison.b.folder} | _change_row(change)
        for comparison in comparisons
        for change in comparison.changes
        if change.part in shown_parts(comparison)
    ]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def junit_xml(checks: Sequence[Check]) -> str:
    """The gates as a JUnit test suite: a test case a gate, setup and part."""
    failures = sum(check.failed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "btbench compare", "skipped": "0", **counts})
    for check in checks:
        place = f"{check.result}.{check.setup}.{check.part}"
        case = ElementTree.SubElement(suite, "testcase", classname=place, name=check.gate.text)
        if check.failed:
            ElementTree.SubElement(case, "failure", type="GateFailed", message=check.words).text = check.words
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
