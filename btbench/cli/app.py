"""The `btbench` command: its parts, and what happens where one fails.

Nothing heavy is imported here or by the modules of the commands: `btbench --help` is to answer at once.
"""

import os
import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from btbench import __version__
from btbench.cli import analyze_trace, check, compare, costs, fetch, generate, list_command, plot, replay, sweep, traces
from btbench.cli.console import print_error, stderr
from btbench.cli.options import DEBUG
from btbench.errors import BtbenchError, UsageError, nearest

COMMANDS = (
    ("replay", replay.replay),
    ("analyze-trace", analyze_trace.analyze_trace),
    ("sweep", sweep.sweep),
    ("compare", compare.compare),
    ("plot", plot.plot),
    ("list", list_command.list_names),
    ("costs", costs.costs),
    ("check", check.check),
    ("traces", traces.traces),
    ("fetch", fetch.fetch),
    ("generate", generate.generate),
)

BAD_INPUT = BtbenchError.exit_status
INTERRUPTED = 130  # as shells say it: 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE


class _Commands(TyperGroup):
    """Turns what a user can cause into a few lines on stderr and an exit status; all else stays a traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            raise UsageError(f"there is no command called {args[0]!r}", nearest(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except typer.BadParameter as error:
            error.message = _plainly(error.message)
            raise
        except KeyboardInterrupt as interrupt:
            print_error(interrupt)
            raise typer.Exit(INTERRUPTED) from None
        except (BtbenchError, OSError, MemoryError) as error:
            if ctx.meta.get(DEBUG):
                stderr().print_exception()
            print_error(_named(error))
            raise typer.Exit(getattr(error, "exit_status", BAD_INPUT)) from None


def _plainly(message: str) -> str:
    """What the parser says of a wrong value, without its own words, and with the nearest of the names allowed."""
    message = message.removeprefix("Value error, ")
    found, _, allowed = message.partition(" is not one of ")
    hint, _, guessed = nearest(found.strip("'"), re.findall(r"'(.*?)'", allowed)).partition("?")
    return f"{message} {hint}?" if guessed else message


def _named(error: BaseException) -> BaseException:
    """The error; while stdout cannot be written to it is that one, and what is left for stdout is dropped."""
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError as still:  # what could not be written is still there
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OSError(still.errno, still.strerror, "cannot write to stdout")
    return error


# Typer's Rich help would double the time that `--help` takes; the plain one also keeps examples as they are.
app = typer.Typer(
    name="btbench",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _function in COMMANDS:
    app.command(_name)(_function)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"btbench {__version__}")
        raise typer.Exit


@app.callback()
def btbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Which router do your LLM replicas need?

    Replays request traces through a model of a GPU cluster under competing routing policies.

    \b
    Start here:
      btbench replay                     the paper's comparison, no network needed
      btbench replay quickstart          a smaller one, in seconds
      btbench replay --trace my.jsonl --setup 70b_h100x4
    """


def _open_closed_streams() -> None:
    """Where the caller closed a standard stream (`>&-`), the null device stands in for it."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, os.O_RDWR)
            if device != number:
                os.dup2(device, number)
                os.close(device)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # at once: do not wait for threads that are deep in compiled code
            os._exit(INTERRUPTED)
        raise
