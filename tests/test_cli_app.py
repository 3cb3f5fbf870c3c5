"""The frame of the command line: quick help, errors in a few lines, exit statuses."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from btbench import __version__
from btbench.cli import list_command
from btbench.cli.app import COMMANDS, app
from btbench.errors import CapacityError, GateFailed

BTBENCH = [sys.executable, "-m", "btbench"]
HEAVY = ["numba", "numpy", "polars", "pyarrow", "matplotlib", "pydantic", "datasets", "huggingface_hub", "msgspec"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *args: CliRunner().invoke(app, args)


def raising(error: BaseException) -> Callable[..., None]:
    def function(*args: object) -> None:
        raise error

    return function


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom btbench.cli.app import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for name, _ in COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_every_command_has_help_with_an_example_in_80_columns(run, name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"btbench {name}" in result.stdout.split("Usage:")[1].split("\n", 1)[1]
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_version(run) -> None:
    assert run("--version").stdout == f"btbench {__version__}\n"


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (["rplay"], "Did you mean 'replay'?"),
        (["replay", "--polcy", "btb"], "--polcy"),
        (["replay", "--jobs", "0"], "--jobs"),
        (["replay", "--seed", "-1"], "--seed"),
        (["replay", "--seed", "x"], "--seed"),
        (["replay", "--format", "yaml"], "--format"),
        (
            ["list", "polices"],
            "is not one of 'policies', 'models', 'gpus', 'scenarios', 'metrics'. Did you mean 'policies'?",
        ),
        (["nosuch"], "Allowed: replay, "),
        (["replay", "--tie", "foo"], "Error: Invalid value for '--tie': 'foo' is not one of 'row', 'spread'."),
        ([], "Usage"),
    ],
)
def test_usage_errors_are_status_2(run, args: list[str], fragment: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert fragment in result.output


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (CapacityError("does not fit", "Use more."), 2, "Error: does not fit\nUse more.\n"),
        (GateFailed("btb got worse"), 1, "Error: btb got worse\n"),
        (OSError(28, "No space left on device", "a/b"), 2, "Error: a/b: No space left on device\n"),
        (
            MemoryError(),
            2,
            "Error: not enough memory\nTry fewer requests at once ([trace.windows]), or fewer --jobs.\n",
        ),
        (KeyboardInterrupt(), 130, "Error: interrupted\n"),
    ],
)
def test_a_failure_is_a_few_lines_and_a_status(
    run, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, text: str
) -> None:
    monkeypatch.setattr(list_command, "print_rows", raising(error))
    result = run("list", "models")
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", text)


@pytest.mark.parametrize("args", [["list", "models"], ["list", "metrics"], ["traces"], ["costs"]])
def test_no_line_ends_in_spaces_where_a_file_is_written(run, args: list[str]) -> None:
    lines = run(*args).stdout.splitlines()
    assert len(lines) > 3 and not [line for line in lines if line != line.rstrip()]


def test_a_path_below_a_table_is_not_broken(run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/".join(["a-long-folder-name"] * 8)
    monkeypatch.setattr("btbench.sources.catalogue.override_path", lambda: Path(path))
    assert path in run("traces").stdout.splitlines()


def test_an_error_is_not_broken_within_a_name(run, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/".join(["a-long-folder-name"] * 8)
    monkeypatch.setattr(list_command, "print_rows", raising(CapacityError(f"{name} is wrong")))
    assert f"Error: {name} is wrong\n" in run("list", "models").stderr


def test_debug_shows_the_traceback_too(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_command, "print_rows", raising(CapacityError("does not fit")))
    result = run("list", "models", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr and result.stderr.endswith("Error: does not fit\n")


def test_a_fault_of_ours_is_loud(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_command, "print_rows", raising(ZeroDivisionError()))
    assert isinstance(run("list", "models").exception, ZeroDivisionError)


def test_a_reader_that_leaves_is_no_error() -> None:
    command = subprocess.Popen(
        [*BTBENCH, "list", "metrics"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    assert command.stdout and command.stderr
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_stdout_is_named(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    command = [*BTBENCH, "list", "gpus", "--format", form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "Error: cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-"])
def test_closed_streams_change_no_status(closing: str) -> None:
    for args, status in ((["list", "gpus"], 0), (["check", "/nowhere.jsonl"], 2)):
        assert (
            subprocess.run(f"{shlex.join([*BTBENCH, *args])} {closing}", shell=True, capture_output=True).returncode
            == status
        )


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("replay qu", ["quickstart"]),
        ("replay -p ca", ["cache_aware"]),
        ("replay --setup glm", ["glm45_h100x4", "glm52_h100x8"]),
        ("replay --trace mooncake-c", ["mooncake-conversation"]),
        ("sweep rou", ["routers"]),
        ("sweep routers -m mean_t", ["mean_ttft_s"]),
        ("analyze-trace art-l", ["art-like"]),
        ("list pol", ["policies"]),
        ("compa", ["compare"]),
    ],
)
def test_a_shell_completes_names(words: str, offered: list[str]) -> None:
    typed = f"btbench {words}"
    asked = {"_BTBENCH_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'btbench'; from btbench.__main__ import main; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == offered
