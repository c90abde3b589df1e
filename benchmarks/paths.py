"""Which modules of ours a training pair and a sentence pass, measured by tracing calls, drawn for docs/architecture.md.

    python benchmarks/paths.py            prints the modules of each path, in the order of their first call
    python benchmarks/paths.py --write    draws docs/images/path-*.svg, and writes the page's figures

A module is passed if one of its functions is called between the beginning and the end of `nqg.train(pairs)`, or of
`parser.parse(sentence)`; compiled kernels are called by the modules that hold them. Modules that are only imported do
not count, nor does loading a model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from html import escape
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any

import nqg
from nqg.data.example_files import read_examples

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "architecture.md"
SOURCE = str(Path(nqg.__file__).parent)
SENTENCES = (
    "could you turn off the lamp in the attic at midnight",
    "sing a song to the lamp",
)  # the second is unknown
STAGES = (
    "data",
    "text",
    "preprocessing",
    "slots",
    "types",
    "grammar",
    "splits",
    "induction",
    "model",
    "training",
    "inference",
    "evaluation",
    "pipeline",
    "paper",
)
BOX_WIDTH, LINE_HEIGHT, GAP = 190, 17, 14
COLUMNS = 4


def passed_modules(work: Callable[[], object]) -> list[str]:
    """The modules of ours whose functions `work` calls, in the order of their first call."""
    passed: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if (
            event == "call"
            and path.startswith(SOURCE)
            and frame.f_code.co_name != "<module>"
        ):
            passed[path.removeprefix(SOURCE).strip("/")] = None

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(passed)


def traced_paths() -> dict[str, list[str]]:
    """The modules that the starter project's pairs pass in training, and two sentences in parsing."""
    with resources.as_file(
        resources.files("nqg.data").joinpath("starter", "train.tsv")
    ) as path:
        examples = read_examples(path)
    nqg.train(examples[:20])  # modules that are loaded on first use are loaded now
    systems: list[Any] = []
    trained = passed_modules(lambda: systems.append(nqg.train(examples)))
    parser = systems[0]
    parsed = passed_modules(
        lambda: [parser.parse(sentence).explain() for sentence in SENTENCES]
    )
    return {"train": trained, "parse": parsed}


def by_stage(modules: list[str]) -> dict[str, list[str]]:
    """The modules of each stage, in the order of their first call; those beside the stages come last."""
    grouped: dict[str, list[str]] = {
        stage: [] for stage in (*STAGES, "beside the stages")
    }
    for module in modules:
        folder = module.rpartition("/")[0]
        grouped[folder if folder in grouped else "beside the stages"].append(module)
    return {stage: names for stage, names in grouped.items() if names}


def drawing(title: str, modules: list[str]) -> str:
    """The path as an SVG: a box for each stage, with its modules and the number of their first call."""
    order = {module: number for number, module in enumerate(modules, start=1)}
    boxes, x, y, row_height = [], 0, 30, 0
    for position, (stage, names) in enumerate(by_stage(modules).items()):
        if position and position % COLUMNS == 0:
            x, y, row_height = 0, y + row_height + GAP, 0
        height = LINE_HEIGHT * (len(names) + 1) + 12
        row_height = max(row_height, height)
        lines = [
            f'<text x="{x + 10}" y="{y + 19}" class="stage">{escape(stage)}</text>'
        ]
        for line, module in enumerate(names, start=1):
            name = module.rpartition("/")[2]
            lines.append(
                f'<text x="{x + 10}" y="{y + 19 + line * LINE_HEIGHT}">{order[module]}. {escape(name)}</text>'
            )
        box = f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="5"/>'
        boxes.append(box + "".join(lines))
        x += BOX_WIDTH + GAP
    width, bottom = COLUMNS * (BOX_WIDTH + GAP) - GAP, y + row_height + 2
    style = (
        "text{font:12px sans-serif;fill:#223}.stage{font-weight:bold}.title{font-size:14px;font-weight:bold}"
        "rect{fill:#f4f6fa;stroke:#8899bb}"
    )
    heading = f'<text x="0" y="16" class="title">{escape(title)}</text>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom}" width="{width}">'
    return f"{opening}<style>{style}</style>{heading}{''.join(boxes)}</svg>\n"


def page_block(paths: dict[str, list[str]]) -> str:
    """What the page says about the paths, between its two marks."""
    lines = [BEGIN]
    for name, what in (
        ("train", "A training pair in `nqg.train`"),
        ("parse", "A sentence in `parser.parse`"),
    ):
        modules = paths[name]
        lines.append(
            f"{what} passes {len(modules)} modules in {len(by_stage(modules))} folders:\n"
        )
        lines.append(
            f"![the modules that it passes, by folder](images/path-{name}.svg)\n"
        )
    lines.append(END)
    return "\n".join(lines)


BEGIN, END = (
    "<!-- paths: python benchmarks/paths.py --write -->",
    "<!-- end of paths -->",
)


def main() -> None:
    paths = traced_paths()
    if "--json" in sys.argv:
        print(json.dumps(paths))
        return
    for name, modules in paths.items():
        print(f"{name}: {len(modules)} modules")
        for stage, names in by_stage(modules).items():
            print(f"  {stage}: {', '.join(names)}")
    if "--write" in sys.argv:
        titles = {
            "train": "A training pair in nqg.train",
            "parse": "A sentence in parser.parse",
        }
        for name, modules in paths.items():
            (PROJECT / "docs" / "images" / f"path-{name}.svg").write_text(
                drawing(titles[name], modules)
            )
        text = PAGE.read_text()
        before, _, rest = text.partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(before + page_block(paths) + after)


if __name__ == "__main__":
    main()
