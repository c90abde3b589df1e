from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg.cli.init import FILES
from nqg.cli.main import app
from nqg.data.example_files import read_examples
from nqg.errors import NqgError
from nqg.forests.build import build_forests
from nqg.induction.induce import induce
from nqg.inference.settings_file import read_settings

runner = CliRunner()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    result = runner.invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"nqg train {folder}/train.tsv" in result.output.replace("\n", "")
    return folder


def test_a_project_has_examples_settings_and_a_page_that_explains(project: Path) -> None:
    assert sorted(path.name for path in project.iterdir()) == sorted(FILES)
    assert read_settings(project / "nqg.toml").induction.factoring


def test_test_sentences_are_new_but_their_words_are_known(project: Path) -> None:
    train, test = (read_examples(project / f"{part}.tsv") for part in ("train", "test"))
    assert (len(train), len(test)) == (150, 60)
    assert not {example.source for example in train} & {example.source for example in test}
    known = {word for example in train for word in example.source_tokens}
    assert all(set(example.source_tokens) <= known for example in test)


def test_the_grammar_of_the_starter_project_derives_most_new_sentences(project: Path) -> None:
    train, test = (read_examples(project / f"{part}.tsv") for part in ("train", "test"))
    grammar = induce(train, read_settings(project / "nqg.toml").induction)
    assert len(grammar) < len(train) / 2
    assert len(build_forests(grammar, test).underivable()) <= 6


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = runner.invoke(app, ["init", str(tmp_path)])
    assert isinstance(result.exception, NqgError)
    assert "is there already and not empty" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = runner.invoke(app, ["init", str(tmp_path / "file" / "mine")])
    assert isinstance(result.exception, NqgError)
    assert "cannot be made" in str(result.exception)
