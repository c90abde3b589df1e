"""The options `--engine` and `--workers` of verbs whose work falls into parts."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from nqg.cli.device import checked_device
from nqg.engines import Engine, engine_named

PANEL = "Who does the work"
ENGINE = typer.Option(
    "local",
    "--engine",
    metavar="local|ray|ray://HOST:PORT",
    help="Processes of this machine, a Ray that is started here, or a Ray cluster.",
    rich_help_panel=PANEL,
)
WORKERS = typer.Option(
    None,
    "--workers",
    metavar="N",
    min=1,
    help="How many parts are worked on at once. Default: one; on Ray, as many as it has room for.",
    rich_help_panel=PANEL,
    show_default=False,
)


@dataclass(frozen=True, slots=True)
class Workforce:
    """An engine, and the device that its workers compute on."""

    engine: Engine
    device: str | None

    @classmethod
    def chosen(cls, engine: str, workers: int | None, device: str | None) -> Workforce:
        """The one that the options ask for; on Ray every worker gets a GPU of its own, or none."""
        if engine == "local":
            return cls(engine_named(engine, workers=workers), checked_device(device))
        import torch

        is_far = engine.startswith("ray://")  # where other GPUs are than here
        device = device if is_far else checked_device(device)
        on_gpu = device == "cuda" or (device is None and torch.cuda.is_available())
        return cls(engine_named(engine, workers=workers, gpus=int(on_gpu)), "cuda" if on_gpu else "cpu")
