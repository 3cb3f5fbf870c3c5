"""`btbench plot`: what it writes and prints, what it refuses, and that it writes everything or nothing."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from chart_samples import write_sample
from matplotlib.figure import Figure
from typer.testing import CliRunner

from btbench.charts import animation, draw
from btbench.cli.app import app


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("plot") / "sample")


@pytest.fixture
def own(sample: Path, tmp_path: Path) -> Path:
    """A result that a test may draw into."""
    return Path(shutil.copytree(sample, tmp_path / "own"))


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch):
    """Runs `btbench plot` with few charts and a short film."""
    monkeypatch.setattr(draw, "RESULT_CHARTS", draw.RESULT_CHARTS[:1])
    monkeypatch.setattr(animation, "FRAMES", 6)
    return lambda *args: CliRunner().invoke(app, ["plot", *map(str, args)])


def test_the_command_prints_what_it_wrote(plot, sample: Path, tmp_path: Path) -> None:
    asked = ("--charts", "svg", "--theme", "dark", "--animate", "--perfetto", tmp_path / "run.json", "--out", tmp_path)
    done = plot(sample, *asked, "--setup", "large", "--window", "w1", "--span", "30:60")
    assert done.exit_code == 0 and done.stderr == ""
    written = [Path(line) for line in done.stdout.splitlines()]
    stems = ("reduction", "timeline", "reduction-art", "reduction-synthetic")
    names = [f"{stem}-dark.{kind}" for stem in stems for kind in ("png", "svg")]
    assert [path.name for path in written] == [*names, "timeline-dark.gif", "run.json"]
    assert sorted(written) == sorted(tmp_path.iterdir())
    arrivals = [e["ts"] for e in json.loads((tmp_path / "run.json").read_text())["traceEvents"] if e["ph"] == "C"]
    assert min(arrivals) >= 30e6 and max(arrivals) <= 60e6


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--span", "60:30"), "the smaller first"),
        (("--span", "x"), "not a span"),
        (("--charts", "jpg"), "Allowed: png, svg, pdf"),
        (("--setup", "larg"), "Did you mean 'large'?"),
        (("--part", "arts"), "Did you mean 'art'?"),
        (("--theme", "sepia"), "light"),
    ],
)
def test_a_wrong_option_is_a_few_lines_and_status_2(plot, sample: Path, tmp_path: Path, args, said: str) -> None:
    done = plot(sample, "--out", tmp_path / "none", *args)
    assert done.exit_code == 2 and said in done.stderr and done.stdout == ""


def test_a_folder_without_a_result_is_an_error(plot, tmp_path: Path) -> None:
    done = plot(tmp_path)
    assert done.exit_code == 2 and "holds no summary.json" in done.stderr


def test_charts_that_cannot_be_drawn_again_are_told(plot, sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "thin"
    shutil.copytree(sample, folder)
    (folder / "requests.parquet").unlink()
    (folder / "charts").mkdir(exist_ok=True)
    (folder / "charts" / "timeline.png").write_bytes(b"of before")
    said = plot(folder).stderr
    assert "not drawn again, as the result has no data for them without requests.parquet:" in said
    assert "timeline.png" in said and "copies.png" not in said
    assert plot(folder, "-q").stderr == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--window", "x"), "no such window"),
        (("--span", "1000:2000"), "holds nothing of the window"),
        (("--charts", "jpg"), "no such chart format"),
        (("--setup", "larg"), "no such setup"),
    ],
)
def test_what_cannot_be_shown_is_known_before_anything_is_written(plot, own: Path, tmp_path: Path, args, said) -> None:
    before = contents(tmp_path)
    for out in ((), ("--out", tmp_path / "new")):
        done = plot(own, *args, *out)
        assert done.exit_code == 2 and said in done.stderr and done.stdout == ""
    assert contents(tmp_path) == before and not (tmp_path / "new").exists()


@pytest.mark.parametrize("args", [("--animate",), ("--perfetto", "run.json"), ("--window", "w1"), ("--span", "1:2")])
def test_what_needs_requests_is_an_error_without_them_and_nothing_is_written(
    plot, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args
) -> None:
    monkeypatch.chdir(tmp_path)
    (own / "requests.parquet").unlink()
    before = contents(tmp_path)
    done = plot(own, *args)
    assert done.exit_code == 2 and "holds no requests.parquet, which this needs" in done.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("fails", [1, 3, "film", "trace", "report"])
def test_on_a_full_disk_everything_stays_as_it_was(
    plot, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails
) -> None:
    assert plot(own).exit_code == 0
    before, calls = contents(tmp_path), 0

    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    def savefig(figure, path, *args, **options):
        nonlocal calls
        calls += 1
        path.write_bytes(b"half")
        if calls == fails:
            fail()

    where = {"film": (animation, "write_film"), "trace": (draw, "write_perfetto"), "report": (draw, "report_page")}
    monkeypatch.setattr(Figure, "savefig", savefig)
    if fails in where:
        monkeypatch.setattr(*where[fails], fail)
    done = plot(own, "--animate", "--perfetto", tmp_path / "run.json", "--charts", "svg")
    assert done.exit_code == 2 and done.stderr.startswith(f"Error: cannot write {own / 'charts'}: No space left")
    assert contents(tmp_path) == before


def test_files_elsewhere_are_replaced_only_with_force(plot, sample: Path, tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "run.json"
    assert plot(sample, "--out", out, "--perfetto", trace).exit_code == 0
    (out / "timeline.png").write_bytes(b"mine")
    trace.write_bytes(b"mine")
    before = contents(tmp_path)
    done = plot(sample, "--out", out)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {out} holds reduction.png, timeline.png, reduction-art.png and 1 more already\n"
        "Replace them with --force, or choose another folder with --out.\n"
    )
    done = plot(sample, "--out", tmp_path / "new", "--perfetto", trace)
    assert done.exit_code == 2 and done.stderr.startswith(f"Error: {trace} exists already\nReplace it with --force")
    assert contents(tmp_path) == before
    assert plot(sample, "--out", out, "--perfetto", trace, "--force").exit_code == 0
    assert b"mine" not in ((out / "timeline.png").read_bytes(), trace.read_bytes())
    assert plot(sample, "--out", out, "--theme", "dark").exit_code == 0  # other files


def test_a_result_draws_into_its_own_folder_as_often_as_it_likes(plot, own: Path) -> None:
    assert plot(own).exit_code == 0 and plot(own).exit_code == 0
    before = (own / "report.html").read_bytes()
    assert plot(own, "--out", own / "charts", "--span", "30:60").exit_code == 0
    assert (own / "report.html").read_bytes() != before


def test_forms_that_were_not_drawn_again_are_removed_and_the_report_shows_the_new_one(plot, own: Path) -> None:
    assert plot(own, "--charts", "svg,pdf", "--animate").stderr == ""
    assert "data:image/svg+xml" in (own / "report.html").read_text()
    done = plot(own, "--span", "30:60")
    stems = ("reduction", "timeline", "reduction-art", "reduction-synthetic")
    kept = {f"{stem}.png" for stem in stems} | {"timeline.gif"}
    assert {path.name for path in (own / "charts").iterdir()} == kept
    assert "as other forms were drawn: reduction.svg, reduction.pdf, timeline.svg" in done.stderr
    report = (own / "report.html").read_text()
    assert "data:image/svg+xml" not in report and report.count("<img") == len(kept)


def test_dark_charts_and_light_ones_are_in_the_report_once(plot, own: Path) -> None:
    assert plot(own, "--theme", "dark").exit_code == 0
    only_dark = (own / "report.html").read_text()
    assert plot(own).exit_code == 0
    both = (own / "report.html").read_text()
    assert plot(own, "--theme", "dark").exit_code == 0
    assert (own / "report.html").read_text() == both
    assert only_dark.count("<img") == both.count("<img") == 4


def test_copies_that_are_not_there_are_told(plot, own: Path) -> None:
    (own / "copies.parquet").unlink()
    done = plot(own)
    assert done.exit_code == 0 and done.stderr.startswith(f"Note: {own} holds no copies.parquet, so the timeline")
    assert plot(own, "-q").stderr == ""
