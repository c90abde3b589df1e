"""`nqg verify`: whether a model folder is what was saved, what it promises, and a digest that stands for all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import typer

from nqg.cli.terminal import JSON, MODEL, out
from nqg.errors import counted
from nqg.inference.hybrid import Hybrid, TokenSystem, load_system
from nqg.inference.parser import Parser
from nqg.model_folder import check_digest, folder_digest
from nqg.run_config import DataFingerprint

DIGEST = typer.Option(None, "--digest", metavar="SHA256", help="Fail unless this is the model's digest.")


def verify(model: Path = MODEL, digest: str | None = DIGEST, as_json: bool = JSON) -> None:
    """Check that a model folder is whole, and print what it promises and its digest.

    Example: nqg verify models/mine

    Every file is compared with its checksum, the model is loaded, and it has to
    score a sentence. The digest covers all files that are read; publish it beside
    the model, and compare it with --digest, here or with `nqg serve`.
    """
    check_digest(model, digest)
    loaded = load_system(model, "cpu")
    found = promises(loaded) | {"digest": folder_digest(model)}
    if as_json:
        out.print_json(data=found)
        return
    out.print(f"{model} is whole: its files are those that were saved, and it scores a sentence")
    for name, value in found.items():
        out.print(f"{name:12} {value if value is not None else 'not recorded'}")


def described(data: DataFingerprint) -> str:
    return f"{data.name}{': ' * bool(data.name)}{counted(data.examples, 'example')}, SHA-256 {data.fingerprint}"


def promises(loaded: Parser | Hybrid | TokenSystem) -> dict[str, Any]:
    if isinstance(loaded, TokenSystem):
        return {"rules": None, "system": cast(Any, loaded.system).settings.model}
    parser = cast(Parser, loaded.parser) if isinstance(loaded, Hybrid) else loaded
    provenance, calibrator = parser.model.provenance, parser.model.calibrator
    return {
        "rules": len(parser.grammar),
        "by hand": len(parser.model.by_hand),
        "fallback": isinstance(loaded, Hybrid),
        "made from": provenance.data and described(provenance.data),
        "measured": [f"{dict(each.scores)} on {described(each.data)}" for each in provenance.measurements] or None,
        "calibrated": calibrator and f"on {calibrator.trials:,} answers, {calibrator.right:,} of them right",
    }
