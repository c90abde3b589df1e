"""What a result was made with: versions, commit, hardware. Facts for a record, not settings."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nqg

PACKAGES = ("torch", "transformers", "numpy", "numba")


def versions() -> dict[str, str]:
    """Versions of what may change a figure."""
    return {"nqg": nqg.__version__, "python": platform.python_version(), **dict(map(_version, PACKAGES))}


def _version(package: str) -> tuple[str, str]:
    try:
        return package, version(package)
    except PackageNotFoundError:
        return package, "unknown"


def commit() -> str:
    """The commit of the checkout that nqg runs from, with a `+` if files differ from it; 'unknown' elsewhere."""
    if asserted := os.environ.get("NQG_COMMIT"):  # a copy of a checkout, as on a lent machine, has no .git
        return asserted
    head = _git("rev-parse", "--short=12", "HEAD")
    return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "") if head else "unknown"


def _git(*arguments: str) -> str:
    folder = Path(nqg.__file__).parent
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def hardware(device: str) -> str:
    """The processor that did the work, in words."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} cores, {platform.machine()}"
