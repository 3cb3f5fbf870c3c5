"""One window as it went: counts over time, bursts, the film, the Chrome trace, and the choice of what is shown."""

import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from chart_samples import BURST, BURST_AT_S, REPLICAS, STEADY, write_sample
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from btbench.charts import animation
from btbench.charts.over_time import burst_starts, in_flight, mean_so_far, most_at_once, per_replica
from btbench.charts.perfetto import write_perfetto
from btbench.charts.view import open_view
from btbench.charts.window import WHOLE, Choice, WindowView, read_window
from btbench.errors import UsageError


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("window") / "sample")


def window(folder: Path, **choice) -> WindowView:
    with open_view(folder) as view:
        shown = read_window(view, Choice(**choice))
    assert shown is not None
    return shown


def film(folder: Path, file: Path, theme: str = "light") -> Path:
    with open_view(folder, theme) as view:
        animation.write_film(view, Choice(), file)
    return file


def trace(folder: Path, file: Path, choice: Choice = WHOLE) -> Path:
    with open_view(folder) as view:
        write_perfetto(view, choice, file)
    return file


moments = st.integers(0, 12).map(float)
spans = st.lists(st.tuples(moments, st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@given(spans)
def test_the_most_at_once_is_what_counting_every_moment_gives(intervals: list[tuple[float, float]]) -> None:
    begin, end = (np.array([span[k] for span in intervals], float) for k in (0, 1))
    edges = np.array([0.0, 2.5, 3.0, 7.0, 7.5, 20.0])
    fine = np.arange(0, 20, 0.25)
    at = np.array([((begin <= t) & (t < end)).sum() for t in fine])
    counted = [at[(fine >= a) & (fine < b)].max() for a, b in itertools.pairwise(edges)]
    assert most_at_once(begin, end, edges).tolist() == counted


def test_requests_on_each_replica_are_counted_from_arrival_to_finish(sample: Path) -> None:
    shown = window(sample)
    times = np.linspace(*shown.span_s, 50)
    for replayed in shown.policies.values():
        inside, waiting = in_flight(replayed, REPLICAS, times)
        for k in range(REPLICAS):
            here = replayed.replica == k
            for j, t in enumerate(times):
                came = here & (replayed.arrival_s <= t)
                assert inside[k, j] == (came & (replayed.finish_s > t)).sum()
                assert waiting[k, j] == (came & (replayed.start_s > t)).sum()
        peaks = per_replica(replayed, REPLICAS, times)
        assert (peaks >= inside[:, :-1]).all() and peaks.shape == (REPLICAS, 49)


def test_the_mean_so_far_ends_at_the_mean_of_the_window(sample: Path) -> None:
    replayed = window(sample).policies["btb"]
    means = mean_so_far(replayed, np.array([-1.0, replayed.first_token_s.min(), 1e9]))
    ttft_s = replayed.first_token_s - replayed.arrival_s
    assert np.isnan(means[0])
    assert means[1:].tolist() == pytest.approx([ttft_s[replayed.first_token_s.argmin()], ttft_s.mean()])


@pytest.mark.parametrize("planted", [[50.0], [30.0, 70.0]])
def test_bursts_are_found_where_they_start(planted: list[float]) -> None:
    rng = np.random.default_rng(0)
    steady = rng.uniform(0, 100, 800)
    arrival_s = np.sort(np.concatenate([steady, *(start + rng.uniform(0, 3, 200) for start in planted)]))
    assert burst_starts(arrival_s) == pytest.approx(planted, abs=0.5)


def test_a_long_weak_burst_is_found_too_and_a_steady_stream_has_none() -> None:
    doubled = np.sort(np.concatenate([np.arange(0, 340, 1 / 8), np.arange(200, 240, 1 / 8)]))
    assert burst_starts(doubled) == pytest.approx([200], abs=2)
    assert burst_starts(np.arange(0, 340, 0.1)) == []
    assert burst_starts(np.array([3.0])) == []
    assert burst_starts(np.full(50, 3.0)) == []
    found = [burst_starts(np.sort(np.random.default_rng(seed).uniform(0, 600, 3000))) for seed in range(20)]
    assert sum(map(len, found)) <= 4  # of chance alone


def test_the_window_that_hurts_the_baseline_is_shown_and_another_can_be_named(sample: Path) -> None:
    shown = window(sample)
    assert (shown.setup, shown.window, len(shown.arrival_s)) == ("small", "w1", STEADY + BURST)
    assert shown.replicas == ["node0", "node1", "node2", "node3"]
    assert list(shown.policies) == ["least_load", "cache_aware", "btb"]
    assert len(shown.policies["btb"].copied.source) == 3 and len(shown.policies["least_load"].copied.source) == 0
    other = window(sample, setup="large", window="w0", span_s=(-5.0, 20.0))
    assert (other.setup, other.window, len(other.arrival_s)) == ("large", "w0", STEADY)
    assert other.span_s == (1.0, 20.0)


@pytest.mark.parametrize(
    ("choice", "said"),
    [({"setup": "smal"}, "small"), ({"window": "w7"}, "w0"), ({"span_s": (900.0, 950.0)}, "lasts from 1 to")],
)
def test_a_choice_of_nothing_is_an_error_that_says_what_there_is(sample: Path, choice, said: str) -> None:
    with pytest.raises(UsageError) as error:
        window(sample, **choice)
    assert said in str(error.value)


def test_a_film_moves_and_is_the_same_every_time(sample: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(animation, "FRAMES", 12)
    films = [film(sample, tmp_path / f"{name}.gif") for name in ("a", "b")]
    assert films[0].read_bytes() == films[1].read_bytes()
    moving = Image.open(films[0])
    assert (moving.n_frames, moving.size[0]) == (12, 960)
    frames = []
    for k in range(12):
        moving.seek(k)
        frames.append(np.asarray(moving.convert("RGB")))
    assert all((a != b).any() for a, b in itertools.pairwise(frames))
    assert film(sample, tmp_path / "dark.gif", "dark").read_bytes() != films[0].read_bytes()


def test_the_film_shows_the_worst_moment_where_no_span_is_named(sample: Path) -> None:
    with open_view(sample) as view:
        first, last = animation._worst_part(view, window(sample))
    assert first < BURST_AT_S + 2 < last


def test_the_film_says_what_its_pins_are_where_there_are_any(sample: Path) -> None:
    assert animation._note(window(sample)).endswith(
        "; pins at the right: copies on their way from holder to target, each shown for 0.6 s of film or longer."
    )
    assert "copies" not in animation._note(window(sample, window="w0"))


@pytest.fixture(scope="module")
def events(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    file = trace(sample, tmp_path_factory.mktemp("trace") / "run.json")
    return json.loads(file.read_text())["traceEvents"]


def of(events: list[dict], **fields) -> list[dict]:
    return [event for event in events if all(event.get(key) == value for key, value in fields.items())]


def test_every_policy_and_replica_is_a_process_with_four_tracks(events: list[dict]) -> None:
    names = [event["args"]["name"] for event in of(events, ph="M", name="process_name")]
    assert names == [f"{policy} · node{k}" for policy in ("least_load", "cache_aware", "btb") for k in range(REPLICAS)]
    tracks = defaultdict(set)
    for event in of(events, ph="M", name="thread_name"):
        tracks[event["pid"]].add((event["tid"], event["args"]["name"]))
    assert len(tracks) == 3 * REPLICAS
    assert all(t == {(1, "queue"), (2, "prefill"), (3, "decode"), (4, "copy")} for t in tracks.values())


def test_slices_of_a_track_do_not_overlap_and_say_what_was_served(sample: Path, events: list[dict]) -> None:
    slices = defaultdict(list)
    for event in of(events, ph="X"):
        slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in slices.values():
        spans.sort()
        assert all(a[1] <= b[0] + 0.002 for a, b in itertools.pairwise(spans))  # µs, rounded to ns
    prefills = of(events, ph="X", name="prefill")
    assert len(prefills) == 3 * (STEADY + BURST)
    spent_s = sum(event["dur"] for event in prefills) / 1e6
    shown = window(sample)
    told_s = sum(float((r.first_token_s - r.loaded_s).sum()) for r in shown.policies.values())
    assert spent_s == pytest.approx(told_s, rel=1e-6)


def test_what_begins_ends_once_and_no_two_processes_share_an_id(events: list[dict]) -> None:
    begins, ends = ({(e["cat"], e["id"]): e for e in of(events, ph=ph)} for ph in "be")
    assert begins.keys() == ends.keys()
    assert len(begins) == len(of(events, ph="b"))
    for key, begin in begins.items():
        assert (begin["pid"], begin["name"]) == (ends[key]["pid"], ends[key]["name"])
        assert begin["ts"] < ends[key]["ts"]


def test_counters_rise_and_end_at_nothing(events: list[dict]) -> None:
    last: dict[int, dict] = {}
    for event in of(events, ph="C"):
        assert event["args"]["queued"] >= 0 and event["args"]["running"] >= 0
        last[event["pid"]] = event["args"]
    assert len(last) == 3 * REPLICAS
    assert all(args == {"queued": 0, "running": 0} for args in last.values())
    assert max(event["args"]["queued"] for event in of(events, ph="C")) > 80


def test_copies_are_sent_by_the_holder_and_received_by_the_targets(events: list[dict]) -> None:
    received = list(of(events, ph="X", tid=4))
    assert [(e["name"], e["pid"] % REPLICAS) for e in received] == [("copy from node0", k % 4) for k in (2, 3, 4)]
    assert [e["args"]["used"] for e in received] == [True, True, False]
    sent = of(events, ph="b", tid=4)
    assert {(e["name"], e["pid"]) for e in sent} == {(f"copy to node{k}", 2 * REPLICAS + 1) for k in (1, 2, 3)}


def test_a_span_of_the_window_alone_can_be_written(sample: Path, tmp_path: Path) -> None:
    file = trace(sample, tmp_path / "run.json", Choice(span_s=(80.0, 90.0)))
    requests = {e["args"]["request"] for e in of(json.loads(file.read_text())["traceEvents"], name="prefill")}
    assert 0 < len(requests) < 20
