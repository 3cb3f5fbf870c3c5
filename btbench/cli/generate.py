"""`btbench generate`: write a data set of bursts."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from btbench.cli.console import note, progress_bar
from btbench.cli.options import DebugOption, ForceOption, Format, FormatOption, OutOption, QuietOption
from btbench.cli.rows import print_rows
from btbench.progress import Progress

if TYPE_CHECKING:
    from btbench.sources.dataset import Contents, Written
    from btbench.trace_spec import GeneratorSpec


class FileFormat(StrEnum):
    """How rows are written."""

    jsonl = "jsonl"
    jsonl_gz = "jsonl.gz"
    jsonl_zst = "jsonl.zst"
    parquet = "parquet"


class Split(StrEnum):
    """Which windows are written."""

    all = "all"
    train = "train"
    test = "test"


def _count(name: str, help: str) -> Any:
    return typer.Option(f"--{name}", metavar="N", help=help, show_default=False)


def _seconds(name: str, help: str) -> Any:
    return typer.Option(f"--{name}", metavar="S", help=help, show_default=False)


def generate(
    out: OutOption = None,
    file_format: Annotated[FileFormat, typer.Option("--file-format", help="Of the rows.")] = FileFormat.jsonl,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="TRACE", help="Also take windows of this trace: a name, a file, or art-like."),
    ] = None,
    base_windows: Annotated[int | None, _count("base-windows", "Windows of the base. [as many as --windows]")] = None,
    base_rows: Annotated[int | None, _count("base-rows", "Rows of a base window. [1000]")] = None,
    windows: Annotated[int | None, _count("windows", "Synthetic windows. [20]")] = None,
    split: Annotated[Split, typer.Option("--split", help="Write both splits, or one.")] = Split.all,
    seed: Annotated[int | None, _count("seed", "Of all draws. [20260721]")] = None,
    skip_outputs: Annotated[
        int | None, _count("skip-outputs", "32-bit outputs skipped; the published set: 280. [0]")
    ] = None,
    bursts: Annotated[int | None, _count("bursts", "Jobs in a window. [8]")] = None,
    burst_size: Annotated[int | None, _count("burst-size", "Requests of a job. [500]")] = None,
    prefix_tokens: Annotated[int | None, _count("prefix-tokens", "Shared by a job. [65536]")] = None,
    suffix_tokens: Annotated[int | None, _count("suffix-tokens", "Of each request alone. [256]")] = None,
    output_tokens: Annotated[int | None, _count("output-tokens", "Of an answer. [1]")] = None,
    first_burst_s: Annotated[float | None, _seconds("first-burst-s", "When the first job starts. [20]")] = None,
    burst_spacing_s: Annotated[float | None, _seconds("burst-spacing-s", "From job to job. [40]")] = None,
    start_jitter_s: Annotated[float | None, _seconds("start-jitter-s", "Earlier or later by up to. [2]")] = None,
    burst_window_s: Annotated[float | None, _seconds("burst-window-s", "Over which a job arrives. [60]")] = None,
    decoys: Annotated[int | None, _count("decoys", "Jobs of one or few requests. [120]")] = None,
    decoy_size: Annotated[int | None, _count("decoy-size", "Requests of a decoy. [1]")] = None,
    decoy_window_s: Annotated[float | None, _seconds("decoy-window-s", "Over which a decoy arrives. [0.1]")] = None,
    lead_s: Annotated[float | None, _seconds("lead-s", "Decoys start so long before the first job. [6]")] = None,
    background: Annotated[int | None, _count("background", "Unrelated requests. [0]")] = None,
    background_prefix_tokens: Annotated[
        int | None, _count("background-prefix-tokens", "Of their prompts. [2048]")
    ] = None,
    background_output_tokens: Annotated[int | None, _count("background-output-tokens", "Of their answers. [1]")] = None,
    block_tokens: Annotated[int | None, _count("block-tokens", "Of a block. [256]")] = None,
    push_to_hub: Annotated[
        str | None, typer.Option("--push-to-hub", metavar="OWNER/NAME", help="Also upload it to the Hugging Face Hub.")
    ] = None,
    format: FormatOption = Format.table,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a data set of bursts, as Bursted-ART: train and test, a description, and a card.

    Goes to the folder "generated", or --out. The same options write the same bytes. Without options: about 0.7 GB as
    JSONL, 8 MB as Parquet.

    \b
    Examples:
      btbench generate --skip-outputs 280   the published windows and their split
      btbench generate --base art-like --file-format parquet --out my-bursts
      btbench generate --base art-chat --base-windows 20 --bursts 4
    """
    from btbench.sources.dataset import check_target

    keys = {key: value for key, value in locals().items() if key not in _NOT_OF_THE_GENERATOR and value is not None}
    folder = out or Path("generated")
    spec = _spec(keys | {"split": split.value})
    check_target(folder, force)
    with progress_bar(quiet) as progress:
        contents, written = _write(spec, folder, file_format.value, force, quiet, progress)
        if push_to_hub is not None:
            from btbench.sources.dataset_push import push_dataset

            progress(f"uploading to hf:{push_to_hub}", 0, 0)
            push_dataset(contents, written, folder, file_format.value, push_to_hub)
    print_rows(
        {
            "files": [
                {
                    "split": w.split,
                    "file": str(folder / w.file),
                    "windows": len(w.windows),
                    "requests": w.rows,
                    "size_bytes": w.bytes,
                }
                for w in written
            ]
        },
        format,
    )
    if not quiet and push_to_hub is not None:
        note(f"uploaded to hf:{push_to_hub}")


WORTH_A_WORD_BYTES = 50_000_000
_NOT_OF_THE_GENERATOR = frozenset(
    ("out", "file_format", "push_to_hub", "format", "force", "quiet", "debug", "check_target", "split")
)


def _spec(keys: dict[str, Any]) -> "GeneratorSpec":
    """The generator's keys. Raises UsageError where one is out of range."""
    from pydantic import ValidationError

    from btbench.errors import UsageError
    from btbench.trace_spec import GeneratorSpec

    defaults: dict[str, Any] = {"windows": 20}
    if "base" in keys:
        defaults["base_windows"] = keys.get("windows", 20)
    try:
        return GeneratorSpec.model_validate(defaults | keys)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise UsageError(f"--{option} {first['input']}: {first['msg'][0].lower()}{first['msg'][1:]}") from error


def _write(
    spec: "GeneratorSpec", folder: Path, file_format: str, force: bool, quiet: bool, progress: Progress
) -> "tuple[Contents, list[Written]]":
    """Write the whole data set; all of it is there in the end, or nothing."""
    from btbench.results.numbers import size
    from btbench.sources.dataset import Contents, new_folder, write_split
    from btbench.sources.dataset_card import card_of, info_bytes, info_of

    contents = Contents(spec, Path(), progress)
    total = spec.windows * len(contents.layout.job) + (spec.base_windows * spec.base_rows if contents.base else 0)
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        progress("writing rows", done, total)

    expected = contents.jsonl_bytes()
    if not quiet and file_format == "jsonl" and expected >= WORTH_A_WORD_BYTES:
        note(f"writing about {size(expected)} to {folder}; with --file-format parquet it is far less")
    with new_folder(folder, force) as unfinished:
        written = [write_split(contents, split, unfinished, file_format, advance) for split in contents.split_names()]
        (unfinished / "dataset_info.json").write_bytes(info_bytes(info_of(contents, written)))
        card = card_of(contents, written, file_format)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
    return contents, written
