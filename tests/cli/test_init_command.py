import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg.answers import exact_match
from nqg.cli.main import app, load_command
from nqg.cli.project_commands import STARTER_FILES, commands
from nqg.data.example_files import read_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Rule
from nqg.induction.induce import induce
from nqg.inference.parser import Parser
from nqg.model.forests import build_forests
from nqg.pipeline.settings import TrainSettings
from nqg.preprocessing.training_text import fit_text, tokenized
from typed_commands import one_thread

runner = CliRunner()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    result = runner.invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"nqg train {folder}/train.tsv" in result.output.replace("\n", "")
    return folder


def test_a_project_has_examples_settings_and_a_page_that_explains(
    project: Path,
) -> None:
    assert sorted(path.name for path in project.iterdir()) == sorted(STARTER_FILES)
    assert TrainSettings.read(project / "nqg.toml").training.steps == 60
    readme = (project / "README.md").read_text()
    assert all(
        command.replace(f"{project}/", "") in readme for command in commands(project)
    )


def test_machines_can_read_what_was_written_and_what_to_type(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    facts = json.loads(runner.invoke(app, ["init", str(folder), "--json"]).stdout)
    assert facts == {
        "folder": str(folder),
        "files": list(STARTER_FILES),
        "commands": commands(folder),
    }


def test_the_commands_that_are_printed_are_ones_that_the_command_line_takes(
    project: Path,
) -> None:
    for command in commands(project):
        words = shlex.split(command)
        load_command(words[1]).make_context(words[1], words[2:])


def test_test_sentences_are_new_but_their_words_are_known(project: Path) -> None:
    train, test = (read_examples(project / f"{part}.tsv") for part in ("train", "test"))
    assert (len(train), len(test)) == (150, 60)
    assert not {example.source for example in train} & {
        example.source for example in test
    }
    text = fit_text(train)
    known = {
        word for example in tokenized(train, text) for word in example.source_tokens
    }
    assert all(set(example.source_tokens) <= known for example in tokenized(test, text))


def test_no_pair_occurs_twice_and_no_sentence_has_two_programs(project: Path) -> None:
    pairs = [
        example
        for part in ("train", "test")
        for example in read_examples(project / f"{part}.tsv")
    ]
    assert len({example.source for example in pairs}) == len(pairs)


def test_the_grammar_of_the_starter_project_derives_most_new_sentences(
    project: Path,
) -> None:
    raw = [read_examples(project / f"{part}.tsv") for part in ("train", "test")]
    train, test = (tokenized(examples, fit_text(raw[0])) for examples in raw)
    grammar = induce(train, TrainSettings.read(project / "nqg.toml").induction)
    assert len(grammar) < len(train) / 2
    assert (
        1 <= len(build_forests(grammar, test).underivable()) <= 3
    )  # some are left for the tutorial to add
    assert Rule.parse("the NT_1 in the NT_2 ### NT_2 . NT_1") in grammar.rules


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = runner.invoke(app, ["init", str(tmp_path)])
    assert isinstance(result.exception, NqgError)
    assert "already exists and is not empty" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = runner.invoke(app, ["init", str(tmp_path / "file" / "mine")])
    assert isinstance(result.exception, NqgError)
    assert "cannot be created" in str(result.exception)


def test_the_starter_parser_is_sure_of_its_test_sentences_and_not_of_nonsense(
    project: Path,
) -> None:
    words = [
        "train",
        f"{project}/train.tsv",
        "--settings",
        f"{project}/nqg.toml",
        "-o",
        f"{project}/model",
    ]
    with one_thread():
        assert runner.invoke(app, [*words, "--device", "cpu"]).exit_code == 0
    parser = Parser.load(project / "model", "cpu")
    nonsense = (
        (Path(__file__).parents[1] / "data" / "starter_nonsense.txt")
        .read_text()
        .splitlines()
    )
    assert len(nonsense) == 20
    assert (
        sum((answer.confidence or 0) > 0.5 for answer in parser.answers(nonsense)) <= 3
    )
    test = read_examples(project / "test.tsv")
    answers = list(parser.answers(example.source for example in test))
    right = [
        exact_match(answer.target, example.target)
        for answer, example in zip(answers, test, strict=True)
    ]
    assert sum(right) == 59
    assert sum((answer.confidence or 0) > 0.8 for answer in answers) >= 55
