"""What people read: numbers with units, and the tables at every width."""

from dataclasses import replace
from statistics import median

import pytest
from msgspec.structs import replace as replace_struct
from results_samples import make_replays, make_setup, make_trace
from rich.console import Console

from btbench.results import numbers
from btbench.results.files import Result
from btbench.results.overview import overview_sheet
from btbench.results.provenance import Provenance, Published, describe_origin
from btbench.results.result_sheets import cluster_sheet, published_sheet, result_sheets, ttft_sheet
from btbench.results.summary import Row, summary_rows
from btbench.results.table import markdown_table, render_table
from btbench.results.words import findings, headline

SETUPS = [make_setup(name) for name in ("70b_h100x4", "qwen3_8b_h100x4", "dense1t_b300x4")]


def make_result(labels=("", "", ""), published=(), slowness=None, sizes=(40, 25, 60)):
    trace = make_trace(sizes, labels)
    slowness = slowness or {"least_load": 2.0, "cache_aware": 1.0, "btb": 0.5}
    rows = summary_rows(trace, make_replays(trace, slowness, *SETUPS), "cache_aware")
    provenance = Provenance(
        baseline="cache_aware",
        trace=describe_origin(trace),
        published=published,
        published_source="a paper" if published else "",
    )
    return Result(tuple(rows), provenance, name="sample")


def rendered(result, width):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(render_table(result, width))
    return capture.get()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.4813038, "1.48 s"),
        (0.5625203, "563 ms"),
        (0.0198507, "19.9 ms"),
        (0.000196, "196 µs"),
        (0.0009999, "1.00 ms"),
        (0.99999, "1.00 s"),
        (493.05, "493 s"),
        (1373.6, "1,374 s"),
        (1e-6, "1.00 µs"),
        (3.8e-7, "<1 µs"),
        (-3.8e-7, ">-1 µs"),
        (0.0, "0 s"),
        (None, "–"),
    ],
)
def test_durations_have_three_digits_and_a_unit(value, text):
    assert numbers.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(21.47e9, "21.5 GB"), (999.7e9, "1.00 TB"), (5.2e18, "5,200 PB"), (12.0, "12.0 B"), (0, "0 B")]
)
def test_sizes_have_three_digits_and_a_unit(value, text):
    assert numbers.size(value) == text


@pytest.mark.parametrize(
    ("here", "published", "text"),
    [
        (1.0, 1.0, "exact"),
        (1 + 2.3e-16, 1.0, "2e-16"),
        (1 - 3e-10, 1.0, "3e-10"),
        (1.032, 1.0, "+3.2%"),
        (0.5, 1.0, "-50.0%"),
        (40.0, 1.0, "+3,900%"),
    ],
)
def test_deviations_say_how_far_off(here, published, text):
    assert numbers.deviation(numbers.relative(here, published)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.87, "+12.9%"), (-0.291, "-0.29%"), (5500.8, "+5,501%"), (0.0, "0%"), (float("inf"), "+∞"), (None, "–")],
)
def test_changes_have_a_sign(value, text):
    assert numbers.change(value) == text


def test_percentages_have_no_negative_zero():
    assert numbers.percent(-0.004) == "0.0%"
    assert numbers.percent(-0.04) == "-0.04%"
    assert numbers.percent(-0.06) == "-0.1%"
    assert numbers.percent(-1077.3) == "-1,077.3%"
    assert numbers.share(0.62025) == "62.0%"


