"""Data sets of the Hugging Face Hub: which files a revision holds, and those files on this machine.

A name such as `main` is resolved to a commit once and remembered, so that a replay uses the copy that is here and
needs no network; `btbench fetch` asks again.
"""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers

from btbench.errors import TraceError, nearest
from btbench.progress import Progress
from btbench.sources.patience import Patience, explained, hub_endpoint, is_offline
from btbench.sources.resolve import SUFFIXES
from btbench.sources.store import keep, store_root, write_whole
from btbench.sources.transport import TIMEOUT_S, stream_into

CONVERTED = "refs/convert/parquet"  # where the Hub keeps every public data set as Parquet


class Address(msgspec.Struct, frozen=True):
    """What a user names: `hf:owner/repo[@revision][/path]`."""

    repo: str
    revision: str = "main"
    path: str = ""  # file, folder or pattern; "" where none is named


class RemoteFile(msgspec.Struct, frozen=True):
    """A file of a commit."""

    path: str
    bytes: int
    digest: str  # as `store.Receipt`


class Snapshot(msgspec.Struct, frozen=True):
    """A commit of a data set."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]
    configs: dict[str, dict[str, list[str]]]  # configuration -> split -> patterns, as the card has them

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return store_root() / self.repo.replace("/", "--") / self.commit

    def url(self, path: str) -> str:
        """Address of a file."""
        return hf_hub_url(self.repo, path, repo_type="dataset", revision=self.commit, endpoint=hub_endpoint())


def parse_address(source: str) -> Address:
    """`hf:owner/repo[@revision][/path]` taken apart; slashes in a revision as %2F. Raises TraceError."""
    rest = source.removeprefix("hf:").removeprefix("//").removeprefix("datasets/")
    owner, _, rest = rest.partition("/")
    name, at, rest = _split_at(rest)
    revision, path = "main", rest
    if at == "@":
        for special in ("refs/convert/", "refs/pr/"):
            if rest.startswith(special):
                last, _, path = rest.removeprefix(special).partition("/")
                revision = special + last
                break
        else:
            revision, _, path = rest.partition("/")
    if not owner or not name or not revision:
        raise TraceError(f"{source!r} names no data set of the Hub.", "Allowed: hf:owner/repo[@revision][/path].")
    return Address(f"{owner}/{name}", unquote(revision), path.strip("/"))


def _split_at(text: str) -> tuple[str, str, str]:
    """The text before the first @ or /, that sign, and the text behind it."""
    for i, sign in enumerate(text):
        if sign in "@/":
            return text[:i], sign, text[i + 1 :]
    return text, "", ""


def _remembered_at(repo: str, revision: str) -> Path:
    return store_root() / repo.replace("/", "--") / f"{quote(revision, safe='')}.revision.json"


def remembered(repo: str, revision: str) -> Snapshot | None:
    """The commit that a revision was when it was last asked for on this machine."""
    try:
        return msgspec.json.decode(_remembered_at(repo, revision).read_bytes(), type=Snapshot)
    except (OSError, msgspec.MsgspecError):
        return None


def look_up(repo: str, revision: str, progress: Progress) -> Snapshot:
    """The commit that a revision is on the Hub now, remembered under both names. Raises NetworkError."""
    what = f"hf:{repo}" + (f"@{revision}" if revision != "main" else "")
    if is_offline():
        raise explained(OfflineModeIsEnabled(), what)
    progress(f"asking the Hub for {what}", 0, 0)
    api = HfApi(endpoint=hub_endpoint())
    info = Patience(what, progress).run(
        lambda: api.dataset_info(repo, revision=revision, files_metadata=True, timeout=TIMEOUT_S)
    )
    snapshot = Snapshot(
        repo,
        str(info.sha),
        tuple(
            RemoteFile(f.rfilename, f.size or 0, f"sha256:{f.lfs.sha256}" if f.lfs else f"git:{f.blob_id}")
            for f in info.siblings or ()
        ),
        _configs(info.card_data.to_dict() if info.card_data else {}),
    )
    for name in {revision, snapshot.commit}:
        write_whole(_remembered_at(repo, name), msgspec.json.encode(snapshot))
    return snapshot


def _configs(card: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Patterns by configuration and split, from the card's `configs` in any of the forms it may take."""
    configs: dict[str, dict[str, list[str]]] = {}
    for config in card.get("configs") or ():
        files = config.get("data_files")
        if files is None and config.get("data_dir"):
            files = f"{config['data_dir'].rstrip('/')}/**"
        entries = [files] if isinstance(files, str | dict) else files or []
        splits: dict[str, list[str]] = {}
        for entry in entries:
            split, path = (entry.get("split", "train"), entry["path"]) if isinstance(entry, dict) else ("train", entry)
            splits.setdefault(split, []).extend([path] if isinstance(path, str) else path)
        if splits:
            configs[config.get("config_name", "default")] = splits
    return configs


