"""The traces that have a name: what is known of each, where it comes from, and its files on this machine.

Built-in entries stand in `catalogue.toml`. A user's `traces.toml` (at `BTBENCH_TRACES_TOML`, else in the user's
configuration folder) replaces keys of entries, or adds entries of its own, so a moved repository needs no release.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import platformdirs
from pydantic import Field, ValidationError

from btbench.errors import NetworkError, TraceError, nearest
from btbench.progress import Progress
from btbench.sources.formats import NAMES as FORMAT_NAMES
from btbench.sources.resolve import Located
from btbench.trace_spec import Count, Strict, WindowSpec

if TYPE_CHECKING:
    from btbench.sources.hub import RemoteFile, Snapshot

ART_LIKE = "art-like"


class Entry(Strict):
    """A trace of the catalogue. None is unknown."""

    about: str
    repo: str | None = None  # owner/name on the Hub
    revision: str = "main"
    config: str | None = None
    files: list[str] | None = None  # names or patterns in the repository
    splits: dict[str, str] = Field(default={})  # split -> name or pattern
    urls: list[str] = Field(default=[])
    path: str | None = None  # a local file or folder, in a user's traces.toml
    sha256: str | None = None
    generated: bool = False
    why_not: str | None = None  # why it cannot be replayed
    format: str | None = None
    rows: Count | None = None
    bytes: Count | None = None
    span: str | None = None
    block_tokens: Count | None = None
    time_unit: str | None = None
    ids: str | None = None  # what a block id stands for
    licence: str | None = None
    citation: str | None = None

    @property
    def source(self) -> str:
        """Where it comes from, in one line."""
        if self.repo:
            revision = "" if self.revision == "main" else f"@{self.revision}"
            return f"hf:{self.repo}{revision}" + (f" ({self.config})" if self.config else "")
        return self.path or (self.urls[0] if self.urls else "made here")


def override_path() -> Path:
    """The user's own catalogue."""
    given = os.environ.get("BTBENCH_TRACES_TOML")
    return Path(given) if given else Path(platformdirs.user_config_dir("btbench", appauthor=False)) / "traces.toml"


def entries() -> dict[str, Entry]:
    """All named traces: built-in ones with the user's changes, then the user's own. Raises TraceError."""
    tables: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    path = override_path()
    if path.exists() or os.environ.get("BTBENCH_TRACES_TOML"):
        for name, table in _read_tables(path).items():
            tables[name] = _merged(tables.get(name, {"about": "named in traces.toml"}), table)
    found = {}
    for name, table in tables.items():
        try:
            found[name] = Entry.model_validate(table)
        except ValidationError as error:
            raise _fault(path, name, error) from error
        if not (found[name].repo or found[name].urls or found[name].path or found[name].generated):
            raise TraceError(f"{path}: [{name}] has no source.", "Allowed: repo, urls or path.")
        if found[name].format not in (None, ART_LIKE, *FORMAT_NAMES):
            raise TraceError(
                f"{path}: [{name}] format = {found[name].format!r}.", f"Allowed: {', '.join(FORMAT_NAMES)}."
            )
    return found


_PLACES = ("repo", "urls", "path")  # a new place replaces the old one, and what was known of its files


def _merged(entry: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    if any(key in changes for key in _PLACES):
        entry = {k: v for k, v in entry.items() if k not in (*_PLACES, "revision", "sha256", "bytes")}
    if any(key in changes for key in ("urls", "path")):
        entry = {k: v for k, v in entry.items() if k not in ("files", "splits", "config")}
    return {**entry, **changes}


def _read_tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}.", "BTBENCH_TRACES_TOML names it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not TOML: {error}.") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise TraceError(f"{path}: {name} = {table!r} stands outside a table.", "Allowed: tables, one a trace.")
    return tables


def _fault(path: Path, name: str, error: ValidationError) -> TraceError:
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return TraceError(f"{path}: [{name}] has an unknown key {key!r}.", nearest(key, list(Entry.model_fields)))
    return TraceError(f"{path}: [{name}] {key} = {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}.")


class Named(NamedTuple):
    """A trace as a user names it: `name[:split][@revision]`, or `hf:owner/repo[@revision][/path]`."""

    source: str
    entry: Entry
    split: str | None
    revision: str
    from_catalogue: bool


def parse_name(source: str, revision: str | None = None) -> Named:
    """The entry a name stands for; `revision` goes before one in the name. Raises TraceError."""
    if source.startswith("hf:"):
        from btbench.sources.hub import parse_address

        address = parse_address(source)
        entry = Entry(about="", repo=address.repo, files=[address.path] if address.path else None)
        return Named(source, entry, None, revision or address.revision, False)
    bare, _, asked = source.partition("@")
    name, _, split = bare.partition(":")
    known = entries()
    if name not in known:
        raise TraceError(
            f"There is no trace called {name!r}, nor a file of that name.",
            f"{nearest(name, list(known))} Or a file, or hf:owner/repo[@revision][/path].",
        )
    entry = known[name]
    if split and split not in entry.splits:
        allowed = ", ".join(f"{name}:{s}" for s in entry.splits) or f"{name}, which has no splits"
        raise TraceError(f"{name} has no split {split!r}.", f"Allowed: {allowed}.")
    return Named(source, entry, split or None, revision or asked or entry.revision, True)


