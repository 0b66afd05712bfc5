"""`prefetch`: a checkpoint's folder, its weights already in memory when a library opens them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from reactor_trio.interface.progress import progress

#: What most checkpoints consist of. Pickles (*.bin, *.ckpt, *.pt) are absent: opening one runs the code that is in it.
FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
WEIGHTS = ".safetensors"
#: Bytes that are read at once.
PIECE = 16 << 20


def prefetch(
    checkpoint: str | Path, *, download: bool = False, files: Sequence[str] = FILES, revision: str | None = None
) -> Path:
    """Return the folder of a checkpoint after reading its weights once, with `progress`.

    A library that then maps the files finds them in the system's page cache. From a network disk that is faster than reading
    them page by page, and the page shows a bar meanwhile. Call it in `load`. It blocks the thread, cannot be cancelled, and
    needs `huggingface_hub` unless the checkpoint is a folder.

    Args:
        checkpoint: a folder, or the name of a repository on the Hugging Face hub, such as "stabilityai/sd-turbo".
        download: whether a repository that is not in the local cache is downloaded, with `progress`.
        files: patterns of the files that are downloaded and, if they are safetensors, read. A pattern is compared with the
            whole path below the folder, and `*` also matches `/`.
        revision: a commit, tag or branch of the repository; None means its main branch. Only a commit always gives the same
            files.

    Raises FileNotFoundError, in one line that says how to get the checkpoint, if it is neither a folder nor in the cache;
    what `huggingface_hub` raises if a download fails; OSError if a file cannot be read.
    """
    folder = _folder(checkpoint, download, files, revision)
    weights = {
        path: path.stat().st_size
        for path in sorted(folder.rglob(f"*{WEIGHTS}"))
        if any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in files)
    }
    total, done = sum(weights.values()), 0
    piece = memoryview(bytearray(min(PIECE, total)))
    for path in weights:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(piece):
                done += count
                progress(min(done / total, 1), f"reading weights, {_of(done, total)}")
    return folder


def _folder(checkpoint: str | Path, download: bool, files: Sequence[str], revision: str | None) -> Path:
    folder = Path(checkpoint).expanduser()
    if folder.is_dir():
        return folder
    name = str(checkpoint)
    if name.count("/") != 1 or name.startswith(("/", ".", "~")):
        raise FileNotFoundError(f"no folder {name!r}; a checkpoint is a folder, or a repository such as 'owner/name'")
    import huggingface_hub

    wanted: dict[str, Any] = {"revision": revision, "allow_patterns": list(files)}
    try:
        # The author chooses the revision, and files that are not code.
        return Path(huggingface_hub.snapshot_download(name, local_files_only=True, **wanted))  # nosec B615
    except FileNotFoundError:
        if not download:
            raise FileNotFoundError(
                f"{name!r} is neither a folder nor in the local cache; fetch it with: hf download {name}"
            ) from None
    progress(None, f"downloading {name}")
    return Path(huggingface_hub.snapshot_download(name, tqdm_class=_reported(name), **wanted))  # nosec B615


def _reported(name: str) -> type:
    """Return a progress bar for `huggingface_hub` that reports to `progress` and draws nothing."""
    from tqdm import tqdm

    most = 0.0

    class Reported(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread that draws bars again

        def display(self, *_arguments: Any, **_options: Any) -> None:
            pass

        def update(self, n: float | None = 1) -> None:
            nonlocal most
            super().update(n)
            # One bar counts files, one the bytes received, one the bytes written. The last two go side by side.
            if self.unit == "B" and self.total and self.n > most:
                most = self.n
                progress(min(most / self.total, 1), f"downloading {name}, {_of(most, self.total)}")

    return Reported


def _of(done: float, total: float) -> str:
    return f"{done / 1e9:.2f} of {total / 1e9:.2f} GB"
