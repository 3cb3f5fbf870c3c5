"""What stands beside the rows of a data set: `dataset_info.json` and the card, `README.md`."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from btbench.sources import art_like
from btbench.sources.dataset import VERSION, Contents, Written
from btbench.sources.kept_ids import are_kept
from btbench.trace_spec import GeneratorSpec

TITLE = "Bursts of requests with shared prefixes"
_KEYS = """\
| key | meaning |
|---|---|
| `source` | `synthetic`, or the base the window is from |
| `trace_id` | the window; each is replayed by itself |
| `source_window_index`, `row_in_window` | position among the windows of its source, and in the window |
| `request_id` | the request |
| `timestamp`, `arrival_s` | seconds from the start of the window |
| `input_length`, `output_length` | tokens |
| `hash_ids` | ids of the prompt's blocks; equal ids mean equal whole prefixes |
| `session_id`, `group_id` | job of a synthetic request; of a base request its first 8 blocks, which are no session |
| `system_prompt_hash` | where the base has one |
| `messages` | always empty |
| `metadata` | job of a synthetic request, or row of the base |
| `split` | `train` or `test`, by whole windows within each source |
"""


def info_of(contents: Contents, written: list[Written]) -> dict[str, Any]:
    """The machine-readable description: how the set was made, and its files and windows."""
    base = contents.base
    made_from: dict[str, Any] | None = None
    if base is not None:
        made_from = {
            "name": contents.spec.base,
            "format": base.trace.format,
            "revision": base.trace.revision or None,
            "digest": base.trace.digest or None,
            "hash_ids": "kept" if are_kept(base.trace, base.located) else "made from equal prefixes",
        }
    return {
        "dataset_version": VERSION,
        "block_tokens": contents.spec.block_tokens,
        "generator": contents.spec.model_dump(),
        "base": made_from,
        "splits": {
            w.split: {key: value for key, value in w._asdict().items() if key != "split" and value is not None}
            for w in written
        },
    }


def info_bytes(info: dict[str, Any]) -> bytes:
    """The description as a file."""
    return msgspec.json.format(msgspec.json.encode(info)) + b"\n"


def command_of(spec: GeneratorSpec, file_format: str) -> str:
    """The command that writes the same set; it always tells the keys whose default is another one there."""
    plain = GeneratorSpec()
    told = {"windows"} | ({"base_windows"} if spec.base is not None else set())
    keys = {k: v for k, v in spec.model_dump().items() if k in told or v != getattr(plain, k)}
    words = [w for k, v in (keys | {"file_format": file_format}).items() for w in (f"--{k.replace('_', '-')}", f"{v}")]
    return shlex.join(["btbench", "generate", *words])


def card_of(contents: Contents, written: list[Written], file_format: str) -> str:
    """The data-set card, with the header that Hub and `datasets` read."""
    spec, base = contents.spec, contents.base
    files = "".join(f"      - split: {w.split}\n        path: {w.file}\n" for w in written)
    licence = "license: mit\n" if base is None or base.located is None else ""
    splits = "".join(f"| {w.split} | `{w.file}` | {len(w.windows)} | {w.rows:,} |\n" for w in written)
    sources = ", ".join(f"{count} {source}" for source, count in _count_sources(written).items())
    return f"""---
{licence}pretty_name: {TITLE}
tags:
  - llm-serving
  - request-trace
  - prefix-cache
configs:
  - config_name: default
    data_files:
{files}---

# {TITLE}

Request traces with bursts of requests that share one long, fresh prefix, for trying routers of LLM replicas. Made by
btbench with the published Bursted-ART generator (JW Labs, Biting the Bullet, July 2026).

| split | file | windows | requests |
|---|---|--:|--:|
{splits}
Windows by source: {sources}. A block is {spec.block_tokens} tokens.

{_synthetic_part(spec)}{_base_part(contents)}
## Keys of a row

{_KEYS}
`dataset_info.json` holds every key of the generator and the windows of each split.

## Made with

```
{command_of(spec, file_format)}
```

The same command writes the same bytes.
"""


def _count_sources(written: list[Written]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for w in written:
        for window in w.windows:
            counts[window["source"]] = counts.get(window["source"], 0) + 1
    return counts


def _synthetic_part(spec: GeneratorSpec) -> str:
    return f"""## Synthetic windows

- {spec.bursts} bursts of {spec.burst_size} requests that share {spec.prefix_tokens:,} tokens and have \
{spec.suffix_tokens:,} of their own, evenly over {spec.burst_window_s:g} s, one about every {spec.burst_spacing_s:g} s
- {spec.decoys} decoys of {spec.decoy_size} requests, with prefixes of their own
- {spec.background} background requests

Seed {spec.seed}, of whose stream {spec.skip_outputs} outputs were skipped.
"""


def _base_part(contents: Contents) -> str:
    base, spec = contents.base, contents.spec
    if base is None:
        return ""
    text = f"""
## Windows of {spec.base}

{spec.base_windows} windows of {spec.base_rows} consecutive rows from random places, times from the first row of each. \
Windows may overlap.
"""
    if base.located is None:
        return (
            text
            + f"""
{art_like.NAME} is no recorded traffic: it is a stand-in made from published statistics of ART-Chat-2.5M.

- Matched: {art_like.MATCHED}.
- Not matched: {art_like.NOT_MATCHED}.
"""
        )
    at = f" at commit {base.trace.revision}" if base.trace.revision else ""
    kept = "as they are" if are_kept(base.trace, base.located) else "renamed, equal where the whole prefix is equal"
    return (
        text
        + f"""
The rows are from {base.located.source}{at}, whose licence applies to them; block ids are {kept}, messages are left out.
"""
    )
