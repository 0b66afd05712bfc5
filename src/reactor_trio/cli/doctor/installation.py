"""Checks of the installation: versions of Python and packages against this package's metadata, codecs, and the GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from reactor_trio.cli.doctor.finding import Finding, ok, problem, warning
from reactor_trio.errors import ReactorError
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, encoders, open_encoder, video_codecs
from reactor_trio.media.nvenc import nvenc_refusal

if TYPE_CHECKING:
    from packaging.requirements import Requirement

#: Extras whose packages a server may use. They need not be installed.
EXTRAS = ("video", "reload", "otel", "structlog")
#: Packages of the model, shown although this package requires no version of them.
UNRANGED = ("torch",)

DISTRIBUTION = "reactor-trio"
NVIDIA_SMI_PATIENCE = 20.0


def our_metadata() -> tuple[str, list[str]] | None:
    """Return the Python range and the requirements from this package's metadata; None if it is not installed."""
    try:
        found = metadata(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    return found["Requires-Python"], found.get_all("Requires-Dist") or []


def check_python(required: str, running: str = sys.version.split()[0]) -> Finding:
    """Check that the Python version `running` is in the range `required`."""
    from packaging.specifiers import SpecifierSet

    if SpecifierSet(required).contains(running, prereleases=True):
        return ok("python", f"{running} at {sys.executable}")
    return problem("python", f"{running} is not in {required}", "make a virtual environment with another Python")


def check_packages(requirements: Sequence[str]) -> Iterator[Finding]:
    """Check that each package in `requirements` is installed in its range. A package of an extra may be missing."""
    from packaging.requirements import Requirement

    fitting: list[str] = []
    missing: dict[str, list[str]] = {}
    for needed in map(Requirement, requirements):
        extra = _extra(needed)
        if extra is None:
            continue
        found = _installed(needed.name)
        if found is None and extra:
            missing.setdefault(extra, []).append(needed.name)
        elif found is None:
            yield problem("packages", f"{needed.name} is missing", f'pip install "{needed.name}{needed.specifier}"')
        elif not needed.specifier.contains(found, prereleases=True):
            yield problem(
                "packages", f"{needed.name} {found} is not in {needed.specifier}",
                f'pip install "{needed.name}{needed.specifier}"',
            )  # fmt: skip
        else:
            fitting.append(f"{needed.name} {found}")
    fitting += [f"{name} {found}" for name in UNRANGED if (found := _installed(name)) is not None]
    yield ok("packages", f"{DISTRIBUTION} {_installed(DISTRIBUTION)}, {', '.join(fitting)}")
    if "video" in missing:
        yield warning(
            "packages", f"{', '.join(missing['video'])} not installed: no H.264, no recording, only JPEG and raw pictures",
            f'pip install "{DISTRIBUTION}[video]"',
        )  # fmt: skip


def check_codecs(settings: CodecSettings) -> Iterator[Finding]:
    """Open every encoder of this installation and encode one frame with it."""
    try:
        found = encoders(settings)
    except ReactorError as error:
        yield problem("codecs", str(error))
        return
    except Exception as error:
        why = f"an encoder's library cannot be imported: {type(error).__name__}: {error}"
        yield problem("codecs", why, _INSTALL_VIDEO)
        return
    works = []
    for codec, by in found.items():
        try:
            _encode_once(codec, settings)
        except Exception as error:
            yield problem("codecs", f"{codec} ({by}) does not encode: {type(error).__name__}: {error}", _INSTALL_VIDEO)
        else:
            works.append(f"{codec} ({by})")
    yield ok("codecs", ", ".join(works))
    if find_spec("cv2") is None and "h264" in found:
        yield warning("codecs", "without OpenCV, converting a picture takes three times as long", _INSTALL_VIDEO)
    if "h264" in found:
        refusal = nvenc_refusal()
        yield ok("nvenc", "h264_nvenc opens" if refusal is None else f"no card encodes H.264; h264_nvenc: {refusal}")


def check_gpu() -> Iterator[Finding]:
    """Report what torch and the driver say about CUDA. A machine without a GPU is fine."""
    driver: str | None = None
    if (program := shutil.which("nvidia-smi")) is not None:
        answer = _ask_driver(program)
        if isinstance(answer, Finding):
            yield answer
        else:
            driver = answer
    if find_spec("torch") is None:
        yield ok("gpu", (driver or "no NVIDIA card found") + "; torch is not installed")
        return
    try:
        import torch

        cards = [
            f"{torch.cuda.get_device_name(index)} ({torch.cuda.mem_get_info(index)[0] >> 20} MiB free)"
            for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
        ]
    except Exception as error:
        yield problem("gpu", f"torch does not work: {type(error).__name__}: {error}", "install a torch that fits the driver")
        return
    if cards:
        yield ok("gpu", f"{', '.join(cards)}; torch is built for CUDA {torch.version.cuda}")
    elif driver is not None:
        why = "is built without CUDA" if torch.version.cuda is None else f"for CUDA {torch.version.cuda} finds no GPU"
        yield warning(
            "gpu", f"{driver}, but torch {torch.__version__} {why}: models run on the processor",
            "install a torch whose CUDA the driver supports (pytorch.org/get-started)",
        )  # fmt: skip
    else:
        yield ok("gpu", "no NVIDIA card found; models run on the processor")


_INSTALL_VIDEO = f'pip install --force-reinstall "{DISTRIBUTION}[video]"'


def _encode_once(codec: str, settings: CodecSettings) -> None:
    if codec in video_codecs():
        encoder = open_encoder(TrackSpec("doctor", "video", "out"), codec, settings)
        frame = np.zeros((64, 64, 3), np.uint8)
    else:
        encoder = open_encoder(TrackSpec("doctor", "audio", "out", sample_rate=48_000), codec, settings)
        frame = np.zeros((1, 960), np.int16)
    try:
        encoder.encode(frame)
    finally:
        encoder.close()


def _ask_driver(program: str) -> str | Finding:
    question = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(question, capture_output=True, text=True, timeout=NVIDIA_SMI_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return warning("gpu", f"nvidia-smi does not answer: {error}", "check the driver: dmesg | grep -i nvrm")
    words = done.stdout.strip() or done.stderr.strip()
    if done.returncode != 0:
        return warning("gpu", f"nvidia-smi failed: {words}", "reinstall the driver or restart the machine")
    return "driver sees " + "; ".join(words.splitlines())


def _extra(needed: Requirement) -> str | None:
    """Return the extra that requires it, "" if the base package does, None if neither a server nor its extras do."""
    if needed.marker is None or needed.marker.evaluate({"extra": ""}):
        return ""
    return next((extra for extra in EXTRAS if needed.marker.evaluate({"extra": extra})), None)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
