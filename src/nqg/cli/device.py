"""The option `--device` of every verb that computes with a model."""

from __future__ import annotations

import typer

from nqg.errors import NqgError

DEVICE = typer.Option(
    None, "--device", metavar="cpu|cuda", help="Where to compute. Default: cuda where there is one.", show_default=False
)


def checked_device(name: str | None) -> str | None:
    """The device that a user named, if there is one."""
    import torch

    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise NqgError("there is no GPU that torch can use; leave --device away, or say --device cpu")
    return name
