"""A data set on disk onto the Hugging Face Hub, with `datasets`: rows as Parquet, and what stands beside them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from btbench.sources.dataset import Contents, Written
from btbench.sources.dataset_card import card_of, info_bytes, info_of
from btbench.sources.patience import HTTP_ERROR, explained, hub_endpoint


def push_dataset(contents: Contents, written: list[Written], folder: Path, file_format: str, repo: str) -> None:
    """Upload the splits of a folder as the data set `repo`, with description and card. Raises NetworkError."""
    import datasets
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()  # ours is drawn already
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()

    there = [w._replace(file=f"data/{w.split}-*", bytes=None, sha256=None) for w in written]
    beside = {
        "README.md": card_of(contents, there, file_format).encode(),
        "dataset_info.json": info_bytes(info_of(contents, there)),
    }
    try:
        with tempfile.TemporaryDirectory(prefix="btbench-push-") as scratch:
            files = {w.split: str(folder / w.file) for w in written}
            kind = "parquet" if file_format == "parquet" else "json"
            rows = datasets.load_dataset(kind, data_files=files, cache_dir=scratch)
            api = HfApi(endpoint=hub_endpoint())
            api.create_repo(repo, repo_type="dataset", exist_ok=True)
            for name, content in beside.items():
                api.upload_file(
                    path_or_fileobj=content,
                    path_in_repo=name,
                    repo_id=repo,
                    repo_type="dataset",
                    commit_message=f"Upload {name}",
                )
            rows.push_to_hub(repo, commit_message="Upload rows")
    except (HTTP_ERROR, ConnectionError) as error:
        raise explained(error, f"hf:{repo}") from error
