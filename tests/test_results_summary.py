"""Rows of requests and copies, and the summary of them, against the same said with plain loops."""

import json
import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from results_samples import BLOCK_BYTES, COPIED_BLOCKS, make_policy, make_replays, make_runs, make_setup, make_trace

from btbench.engine.run import TIERS
from btbench.errors import UsageError
from btbench.results.metrics import METRICS, find_metric
from btbench.results.requests import copies_frame, pool_requests, request_frames, requests_frame
from btbench.results.summary import (
    gap_closed_pct,
    part_names,
    percentile,
    reduction_pct,
    summarise,
    summary_rows,
)

# the contract of the result folder
REQUEST_COLUMNS = (
    "setup policy window part request replica input_tokens output_tokens arrival_s start_s reuse_s prefill_s ttft_s "
    "finish_s hit_tokens tier"
)
SUMMARY_COLUMNS = (
    "setup policy part requests mean_ttft_s p50_ttft_s p90_ttft_s p95_ttft_s p99_ttft_s max_ttft_s mean_queue_s "
    "p95_queue_s mean_reuse_s p95_reuse_s mean_prefill_s p95_prefill_s mean_e2e_s p95_e2e_s hit_rate hbm_hit_rate "
    "ram_hit_rate disk_hit_rate replica_use_mean replica_use_min replica_use_max copies copied_bytes unused_copies "
    "mean_reduction_pct p95_reduction_pct engine_s requests_per_s floor_mean_ttft_s gap_closed_pct rejected "
    "mean_reduction_low_pct mean_reduction_high_pct"
)

TRACE = make_trace()
SETUP = make_setup()
BTB = make_policy("btb")
RUNS = make_runs(TRACE, SETUP)


def test_requests_have_the_columns_of_the_contract_and_every_value():
    frame = requests_frame(TRACE, SETUP, BTB, RUNS)
    assert " ".join(frame.columns) == REQUEST_COLUMNS
    assert [frame.schema[name] for name in ("setup", "policy", "window", "part", "tier")] == [pl.String] * 5
    rows = iter(frame.iter_rows(named=True))
    for window, run in zip(TRACE.windows, RUNS, strict=True):
        for i in range(window.stop - window.start):
            row = next(rows)
            arrival_s, served = TRACE.arrival_s[window.start + i], run.served
            assert row == {
                "setup": "70b_h100x4",
                "policy": "btb",
                "window": window.name,
                "part": window.label,
                "request": i,
                "replica": served.replica[i],
                "input_tokens": TRACE.input_tokens[window.start + i],
                "output_tokens": TRACE.output_tokens[window.start + i],
                "arrival_s": arrival_s,
                "start_s": served.start_s[i],
                "reuse_s": served.reuse_s[i],
                "prefill_s": served.prefill_s[i],
                "ttft_s": (served.start_s[i] - arrival_s) + served.reuse_s[i] + served.prefill_s[i],
                "finish_s": served.finish_s[i],
                "hit_tokens": served.hit_tokens[i],
                "tier": TIERS[served.tier[i]],
            }
    assert next(rows, None) is None


def test_chunks_are_the_frame_cut_in_pieces():
    requests = pool_requests(TRACE, TRACE.windows, RUNS)
    chunks = list(request_frames("70b_h100x4", "btb", requests, rows=32))
    assert [len(chunk) for chunk in chunks] == [32, 32, 32, 29]
    assert pl.concat(chunks).equals(requests_frame(TRACE, SETUP, BTB, RUNS))


def test_a_run_of_another_length_is_our_fault_and_loud():
    with pytest.raises(ValueError, match="window 'w0' has 40 requests"):
        pool_requests(TRACE, TRACE.windows, list(reversed(RUNS)))