@pytest.mark.parametrize("width", [40, 60, 80, 140, 300])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(width):
    result = make_result(labels=("art", "synthetic", "art"), published=(Published("70b_h100x4", "btb", "all", 0.5),))
    text = rendered(result, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for row in result.rows:
        assert numbers.duration(row["mean_ttft_s"]) in text
        assert numbers.duration(row["mean_prefill_s"]) in text or (row.part != "all" and width < 104)
    words = " ".join(text.split())
    assert ("Not shown: p50, p99, end to end, queue, reuse, prefill of the other parts, least, most." in words) == (
        width < 104
    )
    assert words.count("no policy can beat it") == 1  # the legend of three tables


def test_at_80_columns_tables_are_cut_at_most_before_what_ttft_is_spent_on():
    text = rendered(make_result(), 80)
    assert text.count("70b_h100x4") == 2 + 1  # once in each stretch of the table of TTFT, once in that of the caches
    heads = [line.split() for line in text.splitlines() if line.endswith((" reduced", " prefill", " unused"))]
    assert [head[0] for head in heads] == ["mean", "queue", "hits"]


def test_a_line_says_what_the_rows_say():
    result = make_result()
    row = result.row("qwen3_8b_h100x4", "btb")
    lines = rendered(result, 80).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("qwen3_8b_h100x4"))
    assert lines[start + 3].split() == [
        "btb",
        *numbers.duration(row["mean_ttft_s"]).split(),
        numbers.percent(row["mean_reduction_pct"]),
        numbers.percent(row["gap_closed_pct"]),
        *numbers.duration(row["p95_ttft_s"]).split(),
        numbers.percent(row["p95_reduction_pct"]),
    ]
    assert lines[start + 2].split()[3:5] == ["baseline", "–"]
    start = next(i for i in range(start + 1, len(lines)) if lines[i].startswith("qwen3_8b_h100x4"))
    steps = [numbers.duration(row[f"mean_{step}_s"]) for step in ("queue", "reuse", "prefill")]
    assert lines[start + 3].split() == ["btb", *" ".join(steps).split()]


def test_the_last_line_of_a_setup_is_its_floor():
    result = make_result()
    sheet = ttft_sheet(result, "all")
    for setup, lines in sheet.groups:
        assert [line.name for line in lines] == ["least_load", "cache_aware", "btb", "floor"]
        cells = {column.name: cell for column, cell in reversed(list(zip(sheet.columns, lines[-1].cells, strict=True)))}
        base = result.row(setup, "cache_aware")
        floor_s = base["floor_mean_ttft_s"]
        assert (cells["mean"].value, cells["queue"].value, cells["prefill"].value) == (floor_s, 0, floor_s)
        assert cells["reduced"].value == pytest.approx((1 - floor_s / base["mean_ttft_s"]) * 100)
        assert cells["p95"].value is None
    assert "no policy can beat it" in sheet.note


def test_a_result_of_before_the_floor_was_known_shows_none():
    result = make_result()
    unknown = dict.fromkeys(("floor_mean_ttft_s", "gap_closed_pct", "rejected"))
    old = replace(result, rows=tuple(Row(*row.key, {**row.values, **unknown}) for row in result.rows))
    assert [line.name for line in ttft_sheet(old, "all").groups[0][1]] == ["least_load", "cache_aware", "btb"]
    assert "floor" not in rendered(old, 80)


def test_requests_turned_away_are_a_column_of_their_own():
    result = make_result()
    rows = tuple(Row(*row.key, {**row.values, "rejected": 7 if row.policy == "btb" else 0}) for row in result.rows)
    assert "rejected" not in rendered(result, 200)
    sheet = cluster_sheet(replace(result, rows=rows))
    assert sheet.columns[-1].name == "rejected"
    assert [line.cells[-1].text for line in sheet.groups[0][1]] == ["0", "0", "7"]
    assert "all other numbers are of the rest" in sheet.note


def test_parts_have_a_table_of_their_own():
    text = rendered(make_result(labels=("art", "synthetic", "art")), 80)
    titles = [line for line in text.splitlines() if line.startswith("Time to first")]
    assert titles == [f"Time to first token (TTFT), {part}" for part in ("all requests", "art", "synthetic")]


