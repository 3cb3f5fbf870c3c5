"""`btbench compare`: results side by side, and the gate for CI."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli.console import note, stdout
from btbench.cli.options import DebugOption, Format, FormatOption, QuietOption

if TYPE_CHECKING:
    from btbench.results.compare import Comparison
    from btbench.results.gates import Check


def compare(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT RESULT…", help="Folders or their summary.json; held against the first."),
    ],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="GATE", help="End with status 1 where this comes true. Repeatable."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="NAME", help="Metric to compare. Repeatable. [mean_ttft_s, p95_ttft_s]"),
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
        bool, typer.Option("--force", help="Compare although trace, seed or model differ; replaces nothing.")
    ] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare results, with intervals, and fail where a router got worse.

    \b
    A gate is POLICY.METRIC, one of > >= < <=, and a change or a value:
      btb.mean_ttft_s > +5%    fails where more than 5 % above the first result's
      btb.p95_ttft_s > 4.8     fails where it is above 4.8 s

    \b
    Examples:
      btbench compare results/monday results/tuesday
      btbench compare old new --fail-on 'btb.mean_ttft_s > +5%' --setup 70b_h100x4
      btbench compare old new --metric hit_rate --format markdown
      btbench compare old new --out charts
    """
    from btbench.errors import UsageError
    from btbench.results.compare import DEFAULT_METRICS, compare_results
    from btbench.results.files import load_result
    from btbench.results.gates import check_gates, parse_gate, raise_failed

    if len(results) < 2:
        raise UsageError("compare takes at least two results", "btbench compare results/old results/new")
    summary_file = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if github_summary and not summary_file:
        raise UsageError(
            "--github-summary: GITHUB_STEP_SUMMARY is not set",
            "GitHub Actions sets it; elsewhere use --format markdown.",
        )
    gates = [parse_gate(text) for text in fail_on or ()]
    first, *others = [load_result(path) for path in results]
    setups, parts = setup or (), part or ()
    compared = []
    for other in others:
        checks = check_gates(gates, first, other, setups, parts)
        compared.append((compare_results(first, other, metric or DEFAULT_METRICS, setups, parts, force), checks))
    if out is not None:
        from btbench.charts.comparison import draw_comparisons

        paths = draw_comparisons([comparison for comparison, _ in compared], out)
        if not quiet:
            note(f"charts: {', '.join(map(str, paths))}")
    _print(compared, format)
    if github_summary:
        _write(Path(summary_file), _markdown(compared), append=True)
    checks = [check for _, checks in compared for check in checks]
    if junit is not None:
        from btbench.results.comparison_text import junit_xml

        _write(junit, junit_xml(checks))
    raise_failed(checks)


def _print(compared: "list[tuple[Comparison, list[Check]]]", format: Format) -> None:
    from btbench.results.comparison_text import comparison_csv, comparison_json, render_comparison

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


def _markdown(compared: "list[tuple[Comparison, list[Check]]]") -> str:
    from btbench.results.comparison_text import markdown_comparison

    return "\n".join(markdown_comparison(comparison, checks) for comparison, checks in compared)


def _write(file: Path, text: str, append: bool = False) -> None:
    from btbench.errors import OutputError

    try:
        with file.open("a" if append else "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}", "Choose another file.") from None