def test_copies_are_listed_by_window_in_order():
    frame = copies_frame(TRACE, SETUP, BTB, RUNS)
    assert " ".join(frame.columns) == "setup policy window request source target start_s ready_s bytes used"
    assert frame["window"].to_list() == ["w0", "w0", "w1", "w1", "w2", "w2"]
    assert frame["target"].to_list() == [1, 2] * 3
    assert frame["bytes"].to_list() == [2.5e9, 1.5e9] * 3
    assert frame["used"].to_list() == [True, False] * 3


def plain_summary(windows, runs):
    """The metrics of some windows, with lists and loops."""
    queue, reuse, prefill, ttft, e2e, tokens, hits, tiers, floor = [], [], [], [], [], [], [], [], []
    busy, makespan = [0.0] * len(SETUP.replicas), 0.0
    for window, run in zip(windows, runs, strict=True):
        for i in range(window.stop - window.start):
            arrival_s = float(TRACE.arrival_s[window.start + i])
            queue.append(float(run.served.start_s[i]) - arrival_s)
            reuse.append(float(run.served.reuse_s[i]))
            prefill.append(float(run.served.prefill_s[i]))
            ttft.append(queue[-1] + reuse[-1] + prefill[-1])
            e2e.append(float(run.served.finish_s[i]) - arrival_s)
            tokens.append(int(TRACE.input_tokens[window.start + i]))
            hits.append(int(run.served.hit_tokens[i]))
            tiers.append(TIERS[run.served.tier[i]])
            floor.append(float(run.floor_ttft_s[i]))
        makespan += max(run.served.finish_s) - TRACE.arrival_s[window.start]
        busy = [sum(pair) for pair in zip(busy, run.busy_s, strict=True)]
    values = {"requests": len(ttft), "max_ttft_s": max(ttft), "hit_rate": sum(hits) / sum(tokens)}
    for name, durations in (("ttft", ttft), ("queue", queue), ("reuse", reuse), ("prefill", prefill), ("e2e", e2e)):
        values[f"mean_{name}_s"] = fmean(durations)
        for percent in (50, 90, 95, 99):
            values[f"p{percent}_{name}_s"] = sorted(durations)[int(percent / 100 * len(durations))]
    for tier in ("hbm", "ram", "disk"):
        values[f"{tier}_hit_rate"] = sum(h for h, t in zip(hits, tiers, strict=True) if t == tier) / sum(tokens)
    use = [time / makespan for time in busy]
    values |= {"replica_use_mean": fmean(use), "replica_use_min": min(use), "replica_use_max": max(use)}
    engine_s = sum(run.engine_s for run in runs)
    copies = 2 * len(runs)
    values |= {
        "copies": copies,
        "copied_bytes": sum(COPIED_BLOCKS) * BLOCK_BYTES * len(runs),
        "unused_copies": copies // 2,
    }
    values |= {"floor_mean_ttft_s": fmean(floor), "rejected": 0}
    return values | {"engine_s": engine_s, "requests_per_s": len(ttft) / engine_s}


def test_every_metric_of_every_part_is_what_its_formula_says():
    rows = summarise(TRACE, SETUP, BTB, RUNS)
    assert [row.part for row in rows] == ["all", "art", "synthetic"]
    for row, chosen in zip(rows, ([0, 1, 2], [0, 2], [1]), strict=True):
        expected = plain_summary([TRACE.windows[k] for k in chosen], [RUNS[k] for k in chosen])
        for name, value in row.values.items():
            if name.endswith("_pct"):
                assert value is None
            else:
                assert value == pytest.approx(expected[name], rel=1e-12, abs=0), name
        # those that are one element of the sorted values are exact
        assert row["p95_ttft_s"] == expected["p95_ttft_s"]
        assert row["max_ttft_s"] == expected["max_ttft_s"]


def test_summary_rows_have_the_columns_of_the_contract_and_are_strict_json():
    rows = summary_rows(TRACE, make_replays(TRACE, {"cache_aware": 1.0, "btb": 0.5}), "cache_aware")
    for row in rows:
        assert " ".join(row.as_dict()) == SUMMARY_COLUMNS
        assert json.loads(json.dumps(row.as_dict(), allow_nan=False)) == row.as_dict()