@pytest.mark.parametrize(
    ("reductions", "said"),
    [
        ([11.04, 70.28], "btb has a mean TTFT 11.0% to 70.3% lower than cache_aware on both setups."),
        ([-116.4, -70.9, -80.0], "btb has a mean TTFT 70.9% to 116.4% higher than cache_aware on all 3 setups."),
        (
            [-1.0, 0.2, 0.01],
            "btb has a mean TTFT within 1% of cache_aware's on all 3 setups.",
        ),
        ([-1.02, 0.0], "btb has a mean TTFT within 1.1% of cache_aware's on both setups."),
        (
            [-9.0, 2.0, 0.01],
            "btb has a mean TTFT from 9.0% higher to 2.0% lower than cache_aware: lower on 1, higher on 1 of 3 setups.",
        ),
        ([-9.0, 0.0], "btb has a mean TTFT up to 9.0% higher than cache_aware: higher on 1 of 2 setups."),
        ([0.01], "btb has the same mean TTFT as cache_aware."),
        ([62.025], "btb has a mean TTFT 62.0% lower than cache_aware."),
    ],
)
def test_findings_say_what_each_policy_does(reductions, said):
    values = make_result().rows[0].values
    rows = tuple(
        Row(f"setup{k}", policy, "all", {**values, "mean_reduction_pct": reduction if policy == "btb" else None})
        for k, reduction in enumerate(reductions)
        for policy in ("cache_aware", "btb")
    )
    assert findings(Result(rows, Provenance(baseline="cache_aware"))) == [said]


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ([65.04], ", closing 65.0% of the gap to the floor."),
        ([80.0, 20.0], " on both setups, closing 20.0% to 80.0% of the gap to the floor."),
        ([80.0, -1.0], " on both setups."),
        ([80.0, None], " on both setups."),
    ],
)
def test_findings_say_how_much_of_the_gap_a_gain_closes(closed, said):
    values = make_result().rows[0].values | {"mean_reduction_pct": 50.0}
    rows = tuple(Row(f"s{k}", "btb", "all", {**values, "gap_closed_pct": value}) for k, value in enumerate(closed))
    assert findings(Result(rows, Provenance(baseline="cache_aware"))) == [
        f"btb has a mean TTFT 50.0% lower than cache_aware{said}"
    ]


@pytest.mark.parametrize(
    ("reaches", "said"),
    [
        ([(41.0, 55.5)], " (95% interval 41.0 to 55.5%)."),
        ([(-55.5, -41.0)], " (95% interval 41.0 to 55.5%)."),  # where the sentence says higher
        ([(-5.5, 41.0)], " (95% interval 5.5% higher to 41.0% lower)."),
        ([(41.0, 55.5), (1.0, 60.0)], " on both setups, beyond chance on all."),
        ([(41.0, 55.5), (-1.0, 60.0), (-80.0, -2.0)], " on all 3 setups, beyond chance on 2."),
        ([(-41.0, 55.5), (0.0, 60.0)], " on both setups, beyond chance on none."),
        ([(41.0, 55.5), (None, None)], " on both setups."),
    ],
)
def test_findings_say_whether_a_difference_is_chance(reaches, said):
    values = make_result().rows[0].values | {"mean_reduction_pct": 50.0, "gap_closed_pct": None}
    rows = tuple(
        Row(f"s{k}", "btb", "all", {**values, "mean_reduction_low_pct": low, "mean_reduction_high_pct": high})
        for k, (low, high) in enumerate(reaches)
    )
    told = findings(Result(rows, Provenance(baseline="cache_aware")))
    assert told == [f"btb has a mean TTFT 50.0% lower than cache_aware{said}"]


def test_intervals_stand_in_a_column_where_there_is_room_and_say_what_they_are_over():
    result = make_result(labels=("",) * 6, sizes=(20,) * 6)
    row = result.row("70b_h100x4", "btb")
    low, high = row.reduction_reach
    text = f"{numbers.percent(low)[:-1]} to {numbers.percent(high)}"
    assert low < row["mean_reduction_pct"] < high and text in rendered(result, 160)
    assert text not in rendered(result, 80) and "95% interval" in rendered(result, 80)
    assert "over windows. Floor" in markdown_table(result)
    more = replace(result, provenance=replace_struct(result.provenance, seeds=3))
    assert "over windows and 3 seeds. All other numbers are of the first seed. Floor" in markdown_table(more)
    alone = make_result(labels=("", "", ""))  # three windows are too few
    assert "95% interval" not in markdown_table(alone)


