"""From raw pairs to a served parser: sentences as people type them in, programs in their own spelling out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from nqg import Example, Grammar, Parser, Preprocessor, fit_text, induce, tokenized
from nqg.answers import Answer
from nqg.errors import NqgError
from nqg.inference.hybrid import Hybrid, TokenSystem
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import TextSettings
from typed_commands import one_thread, typed
from web_service import served

DEVICES = {
    "Lampe": "lamp",
    "Heizung": "heater",
    "Musik": "music",
    "Kaffeemaschine": "coffee machine",
}
GERMAN = [
    *(
        Example(f"Schalte die {word} ein.", f'turn_on(device="{name}")')
        for word, name in DEVICES.items()
    ),
    *(
        Example(f"Bitte schalte die {word} aus", f'turn_off(device="{name}")')
        for word, name in DEVICES.items()
    ),
    *(
        Example(f"Ist die {word} an?", f'is_on(device="{name}")')
        for word, name in list(DEVICES.items())[:3]
    ),
]
BRIEF = (
    "--steps",
    "8",
    "--set",
    "training.batch_size=8",
    "--set",
    "confidence.folds=0",
    "--device",
    "cpu",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with examples and a model."""
    made = tmp_path_factory.mktemp("raw")
    (made / "train.tsv").write_text(
        "".join(f"{each.source}\t{each.target}\n" for each in GERMAN)
    )
    with one_thread():
        typed("train", str(made / "train.tsv"), "-o", str(made / "model"), *BRIEF)
    return made


@pytest.mark.parametrize(
    ("sentence", "program"),
    [
        ("Schalte die Lampe ein.", 'turn_on(device="lamp")'),
        ("schalte die lampe EIN", 'turn_on(device="lamp")'),
        ("Könntest du bitte  die Lampe … nein", None),
        (
            "Hallo, schalte bitte die Kaffeemaschine aus!",
            'turn_off(device="coffee machine")',
        ),
        ("\u200fIst die Musik an ???", 'is_on(device="music")'),
    ],
)
def test_sentences_are_understood_as_they_are_typed(
    folder: Path, sentence: str, program: str | None
) -> None:
    answer = Parser.load(folder / "model", "cpu").parse(sentence, readings=2)
    assert (answer.source, answer.target) == (sentence, program)
    if program:
        assert answer.readings[0].target == program
        assert (
            answer.source_tokens == answer.reading.derivation.source
            if answer.reading
            else False
        )


def test_the_command_line_prints_what_was_typed_and_raw_programs(folder: Path) -> None:
    (folder / "asked.txt").write_text("Ist die  Heizung an?\nÖffne das Fenster\n")
    shown = typed(
        "parse", str(folder / "model"), str(folder / "asked.txt")
    ).stdout.splitlines()
    assert shown[0].split("\t")[:2] == ["Ist die Heizung an?", 'is_on(device="heater")']
    assert (
        shown[1]
        == "Öffne das Fenster\t\tabstained: no derivation: no rule knows 'öffne', 'das' and 'fenster'"
    )
    line = json.loads(
        typed("parse", str(folder / "model"), "ist die Musik an", "--json").stdout
    )
    assert (line["source"], line["target"]) == (
        "ist die Musik an",
        'is_on(device="music")',
    )
    why = typed("parse", str(folder / "model"), "Öffne das Fenster").stdout.strip()
    assert why == "abstained: no derivation: no rule knows 'öffne', 'das' and 'fenster'"


def test_raw_examples_are_evaluated_and_their_errors_explained(folder: Path) -> None:
    examples = [
        *GERMAN,
        Example("Ist die Lampe an?", "wrong()"),
        Example("Öffne das Tor", "open(gate)"),
    ]
    (folder / "test.tsv").write_text(
        "".join(f"{each.source}\t{each.target}\n" for each in examples)
    )
    found = json.loads(
        typed(
            "evaluate",
            str(folder / "model"),
            str(folder / "test.tsv"),
            "--breakdown",
            "--json",
        ).stdout
    )
    assert {line["cause"]: line["errors"] for line in found["causes"]} == {
        "gold_not_derivable": 1,
        "unknown_word": 1,
    }
    assert found["lacks"] == {"das": 1, "tor": 1, "öffne": 1}


def test_induction_types_and_inspection_see_the_same_tokens(folder: Path) -> None:
    typed("induce", str(folder / "train.tsv"), "-o", str(folder / "rules.txt"))
    rules = (folder / "rules.txt").read_text()
    assert "\nlampe ### lamp\n" in rules
    for grammar in ("rules.txt", "model"):
        shown = typed(
            "show-grammar", str(folder / grammar), "--data", str(folder / "train.tsv")
        ).stdout
        assert "100.0 % (11)  examples whose target is among the derivations" in shown
    shown = typed("types", str(folder / "train.tsv")).stdout
    assert "<device_word> ::= lamp | heater | music | coffee machine" in shown


def test_the_page_and_the_api_take_raw_sentences(folder: Path) -> None:
    with served(Parser.load(folder / "model", "cpu")) as client:
        answer = client.post(
            "/api/parse", json={"sentence": "Ist die Lampe an?", "explain": True}
        ).json()
        (row,) = client.post(
            "/api/batch", json={"text": "Ist die Lampe an?\tis_on( device = 'lamp' )"}
        ).json()["rows"]
    assert answer["source"] == ["ist", "die", "lampe", "an"]
    assert answer["target"] == answer["best"]["target"] == 'is_on(device="lamp")'
    assert (row["sentence"], row["target"]) == (
        "Ist die Lampe an?",
        'is_on(device="lamp")',
    )


