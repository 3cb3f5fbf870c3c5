"""`btbench traces`: the catalogue."""

from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli import completion
from btbench.cli.options import DebugOption, Format, FormatOption
from btbench.cli.rows import Value, print_rows

if TYPE_CHECKING:
    from btbench.sources.catalogue import Entry

SHORT = ("name", "rows", "block_tokens", "span", "licence", "here")  # what a terminal has room for


def traces(
    name: Annotated[
        str | None, typer.Argument(help="All that is known of this one.", autocompletion=completion.trace_names)
    ] = None,
    format: FormatOption = Format.table,
    debug: DebugOption = False,
) -> None:
    """List the traces that can be named: size, blocks, licence, source, and what is on this machine.

    What is unknown is left empty. Your own traces.toml can change entries and add some; below the table stands where.

    \b
    Examples:
      btbench traces
      btbench traces art-chat
      btbench traces --format json
    """
    from btbench.errors import UsageError, nearest
    from btbench.sources.catalogue import entries, override_path

    known = entries()
    if name is not None and name not in known:
        raise UsageError(f"there is no trace called {name!r}", nearest(name, list(known)))
    notes = (
        "Units, citation and source of one: btbench traces NAME. Replay it: btbench replay --trace NAME.",
        f"Your own entries: {override_path()}",
    )
    if name is not None:
        facts = _facts(name, known[name])
        rows = [{"what": key.replace("_", " "), "": value} for key, value in facts.items() if value is not None]
        print_rows({"trace": rows if format is Format.table else [facts]}, format)
        return
    table = [_facts(name, entry) for name, entry in known.items()]
    if format is Format.table:
        table = [{key: row[key] for key in SHORT} for row in table]
    print_rows({"traces": table}, format, notes)


def _facts(name: str, entry: "Entry") -> dict[str, Value]:
    """A row of the catalogue."""
    from btbench.sources.catalogue import Named, is_here

    splits = "|".join(entry.splits)
    return {
        "name": f"{name}:{splits}" if splits else name,
        "about": entry.about,
        "rows": entry.rows,
        "span": entry.span,
        "block_tokens": entry.block_tokens,
        "time_unit": entry.time_unit,
        "block_ids": entry.ids,
        "size_bytes": entry.bytes,
        "licence": entry.licence,
        "citation": entry.citation,
        "source": entry.source,
        "revision": entry.revision if entry.repo else None,
        "files": ", ".join([*(entry.files or ()), *entry.splits.values(), *entry.urls]) or None,
        "cannot_be_replayed": entry.why_not,
        "here": is_here(Named(name, entry, None, entry.revision, True)),
    }
