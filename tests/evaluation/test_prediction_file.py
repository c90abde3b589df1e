"""Files of predictions: what is read, what is refused, and what a sentence that is not there gets."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nqg.errors import NqgError
from nqg.evaluation.prediction_file import PredictionFile


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def said(predictions: PredictionFile, sentences: list[str]) -> list[str | None]:
    return [answer.target for answer in predictions.answers(sentences)]


def test_a_tsv_file_answers_by_the_words_of_a_sentence(tmp_path: Path) -> None:
    path = written(
        tmp_path, "t5.tsv", "walk  twice\tWALK  WALK\njump\t\nwalk twice\tWALK WALK\n"
    )
    predictions = PredictionFile.read(path)
    assert said(predictions, [" walk twice ", "jump", "swim"]) == [
        "WALK WALK",
        None,
        None,
    ]


def test_a_jsonl_file_may_be_what_nqg_parse_printed(tmp_path: Path) -> None:
    lines = [
        '{"source": "walk", "prediction": "WALK"}',
        '{"source": "run", "target": "RUN", "probability": 1.0}',
        '{"source": "swim", "target": null, "reason": "no derivation"}',
    ]
    path = written(tmp_path, "t5.jsonl", "\n".join(lines))
    assert said(PredictionFile.read(path), ["run", "walk", "swim"]) == [
        "RUN",
        "WALK",
        None,
    ]


def test_a_file_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "t5.tsv.gz"
    path.write_bytes(gzip.compress(b"walk\tWALK\n"))
    assert said(PredictionFile.read(str(path)), ["walk"]) == ["WALK"]


def test_a_sentence_that_is_not_in_the_file_can_be_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "t5.tsv", "walk\tWALK\n")
    predictions = PredictionFile.read(path, refuses_unknown=True)
    assert said(predictions, ["walk"]) == ["WALK"]
    with pytest.raises(
        NqgError,
        match=r"t5.tsv: no prediction for 'swim'; the file must hold one for every sentence",
    ):
        said(predictions, ["walk", "swim"])


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "p.tsv",
            "walk\tWALK\nwalk\n",
            r"p.tsv:2: expected 'source<TAB>prediction', found 1 column$",
        ),
        (
            "p.tsv",
            "a\tb\tc\n",
            r"p.tsv:1: expected 'source<TAB>prediction', found 3 columns",
        ),
        ("p.tsv", "walk\tWALK\n\n", r"p.tsv:2: .* found an empty line"),
        ("p.tsv", " \tWALK\n", r"p.tsv:1: the source is empty"),
        (
            "p.tsv",
            "walk\tWALK\nwalk\tRUN\n",
            r"p.tsv:2: another prediction for 'walk' than on an earlier line",
        ),
        (
            "p.jsonl",
            "[1]\n",
            r"p.jsonl:1: expected an object as the prediction, found \[1\]",
        ),
        (
            "p.jsonl",
            '{"source": "walk"}\n',
            r"p.jsonl:1: the key 'prediction' is missing; expected source and",
        ),
        (
            "p.jsonl",
            '{"prediction": "WALK"}\n',
            r"p.jsonl:1: the key 'source' is missing",
        ),
        (
            "p.jsonl",
            '{"source": null, "prediction": "W"}\n',
            r"p.jsonl:1: expected a string as 'source'",
        ),
        (
            "p.jsonl",
            '{"source": "walk", "prediction": 3}\n',
            r"p.jsonl:1: expected a string as 'prediction'",
        ),
        ("p.jsonl", "walk\n", r"p.jsonl:1: not valid JSON"),
        (
            "p.csv",
            "walk,WALK\n",
            r"p.csv: expected the extension .tsv or .jsonl .*, found '.csv'",
        ),
    ],
)
def test_bad_files_are_refused_with_line_and_reason(
    name: str, text: str, complaint: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(NqgError, match=complaint):
        PredictionFile.read(path)


def test_a_missing_file_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"nowhere.tsv: no such file"):
        PredictionFile.read(tmp_path / "nowhere.tsv")
