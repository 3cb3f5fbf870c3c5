"""What a run says: metrics, summary, tables, files, comparison.

Writing a result, as `btbench replay` does (nothing appears in the folder before the context ends without an error):

    with write_result(folder, trace, scenario.baseline, force) as writer:
        for setup, policy, runs in replay_grid(...):
            writer.add(setup, policy, runs)
        result = writer.finish(scenario=name, scenario_toml=resolved, seed=42, command="btbench replay ...")
        # optional: draw writer.folder / "charts", then write_report(writer.folder) once more, so that it shows them

Showing it: `console.print(render_table(result, console.width))`, `markdown_table(result)`, and for `--format json|csv`
`summary_json(result.rows, STABLE_METRICS)`, `summary_csv(result.rows, STABLE_METRICS)` (the same bytes for the same
input; the files of the result hold the engine's speed too).

Reading it back: `load_result(folder)`; the requests are in `folder / "requests.parquet"`.
Before any work: `check_output(folder, force)`. Other folders are written whole by `folder.whole_folder`.

Several replays of a scenario with other values at some keys: `sweep.Sweep`, and its `sweep_sheet`, `sweep_json`,
`sweep_csv`. Two results side by side: `compare.compare_results`.
"""