def locate(
    source: str,
    progress: Progress,
    windows: WindowSpec | None = None,
    *,
    revision: str | None = None,
    rows: int | None = None,
    refresh: bool = False,
) -> Located:
    """The files of a named trace on this machine, fetched where they are missing.

    Where `windows` are cut by rows and the trace is Parquet on the Hub, only their rows are fetched; with `rows`, only
    the first rows of a trace on the Hub. `refresh` asks the Hub what commit the revision is now. Raises TraceError,
    NetworkError or OutputError.
    """
    named = parse_name(source, revision)
    entry = named.entry
    fetched = False

    def tell(stage: str, done: float, total: float) -> None:
        nonlocal fetched
        fetched = True
        progress(stage, done, total)

    if entry.why_not:
        raise TraceError(f"{source} cannot be replayed: {entry.why_not}.")
    if entry.generated:
        raise TraceError(f"{source} is made here, not fetched.", "A replay or `btbench generate --base` makes it.")
    if entry.path:
        from btbench.sources.resolve import locate_path

        path = override_path().parent / Path(entry.path).expanduser()
        if not path.exists():
            raise TraceError(f"{source}: there is no file {path}.", f"[{source}] path in {override_path()} names it.")
        return locate_path(source, path)._replace(name=source, format=entry.format)
    if entry.urls:
        located = Located(_from_urls(named, tell), source, source, entry.format)
    else:
        located = _from_hub(named, tell, windows, rows, refresh)
    at = f" at commit {located.revision[:12]}" if located.revision else ""
    return located._replace(notes=(f"fetched from {entry.source}{at}",) if fetched else ())


def url_path(name: str, url: str) -> Path:
    """Where a file of a public address is kept."""
    from btbench.sources.store import store_root

    return store_root() / name / url.rsplit("/", 1)[-1]


def _from_urls(named: Named, progress: Progress) -> tuple[Path, ...]:
    from btbench.sources.hub import fetch_url

    entry, name = named.entry, named.source.partition("@")[0]
    digest = f"sha256:{entry.sha256}" if entry.sha256 and len(entry.urls) == 1 else None
    size = entry.bytes if len(entry.urls) == 1 else None
    return tuple(fetch_url(url, url_path(name, url), name, progress, size=size, digest=digest) for url in entry.urls)


def hub_snapshot(named: Named, progress: Progress, refresh: bool) -> Snapshot:
    """The commit of a named trace: the one remembered, unless it is to be asked for again."""
    from btbench.sources import hub
    from btbench.sources.patience import is_offline

    assert named.entry.repo is not None
    here = hub.remembered(named.entry.repo, named.revision)
    if here is not None and not refresh:
        return here
    try:
        return hub.look_up(named.entry.repo, named.revision, progress)
    except NetworkError:
        if here is None or not is_offline():
            raise
        return here


def is_here(named: Named) -> str:
    """How much of a trace is on this machine: "yes", "parts" or "no"."""
    from btbench.sources import hub, hub_rows, store

    entry = named.entry
    if entry.generated:
        return "made here"
    if entry.path:
        return "yes" if (override_path().parent / Path(entry.path).expanduser()).exists() else "no"
    if entry.urls:
        found = [store.receipt_of(url_path(named.source, url)) is not None for url in entry.urls]
        return "yes" if all(found) else "parts" if any(found) else "no"
    snapshot = hub.remembered(entry.repo or "", named.revision)
    if snapshot is None:
        return "no"
    try:
        return hub_rows.share_here(snapshot, _files(named, snapshot))
    except TraceError:
        return "no"


def _files(named: Named, snapshot: Snapshot) -> list[RemoteFile]:
    """The files of a commit that a trace is made of."""
    from btbench.sources import hub

    entry = named.entry
    if entry.splits:
        patterns = [entry.splits[named.split]] if named.split else list(entry.splits.values())
    else:
        patterns = entry.files or hub.default_patterns(snapshot, entry.config, named.source)
    return hub.choose_files(snapshot, patterns, named.source)


def _from_hub(named: Named, progress: Progress, windows: WindowSpec | None, rows: int | None, refresh: bool) -> Located:
    from btbench.sources import hub_rows

    snapshot = hub_snapshot(named, progress, refresh)
    files = _files(named, snapshot)
    located = Located((), named.source, named.source, named.entry.format, snapshot.commit)
    if rows is not None:
        return hub_rows.first_rows(located, snapshot, files, rows, progress)
    return hub_rows.bring(located, snapshot, files, windows, progress)
