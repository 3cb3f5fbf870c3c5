"""The README's examples, run: every `$ btbench …` of a console block prints what stands below it.

`BTBENCH_README=write pytest tests/test_readme.py` writes what the commands print now into the README.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from btbench.cli.app import app
from btbench.scenario.load import parse

README = Path(__file__).parent.parent / "README.md"
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PLAIN = re.compile(r"```(?:sh|yaml)\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)


def run(command: str, folder: Path) -> str:
    """What a command prints, errors included and notes not, at 80 columns; behind `> FILE`, nothing."""
    command, file = re.fullmatch(r"(.*?)(?: > (\S+\.txt))?", command).groups()
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80", "HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    if file:
        (folder / file).write_text(done.stdout)
        return ""
    errors = done.stderr[done.stderr.find("Error:") :] if "Error:" in done.stderr else ""
    return "\n".join(line.rstrip() for line in (done.stdout + errors).rstrip().splitlines()) + "\n"


def renew(block: str, folder: Path) -> str:
    """A console block with the output its commands have now."""
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{run(command, folder)}" for command in commands)


def test_the_other_examples_are_commands_there_are():
    """Those that need a network, a user's file or a CI are parsed, not run."""
    text = README.read_text()
    shown = [line for block in PLAIN.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    told = re.findall(r"`(btbench [^`\n]+)`", text)
    commands = [line[line.index("btbench ") :] for line in shown if re.search(r"(^|bin/|run: )btbench ", line)]
    assert len(commands) > 3 and len(told) > 5
    for command in [*commands, *told]:
        _, name, *arguments = shlex.split(command.replace(" RESULT", " results/quickstart"))
        if name.startswith("--"):  # of btbench itself
            continue
        parsed = get_command(app).commands[name]
        if arguments or command in commands:
            parsed.make_context(name, arguments).close()


def test_the_scenario_is_one_and_has_every_key_of_its_tables():
    (text,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL)
    table = parse(text, "README.md")
    for part in (table.engine, table.router):
        assert part.model_fields_set == set(type(part).model_fields)
    assert set(type(table).model_fields) - table.model_fields_set == {"published", "published_source", "models", "gpus"}


def test_every_command_is_shown():
    text = README.read_text()
    assert [name for name in get_command(app).commands if f"$ btbench {name}" not in text] == ["fetch"]  # the Hub
    assert "btbench fetch" in text


def test_pictures_are_kept():
    assert all((README.parent / path).is_file() for path in re.findall(r"!\[[^]]+\]\(([^)]+)\)", README.read_text()))


def test_examples_print_what_the_readme_says(tmp_path):
    text = README.read_text()
    for name, code in PYTHON.findall(text):
        (tmp_path / name).write_text(code)
    now = CONSOLE.sub(lambda found: f"```console\n{renew(found[1], tmp_path)}```", text)
    now = now.replace(f"{tmp_path}/btbench/", "~/.config/btbench/").replace(str(tmp_path), ".")
    if os.environ.get("BTBENCH_README") == "write":
        README.write_text(now)
        pytest.skip("the README was written")
    assert now == text