def choose_files(snapshot: Snapshot, patterns: list[str], what: str) -> list[RemoteFile]:
    """The trace files that names, folders or patterns stand for, in that order. Raises TraceError where none is."""
    traces = [f for f in snapshot.files if f.path.endswith(SUFFIXES)]
    chosen: dict[str, RemoteFile] = {}
    for pattern in patterns:
        for file in sorted(traces, key=lambda f: f.path):
            inside = file.path == pattern or file.path.startswith(pattern.rstrip("/") + "/")
            # in a card, ** also stands for no folder at all
            if inside or any(fnmatch.fnmatchcase(file.path, p) for p in (pattern, pattern.replace("**/", ""))):
                chosen[file.path] = file
    if chosen:
        return list(chosen.values())
    names = [f.path for f in traces]
    raise TraceError(
        f"{what}: no trace file in {snapshot.repo} at {snapshot.commit[:12]} is called {', '.join(patterns)}.",
        nearest(patterns[0], names) if names else f"It holds no files ending in {', '.join(SUFFIXES)}.",
    )


def default_patterns(snapshot: Snapshot, config: str | None, what: str) -> list[str]:
    """The files of a configuration of the card, or all trace files of one kind. Raises TraceError if unclear."""
    if config is None and len(snapshot.configs) > 1 and "default" not in snapshot.configs:
        raise TraceError(
            f"{what} has {len(snapshot.configs)} configurations.",
            f"Name the files, hf:owner/repo/path: {_listed(snapshot)}",
        )
    if snapshot.configs:
        names = list(snapshot.configs)
        wanted = config or ("default" if "default" in names else names[0])
        if wanted not in names:
            raise TraceError(f"{what} has no configuration {wanted!r}.", nearest(wanted, names))
        return [pattern for patterns in snapshot.configs[wanted].values() for pattern in patterns]
    for kind in (".parquet", ".jsonl", ".csv", ".json"):
        names = [f.path for f in snapshot.files if kind in Path(f.path).name and f.path.endswith(SUFFIXES)]
        if config is not None:  # no card: configurations are folders or name parts
            names = [name for name in names if config in name.replace("-", "/").replace(".", "/").split("/")]
        if names:
            return names
    raise TraceError(f"{what} holds no trace files.", f"Expected files ending in {', '.join(SUFFIXES)}.")


def _listed(snapshot: Snapshot) -> str:
    return ", ".join(f.path for f in snapshot.files if f.path.endswith(SUFFIXES)) + "."


def fetch_file(snapshot: Snapshot, file: RemoteFile, progress: Progress, before_bytes: int, all_bytes: int) -> Path:
    """A file of a commit, whole and checked, on this machine."""
    what = f"{snapshot.repo}/{file.path}"
    return fetch_url(
        snapshot.url(file.path),
        snapshot.folder / file.path,
        what,
        progress,
        headers=build_hf_headers(),
        size=file.bytes,
        digest=file.digest,
        advance=lambda have: progress(f"fetching {what}", before_bytes + have, all_bytes),
    )


def fetch_url(
    url: str,
    path: Path,
    what: str,
    progress: Progress,
    *,
    headers: dict[str, str] | None = None,
    size: int | None = None,
    digest: str | None = None,
    advance: Callable[[int], None] | None = None,
) -> Path:
    """A file of a public address, whole, on this machine; goes on where an earlier try stopped. Raises NetworkError."""

    def write(part: io.BufferedRandom) -> None:
        if is_offline():
            raise explained(OfflineModeIsEnabled(), what)
        report = advance or (lambda have: progress(f"fetching {what}", have, size or 0))
        stream_into(part, url, headers or {}, Patience(what, progress), report, None if digest else tag)

    tag = path.with_name(path.name + ".etag")
    return keep(path, what, url, write, progress, size=size, digest=digest)