class Echo:
    """A second reader that says what it was asked."""

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [
            Answer(sentence, f'said ( " {sentence} " )', system="echo")
            for sentence in sentences
        ]


def test_a_second_reader_is_asked_in_raw_sentences_and_answers_in_raw_programs(
    folder: Path,
) -> None:
    parser = Parser.load(folder / "model", "cpu")
    answer = Hybrid(parser, TokenSystem(Echo(), parser.model.text)).parse(
        "Öffne bitte das Tor!"
    )
    assert (answer.source, answer.target) == (
        "Öffne bitte das Tor!",
        'said("Öffne bitte das Tor!")',
    )


def test_tokenised_data_gives_the_same_grammar_and_weights_as_ever(
    tmp_path: Path,
) -> None:
    examples = [
        Example("jump", "J"),
        Example("jump twice please", "J ( J )"),
        Example("walk twice", "W ( W )"),
    ]
    tiny = ModelSettings(
        dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=1)
    )
    training = TrainingSettings(steps=3, batch_size=2)
    grammar = Grammar.parse(
        "jump ### J\nwalk ### W\nNT_1 twice ### NT_1 ( NT_1 )\nNT_1 please ### NT_1"
    )
    text = fit_text(examples)
    assert tokenized(examples, text) == examples
    with one_thread():
        plain = fit_parser(
            grammar, examples, model=tiny, training=training, device="cpu"
        )
        fitted = fit_parser(
            grammar, examples, model=tiny, training=training, device="cpu", text=text
        )
    assert all(
        (own == other).all()
        for own, other in zip(
            *(each.model.scorer.weights().values() for each in (plain, fitted)),
            strict=True,
        )
    )
    assert plain.parse("please Jump twice!").target is None
    assert fitted.parse("please Jump twice!").target == "J ( J )"
    plain.save(tmp_path / "plain")
    assert not (tmp_path / "plain" / "text.json").exists()


def test_from_python_a_parser_can_be_trained_on_raw_examples() -> None:
    text = fit_text(GERMAN)
    grammar = induce(tokenized(GERMAN, text))
    tiny = ModelSettings(
        dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=1)
    )
    training = TrainingSettings(steps=3, batch_size=2)
    with one_thread():
        parser = fit_parser(
            grammar, GERMAN, model=tiny, training=training, device="cpu", text=text
        )
    assert parser.parse("IST DIE LAMPE AN?").target == 'is_on(device="lamp")'
    raw = Parser(replace(parser.model, text=Preprocessor()))
    assert raw.parse("ist die lampe an").target == 'is_on ( device = " lamp " )'


def test_answers_write_arguments_in_the_order_of_training() -> None:
    pairs = [
        Example("attic on lamp", 'on(area="attic", kind="lamp")'),
        Example("hall on fan", 'on(area="hall", kind="fan")'),
    ]
    rules = ["NT_1 on NT_2 ### on ( NT_1 , NT_2 )"]
    rules += [f'{area} ### area = " {area} "' for area in ("attic", "hall")]
    rules += [f'{kind} ### kind = " {kind} "' for kind in ("lamp", "fan")]
    tiny = ModelSettings(
        dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=1)
    )
    training = TrainingSettings(steps=3, batch_size=2)
    text = fit_text(pairs, TextSettings(slots="given"))
    with one_thread():
        parser = fit_parser(
            Grammar.parse("\n".join(rules)),
            pairs,
            model=tiny,
            training=training,
            device="cpu",
            text=text,
        )
    answer = parser.parse("lamp on attic")
    assert answer.target == 'on(area="attic", kind="lamp")'
    assert answer.reading
    assert answer.reading.derivation.target[2] == "kind"


def test_settings_and_options_choose_how_text_is_cut(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("On US lamp\ton(us)\nOn us lamp\ton(usb)\n")
    (tmp_path / "nqg.toml").write_text(
        '[text]\ncasing = "lower"\npunctuation = "keep"\n'
    )
    words = (
        "train",
        str(tmp_path / "train.tsv"),
        "--settings",
        str(tmp_path / "nqg.toml"),
        *BRIEF,
    )
    with one_thread():
        typed(
            *words,
            "-o",
            str(tmp_path / "model"),
            "--set",
            "text.casing=keep",
            "--set",
            "text.programs=spaces",
        )
    text = Preprocessor.read(tmp_path / "model" / "text.json")
    assert (
        text.sentences.casing,
        text.sentences.punctuation,
        text.programs.scheme,
    ) == (
        "keep",
        "keep",
        "spaces",
    )


def test_examples_that_share_nothing_are_warned_about(tmp_path: Path) -> None:
    pairs = [
        f"{word} {word}{word}\t{word}({number})"
        for number, word in enumerate("abcdefghijkl")
    ]
    (tmp_path / "train.tsv").write_text("\n".join(pairs) + "\n")
    with one_thread():
        shown = typed(
            "train", str(tmp_path / "train.tsv"), "-o", str(tmp_path / "model"), *BRIEF
        ).stderr
    assert "rules induced from 12 examples" in shown
    assert "warning: these examples share so little" in shown
    assert "slots" in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("--set", "text.casing=upper"),
            "expected one of auto, lower, keep as 'text.casing', found 'upper'",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, words: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(NqgError) as error:
        typed(
            "train",
            str(folder / "train.tsv"),
            "-o",
            str(folder / "other"),
            *words,
            *BRIEF,
        )
    assert reason in str(error.value)
