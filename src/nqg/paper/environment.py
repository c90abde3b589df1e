"""What an experiment ran on: versions of packages, the commit of nqg, the processor."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nqg
from nqg.run_config import UNKNOWN


def versions(*packages: str) -> dict[str, str]:
    """Versions of nqg, Python and `packages`: what may change a figure."""
    installed = {"nqg": nqg.__version__, "python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = UNKNOWN
    return installed


def commit() -> str:
    """The commit of the checkout that nqg runs from, or 'unknown'; a `+` marks changed files."""
    # A copy of a checkout, as on a lent machine, has no .git.
    name = os.environ.get("NQG_COMMIT")
    if name:
        return name
    git = ["git", "-C", str(Path(nqg.__file__).parent)]
    try:
        head = subprocess.check_output(
            [*git, "rev-parse", "--short=12", "HEAD"],
            text=True,
            stderr=subprocess.DEVNULL,
        )
        changed = subprocess.check_output(
            [*git, "status", "--porcelain", "--untracked-files=no"]
        )
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    if changed:
        return f"{head.strip()}+"
    return head.strip()


def hardware(device: str) -> str:
    """The processor that does the work, in words."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} cores, {platform.machine()}"