MANY_SLOWNESS = {"worst": 9.0, "cache_aware": 1.0, "least_load": 2.0, "btb": 0.5, "smg": 0.9, "pull": 0.7}


def test_many_policies_are_told_in_one_table_the_best_first_and_the_extremes_in_sentences():
    result = make_result(labels=("art", "synthetic") * 6, sizes=(20,) * 12, slowness=MANY_SLOWNESS)
    sheet = result_sheets(result)[0]
    assert sheet == overview_sheet(result) and sheet.title == "Against cache_aware, over 3 setups"
    assert [part for part, _ in sheet.groups] == ["all requests", "art", "synthetic"]
    for part, lines in zip(("all", "art", "synthetic"), (lines for _, lines in sheet.groups), strict=True):
        assert [line.name for line in lines] == sorted(
            MANY_SLOWNESS,
            key=lambda policy: -median(row["mean_reduction_pct"] or 0 for row in rows_of(result, policy, part)),
        )
        for line in lines:
            rows = rows_of(result, line.name, part)
            if line.name == "cache_aware":
                assert [cell.text for cell in line.cells] == ["baseline", *"–" * 6]
                continue
            reductions = [row["mean_reduction_pct"] for row in rows]
            known = [row.reduction_reach for row in rows]
            assert [cell.value for cell in line.cells] == [
                median(reductions),
                min(reductions),
                max(reductions),
                median(row["p95_reduction_pct"] for row in rows),
                median(row["gap_closed_pct"] for row in rows),
                sum(low > 0 for low, _ in known),
                sum(high < 0 for _, high in known),
            ]
    told = [line.split(" has ")[0] for line in findings(result) if " has " in line]
    parts = ("all requests", "art", "synthetic")
    assert told == [f"{part}: {policy}" for part in parts for policy in ("btb", "worst")]


def test_a_terminal_shows_the_overview_alone_where_the_rest_is_very_long(monkeypatch):
    result = make_result(labels=("art", "synthetic") * 6, sizes=(20,) * 12, slowness=MANY_SLOWNESS)
    whole = rendered(result, 80)
    monkeypatch.setattr("btbench.results.table.LONG", 50)
    short = rendered(result, 80)
    assert "Time to first token" in whole and "Time to first token" not in short
    assert "Against cache_aware, over 3 setups" in short and "Not shown: 81 lines on single setups. table.md" in short
    assert "Time to first token" in markdown_table(result)


def rows_of(result, policy, part):
    return [row for row in result.rows if (row.policy, row.part) == (policy, part)]


def test_a_table_of_many_policies_counts_signs_where_there_are_no_intervals():
    result = make_result(slowness=MANY_SLOWNESS)
    (_, lines), *_ = overview_sheet(result).groups
    assert {line.name: [cell.text for cell in line.cells[-2:]] for line in lines} == {
        "btb": ["3", "0"],
        "pull": ["3", "0"],
        "smg": ["3", "0"],
        "cache_aware": ["–", "–"],
        "least_load": ["0", "3"],
        "worst": ["0", "3"],
    }
    assert "setups where mean TTFT differs." in overview_sheet(result).note


@pytest.mark.parametrize("slowness", [{"cache_aware": 1.0, "btb": 0.5}, MANY_SLOWNESS])
def test_one_setup_needs_no_table_over_setups(slowness):
    result = make_result(slowness=slowness)
    alone = replace(result, rows=tuple(row for row in result.rows if row.setup == "70b_h100x4"))
    assert "over" not in result_sheets(alone)[0].title


