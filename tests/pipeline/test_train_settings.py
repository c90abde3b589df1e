from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.induction.settings import InductionSettings
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.settings import TrainSettings
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings


def written(folder: Path, text: str) -> Path:
    path = folder / "nqg.toml"
    path.write_text(text)
    return path


def test_an_empty_file_has_the_defaults_of_every_stage(tmp_path: Path) -> None:
    assert TrainSettings.read(written(tmp_path, "")) == TrainSettings()


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    text = "[induction]\nterminal_bits = 32\n[model.embedded]\nlayers = 1\n[training]\nsteps = 5\nlearning_rate = 1\n"
    found = TrainSettings.read(written(tmp_path, text))
    assert found.induction == InductionSettings(terminal_bits=32.0)
    assert found.model == ModelSettings(embedded=EncoderSettings(layers=1))
    assert found.training == TrainingSettings(steps=5, learning_rate=1.0)


def test_a_table_for_a_fallback_asks_for_one_even_if_it_is_empty(
    tmp_path: Path,
) -> None:
    assert (
        TrainSettings.read(written(tmp_path, "[fine_tuning]\nsteps = 3\n")).seq2seq
        is None
    )
    found = TrainSettings.read(
        written(tmp_path, "[seq2seq]\n[fine_tuning]\nsteps = 3\noptimizer = 'adamw'\n")
    )
    assert found.seq2seq == Seq2seqSettings()
    assert found.fine_tuning == FineTuningSettings(steps=3, optimizer="adamw")


def test_tables_of_a_fallback_are_listed_only_where_there_is_one() -> None:
    assert [name for name, _ in TrainSettings().tables()] == [
        "text",
        "types",
        "model",
        "training",
        "confidence",
        "run",
    ]
    both = dict(TrainSettings(seq2seq=Seq2seqSettings(beams=2)).tables())
    assert list(both) == [
        "text",
        "types",
        "model",
        "training",
        "seq2seq",
        "fine_tuning",
        "confidence",
        "run",
    ]
    assert both["seq2seq"] == Seq2seqSettings(beams=2)
    assert "induction" in dict(TrainSettings(induction=InductionSettings()).tables())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[training", r"nqg\.toml: not valid TOML"),
        (
            "[trainings]\n",
            "no key of the settings 'trainings'; did you mean 'training'",
        ),
        (
            "[training]\nstep = 5\n",
            r"no key of \[training\] 'step'; did you mean 'steps'",
        ),
        (
            "[training]\nsteps = 5.5\n",
            r"expected an integer as 'steps' of \[training\], found 5.5",
        ),
        (
            "[training]\nsteps = true\n",
            "expected an integer as 'steps' of .*, found True",
        ),
        (
            '[training]\nlearning_rate = "high"\n',
            "expected a number as 'learning_rate' of .*, found 'high'",
        ),
        ("[training]\nsteps = 0\n", r"\[training\]: steps is 0; expected 1 or more"),
        (
            "[model]\nembedded = 3\n",
            r"expected a table as 'embedded' of \[model\], found 3",
        ),
        ("[seq2seq]\nbeams = 0\n", r"\[seq2seq\]: beams is 0; expected 1 or more"),
        (
            "[fine_tuning]\noptimizer = 'adam'\n",
            r"expected one of adafactor, adamw as 'optimizer' of \[fine_tuning\]",
        ),
        ("training = 3\n", "expected a table as 'training' of the settings, found 3"),
        (
            "[induction]\nshortest = [1]\n",
            r"expected an integer as 'shortest' of \[induction\], found \[1\]",
        ),
    ],
)
def test_a_bad_file_is_refused_with_file_table_and_key(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(FormatError, match=complaint):
        TrainSettings.read(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"none\.toml: cannot be read \(No such file"):
        TrainSettings.read(tmp_path / "none.toml")
