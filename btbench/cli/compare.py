"""`btbench compare`: results side by side, and the gate for CI."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from btbench.cli import completion
from btbench.cli.chart_folder import draw_into
from btbench.cli.ci_files import append_to_file, replace_file, step_summary
from btbench.cli.console import note, stdout
from btbench.cli.options import DebugOption, Format, FormatOption, QuietOption

if TYPE_CHECKING:
    from btbench.results.compare import Comparison
    from btbench.results.gates import Check

Compared: TypeAlias = "list[tuple[Comparison, list[Check]]]"  # the first result with each other one


def compare(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT RESULT…", help="Folders or their summary.json; held against the first."),
    ],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="GATE", help="End with status 1 where this comes true (above). Repeatable."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="Metric to compare. Repeatable. [mean_ttft_s, p95_ttft_s]",
            autocompletion=completion.metric_names,
        ),
    ] = None,
    setup: Annotated[
        list[str] | None,
        typer.Option("--setup", "-s", metavar="NAME", help="Only this setup, in tables and gates. Repeatable."),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="NAME", help="Only this part, in tables and gates. Repeatable. [gates: all]"),
    ] = None,
    format: FormatOption = Format.table,
    github_summary: Annotated[
        bool, typer.Option("--github-summary", help="Also append the tables to $GITHUB_STEP_SUMMARY.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the gates as JUnit XML.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Also draw the comparison into this folder.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare although trace, seed or model differ; replace charts.")
    ] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare results, with intervals, and fail where a router got worse.

    \b
    A gate is POLICY.METRIC, one of > >= < <=, and a change or a value:
      btb.mean_ttft_s > +5%      fails where over 5 % above the first result's
      btb.hit_rate < -2 points   so for shares and what is in %: 94 after 96.1 %
      btb.p95_ttft_s > 4.8       fails where it is above 4.8 s

    \b
    Examples:
      btbench compare results/monday results/tuesday
      btbench compare old new --fail-on 'btb.mean_ttft_s > +5%' --setup 70b_h100x4
      btbench compare old new --metric hit_rate --format markdown
      btbench compare old new --out charts
    """
    from btbench.results.gates import raise_failed

    summary = step_summary() if github_summary else None
    compared = _compare(results, fail_on or (), metric, setup or (), part or (), force)
    checks = [check for _, checks in compared for check in checks]
    if out is not None:
        _draw(compared, out, force, quiet)
    if junit is not None:
        from btbench.results.comparison_files import junit_xml

        replace_file(junit, junit_xml(checks))
    if summary is not None:
        append_to_file(summary, _markdown(compared))
    if checks and format is Format.csv and not quiet:
        note("CSV holds no gates; --format json and --junit do")
    _print(compared, format)
    raise_failed(checks)


def _compare(
    results: Sequence[Path],
    fail_on: Sequence[str],
    metrics: Sequence[str] | None,
    setups: Sequence[str],
    parts: Sequence[str],
    force: bool,
) -> Compared:
    from btbench.errors import UsageError
    from btbench.results.compare import DEFAULT_METRICS, compare_results
    from btbench.results.files import load_result
    from btbench.results.gates import check_gates, parse_gate

    if len(results) < 2:
        raise UsageError("compare takes at least two results", "btbench compare results/old results/new")
    gates = [parse_gate(text) for text in fail_on]
    first, *others = [load_result(path) for path in results]
    chosen = metrics or DEFAULT_METRICS
    gated = sorted({gate.metric.name for gate in gates}.difference(chosen))
    compared = []
    for other in others:
        checks = check_gates(gates, first, other, setups, parts)
        compared.append((compare_results(first, other, chosen, setups, parts, force, gated), checks))
    return compared


def _draw(compared: Compared, folder: Path, force: bool, quiet: bool) -> None:
    from btbench.charts.comparison import draw_comparisons

    comparisons = [comparison for comparison, _ in compared]
    paths = draw_into(folder, force, lambda aside: draw_comparisons(comparisons, aside))
    if not quiet:
        note(f"charts: {', '.join(map(str, paths))}")


def _print(compared: Compared, format: Format) -> None:
    from btbench.results.comparison_files import comparison_csv, comparison_json
    from btbench.results.comparison_text import render_comparison

    comparisons = [comparison for comparison, _ in compared]
    if format is Format.table:
        console = stdout()
        for place, (comparison, checks) in enumerate(compared):
            if place:
                console.print()
            console.print(render_comparison(comparison, checks, console.width))
    elif format is Format.markdown:
        print(_markdown(compared), end="")
    elif format is Format.json:
        print(comparison_json(comparisons, [check for _, checks in compared for check in checks]), end="")
    else:
        print(comparison_csv(comparisons), end="")


def _markdown(compared: Compared) -> str:
    from btbench.results.comparison_text import markdown_comparison

    return "\n".join(markdown_comparison(comparison, checks) for comparison, checks in compared)