def test_reductions_are_against_the_baseline_of_the_same_setup_and_part():
    setups = make_setup(), make_setup("qwen3_8b_h100x4", "qwen3-8b", 2)
    rows = summary_rows(TRACE, make_replays(TRACE, {"btb": 0.5, "cache_aware": 1.0}, *setups), "cache_aware")
    assert [row.setup for row in rows] == ["70b_h100x4"] * 6 + ["qwen3_8b_h100x4"] * 6
    by_key = {row.key: row for row in rows}
    for row in rows:
        base = by_key[row.setup, "cache_aware", row.part]
        for name in ("mean", "p95"):
            reduction = row[f"{name}_reduction_pct"]
            if row.policy == "cache_aware":
                assert reduction is row["gap_closed_pct"] is None
            else:
                a, b = base[f"{name}_ttft_s"], row[f"{name}_ttft_s"]
                assert reduction == (a - b) / a * 100
        if row.policy != "cache_aware":
            a, b, floor = base["mean_ttft_s"], row["mean_ttft_s"], row["floor_mean_ttft_s"]
            assert row["gap_closed_pct"] == (a - b) / (a - floor) * 100


def test_without_the_baseline_there_are_no_reductions():
    rows = summary_rows(TRACE, make_replays(TRACE, {"btb": 0.5, "random": 1.0}), "cache_aware")
    assert {row["mean_reduction_pct"] for row in rows} == {None}


def test_a_reduction_of_nothing_is_none():
    assert reduction_pct(0.0, 1.0) is None
    assert reduction_pct(None, 1.0) is None
    assert reduction_pct(4.0, 1.0) == 75.0


@pytest.mark.parametrize(
    ("baseline", "policy", "floor", "closed"),
    [
        (5.0, 2.0, 1.0, 75.0),
        (5.0, 1.0, 1.0, 100.0),
        (5.0, 9.0, 1.0, -100.0),
        (1.0, 1.5, 1.0, None),
        (1.0 + 1e-15, 1.0, 1.0, None),  # the last bit of a sum is no gap
        (5.0, 2.0, None, None),
        (None, 2.0, 1.0, None),
    ],
)
def test_the_share_of_a_gap_is_none_where_there_is_no_gap(baseline, policy, floor, closed):
    assert gap_closed_pct(baseline, policy, floor) == closed


def turn_away(run, *requests):
    """The run, had its policy turned these requests away: no replica, no times."""
    served = run.served._replace(**{name: column.copy() for name, column in run.served._asdict().items()})
    for i in requests:
        served.replica[i] = -1
        for column in (served.start_s, served.reuse_s, served.prefill_s, served.finish_s):
            column[i] = np.nan
    return replace(run, served=served)


def test_requests_turned_away_are_counted_and_in_no_other_number():
    runs = [turn_away(RUNS[0], 0, 39), RUNS[1], turn_away(RUNS[2], *range(60))]  # of the last window all
    frame = requests_frame(TRACE, SETUP, BTB, runs)
    assert frame.filter(pl.col("window") == "w0")["request"].to_list() == list(range(1, 39))
    assert frame.filter(pl.col("window") == "w1").height == 25
    assert frame.filter(pl.col("window") == "w2").is_empty()
    assert not frame["ttft_s"].is_nan().any()
    rows = {row.part: row for row in summarise(TRACE, SETUP, BTB, runs)}
    assert [(row["requests"], row["rejected"]) for row in rows.values()] == [(125, 62), (100, 62), (25, 0)]
    assert rows["all"]["mean_ttft_s"] == pytest.approx(fmean(frame["ttft_s"]), rel=1e-12)
    floors_s = [*RUNS[0].floor_ttft_s[1:39], *RUNS[1].floor_ttft_s]
    assert rows["all"]["floor_mean_ttft_s"] == pytest.approx(fmean(floors_s), rel=1e-12)
    for row in rows.values():
        assert all(value is None or math.isfinite(value) for value in row.values.values())