def test_findings_say_what_was_turned_away():
    values = make_result().rows[0].values | {"mean_reduction_pct": None, "requests": 200, "rejected": 5}
    rows = (Row("s", "mooncake", "all", values),)
    assert findings(Result(rows, Provenance())) == [
        "mooncake turns away 2.5% of the requests; its TTFT is of the rest, so it is not compared with the baseline."
    ]


def turning_away(result, **rejected):
    """The result, had these policies turned so many requests away on their first setup, without what that forbids."""
    gone = dict.fromkeys(name for name in result.rows[0].values if name.endswith("_pct"))
    rows = [
        Row(*row.key, row.values | gone | {"rejected": rejected[row.policy], "floor_mean_ttft_s": 1e-9})
        if row.policy in rejected and row.setup == result.setups[0]
        else row
        for row in result.rows
    ]
    return replace(result, rows=tuple(rows))


def test_findings_name_the_setups_on_which_a_policy_is_not_compared():
    told = findings(turning_away(make_result(), btb=25))
    assert [line for line in told if line.startswith("btb has") and "on both setups" in line]
    share = numbers.percent(25 / 125 * 100)
    assert (
        f"btb turns away {share} of the requests on 70b_h100x4; its TTFT is of the rest, so it is not compared with "
        "cache_aware there."
    ) in told
    told = findings(turning_away(make_result(), cache_aware=25))
    assert [line for line in told if line.endswith("so others are not compared with it there.")]


def test_findings_of_many_policies_name_each_that_turns_requests_away():
    result = make_result(slowness=MANY_SLOWNESS)
    told = findings(turning_away(result, smg=5, pull=5))
    assert [line.split()[0] for line in told if " turns away " in line] == ["smg", "pull"]
    nothing = [Row(*row.key, {**row.values, "mean_reduction_pct": None}) for row in result.rows]
    assert not [line for line in findings(replace(result, rows=tuple(nothing))) if " has " in line]


def test_findings_name_who_served_nothing():
    gone = (("a", "mooncake", "all"), ("a", "mooncake", "art"), ("b", "mooncake", "art"), ("c", "mooncake", "art"))
    assert findings(Result((), Provenance(nothing_served=gone))) == [
        "mooncake turns away every request on a, so it has no row there.",
        "mooncake turns away every request of part art on b, c, so it has no row there.",
    ]


@pytest.mark.parametrize("who", [("cache_aware",), ("btb",), ("least_load", "cache_aware", "btb")])
def test_the_floor_of_a_setup_is_that_of_all_requests(who):
    result = turning_away(make_result(), **dict.fromkeys(who, 5))
    sheet = ttft_sheet(result, "all")
    lines = {line.name: line for line in sheet.groups[0][1]}
    assert ("floor" in lines) == (len(who) < 3)
    whole = next((p for p in ("cache_aware", "least_load") if p not in who), None)
    if whole:
        assert lines["floor"].cells[0].value == result.row("70b_h100x4", whole)["floor_mean_ttft_s"]
    for policy in who:
        assert lines[policy].cells[0].tone != "best"
    assert "no policy that serves all can beat it" in sheet.note


def test_an_overview_leaves_out_where_requests_were_turned_away():
    result = make_result(slowness=MANY_SLOWNESS)
    fewer = turning_away(replace(result, rows=tuple(r for r in result.rows if r.setup == result.setups[0])), btb=5)
    (_, lines), *_ = overview_sheet(fewer).groups
    assert [cell.text for cell in lines[-1].cells] == ["–"] * 7 and lines[-1].name == "btb"
    assert [line.name for line in lines if line.cells[0].text == "baseline"] == ["cache_aware"]
    assert "Left out: setups where requests were turned away." in overview_sheet(fewer).note


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ((29.0, 0.5), None),
        ((40.2, 0.5), "s is overloaded behind cache_aware: requests wait 40 times as long as their prefill takes"),
        ((412.4, 40.0), "s is overloaded: requests wait 40 to 412 times as long as their prefill takes"),
    ],
)
def test_findings_say_where_a_cluster_cannot_keep_up(waits, said):
    """Not where replicas are merely always busy: decoding a few requests keeps them so without any queue."""
    values = make_result().rows[0].values | {"mean_reduction_pct": None, "mean_prefill_s": 2.0, "replica_use_mean": 1.0}
    rows = tuple(
        Row("s", policy, "all", {**values, "mean_queue_s": 2 * wait})
        for policy, wait in zip(("cache_aware", "btb"), waits, strict=True)
    )
    why = ", so TTFT depends on the length of the trace."
    assert findings(Result(rows, Provenance())) == ([said + why] if said else [])