def test_a_part_whose_requests_were_all_turned_away_holds_counts_alone():
    runs = [RUNS[0], turn_away(RUNS[1], *range(25)), RUNS[2]]
    rows = {row.part: row for row in summarise(TRACE, SETUP, BTB, runs)}
    assert rows["art"]["mean_ttft_s"] and rows["all"]["rejected"] == 25
    known = {name for name, value in rows["synthetic"].values.items() if value is not None}
    assert known == {"requests", "rejected", "engine_s", "requests_per_s"}
    assert (rows["synthetic"]["requests"], rows["synthetic"]["rejected"]) == (25, 25)


@pytest.mark.parametrize("who", ["btb", "cache_aware"])
def test_what_is_of_different_requests_is_not_compared(who):
    """Seven windows, so that there are intervals; one request of the second, which is synthetic, is turned away."""
    trace = make_trace((5,) * 7, ("art", "synthetic", *("art",) * 5))
    replays = {p.name: (s, p, runs) for s, p, runs in make_replays(trace, {"cache_aware": 1.0, "btb": 0.5})}
    setup, policy, runs = replays[who]
    replays[who] = setup, policy, [runs[0], turn_away(runs[1], 3), *runs[2:]]
    rows = {row.part: row for row in summary_rows(trace, replays.values(), "cache_aware") if row.policy == "btb"}
    against = [name for name in rows["all"].values if name.endswith("_pct")]
    for part in ("all", "synthetic"):
        assert [rows[part][name] for name in against] == [None] * 5
    assert None not in [rows["art"][name] for name in against]


def test_there_is_no_interval_where_another_seed_turns_requests_away():
    trace = make_trace((5,) * 6, ("",) * 6)
    first = list(make_replays(trace, {"cache_aware": 1.0, "btb": 0.5}))
    again = [(setup, policy, [turn_away(runs[0], 1), *runs[1:]]) for setup, policy, runs in first]
    _, btb = summary_rows(trace, first, "cache_aware", [first])
    assert btb.reduction_reach
    _, btb = summary_rows(trace, first, "cache_aware", [again])
    assert btb["mean_reduction_pct"] and btb.reduction_reach is None


@pytest.mark.parametrize(
    ("labels", "parts"),
    [(("", "", ""), ["all"]), (("b", "a", "b"), ["all", "b", "a"]), (("", "all", "x"), ["all", "x"])],
)
def test_parts_are_all_and_the_labels_in_order_of_first_appearance(labels, parts):
    assert part_names(make_trace(labels=labels)) == parts


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=60),
    st.lists(st.sampled_from([0.5, 0.9, 0.95, 0.99]), min_size=1, max_size=4),
)
def test_percentile_is_an_element_of_the_sorted_values(values, shares):
    assert percentile(np.array(values), *shares) == [sorted(values)[int(share * len(values))] for share in shares]


def test_means_of_many_values_keep_every_digit_that_counts():
    trace = make_trace((200_000,), ("",))
    runs = make_runs(trace, SETUP)
    (row,) = summarise(trace, SETUP, BTB, runs)
    ttft_s = pool_requests(trace, trace.windows, runs).ttft_s
    assert row["mean_ttft_s"] == pytest.approx(math.fsum(ttft_s) / len(ttft_s), rel=1e-15)


def test_metrics_are_named_once_and_found_by_name():
    names = [metric.name for metric in METRICS]
    assert " ".join(["setup", "policy", "part", *names]) == SUMMARY_COLUMNS
    assert find_metric("mean_ttft_s").better == "lower"
    with pytest.raises(UsageError, match="Did you mean 'mean_ttft_s'"):
        find_metric("mean_tft_s")