@pytest.mark.parametrize("copies", [0, 3])
def test_findings_say_why_btb_made_no_copies(copies):
    values = make_result().rows[0].values | {"mean_reduction_pct": 0.0, "gap_closed_pct": None, "copies": copies}
    result = Result((Row("s", "btb", "all", values),), Provenance(baseline="lru", prefix_tokens={"btb": 65536}))
    why = (
        "btb made no copies: it saw no burst of one prefix of 65,536 tokens, and copies nothing shorter "
        "(policy.btb.prefix_tokens), nor anything where a trace has no block ids."
    )
    assert findings(result) == ["btb has the same mean TTFT as lru.", *([] if copies else [why])]
    assert (why in markdown_table(result)) == (why in " ".join(rendered(result, 80).split())) == (not copies)


def test_findings_are_told_for_each_part_before_the_tables():
    result = make_result(labels=("art", "synthetic", "art"))
    told = findings(result)
    parts = ("all requests", "art", "synthetic")
    assert [line.split(" has ")[0] for line in told] == [
        f"{part}: {policy}" for part in parts for policy in ("least_load", "btb")
    ]
    assert [line.rstrip() for line in rendered(result, 200).splitlines()[2:8]] == [f"- {line}" for line in told]


def test_published_values_stand_beside_ours_with_the_difference():
    plain = make_result()
    a, b = (plain.row("70b_h100x4", policy)["mean_ttft_s"] for policy in ("cache_aware", "btb"))
    published = (
        Published("70b_h100x4", "cache_aware", "all", a),
        Published("70b_h100x4", "btb", "all", b * 1.1),
        Published("a setup not replayed", "btb", "all", 1.0),
    )
    result = make_result(published=published)
    sheet = published_sheet(result, "all", "mean")
    ((setup, (first, second)),) = sheet.groups
    assert setup == "70b_h100x4"
    assert [cell.text for cell in first.cells][2:] == ["exact", "–", "baseline"]
    assert [cell.text for cell in second.cells][2:] == [
        "-9.1%",
        numbers.percent((a - b * 1.1) / a * 100),
        numbers.percent((a - b) / a * 100),
    ]
    assert sheet.note == "Largest relative difference of 2 values: -9.1%. Source: a paper"
    assert published_sheet(result, "all", "p95").groups == ()
    assert "Published mean TTFT" in rendered(result, 80)
    assert "Published" not in rendered(plain, 80)


def test_markdown_has_every_row_and_every_column():
    result = make_result(labels=("art", "synthetic", "art"))
    text = markdown_table(result)
    assert text.startswith("# sample · 125 requests in 3 windows · trace sample.jsonl\n")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| setup")]
    assert len(tables) == 4
    for lines in tables[:-1]:
        assert len(lines) == 2 + 9 + 3  # the floor of each setup
    assert len(tables[-1]) == 2 + 9
    for lines in tables:
        assert len({line.count(" | ") for line in lines if not line.startswith("|--")}) == 1
    assert "end to end" in text


def test_names_cannot_break_markdown():
    result = make_result()
    assert "a \\| b" in headline(result).replace("sample", "a \\| b", 1)
    assert "| a\\|b |" in markdown_table(make_result(slowness={"cache_aware": 1.0, "a|b": 0.5}))
