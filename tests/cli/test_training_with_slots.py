"""Values in raw text, from `nqg train` to an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg.answers import Answer
from nqg.cli.main import app
from nqg.data.example_files import read_examples
from nqg.errors import FormatError, SettingsError
from nqg.evaluation.calibration import knowledge, known_contexts, right_derivations
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.confidence import PRIORS, Calibrator, RulePairs, Weights
from nqg.preprocessing.preprocessor import TextSettings
from typed_commands import changed

ROOMS = ("kitchen", "bedroom", "office")
PAIRS = [
    *(
        f"Dim the {room} lights to {level} percent.\tdim(room='{room}', level={level})"
        for room in ROOMS
        for level in (10, 40)
    ),
    *(
        f"Set the {room} to {level} degrees\theat(room='{room}', level={level})"
        for room in ROOMS
        for level in (18, 21)
    ),
]
GREETINGS = [
    f"Fly to {city}\tfly(to='{city}')"
    for city in ("Rome", "Oslo", "New York", "Lima", "Quito")
]
QUICK = (
    "--steps",
    "40",
    "--set",
    "confidence.folds=0",
    "--set",
    "training.batch_size=16",
)


def trained(folder: Path, lines: list[str], settings: str = "") -> Parser:
    (folder / "train.tsv").write_text("".join(f"{line}\n" for line in lines))
    (folder / "nqg.toml").write_text(settings)
    words = ["train", str(folder / "train.tsv"), "-o", str(folder / "model"), *QUICK]
    result = CliRunner().invoke(app, [*words, "--settings", str(folder / "nqg.toml")])
    assert result.exit_code == 0, result.output
    return Parser.load(folder / "model", device="cpu")


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Parser:
    return trained(tmp_path_factory.mktemp("slots"), PAIRS)


def test_numbers_that_training_never_had_are_read(parser: Parser) -> None:
    assert (
        parser.parse("dim the office lights to 35 percent").target
        == "dim(room='office', level=35)"
    )
    assert (
        parser.parse("Set the kitchen to twenty two degrees").target
        == "heat(room='kitchen', level=22)"
    )


def test_the_model_keeps_some_training_sentences_as_they_were_typed_short_ones_first(
    parser: Parser,
) -> None:
    kept = parser.model.provenance.sentences
    assert len(kept) == len(PAIRS)
    assert kept[0] == "Set the bedroom to 18 degrees"
    assert [len(each.split()) for each in kept] == [6] * 6 + [7] * 6


def test_without_types_legal_programs_are_answers_too(parser: Parser) -> None:
    untyped = parser.with_options(DecodeOptions(typed=False))
    answer = next(untyped.answers(["dim the office lights to 35 percent"]))
    assert answer.target in ("dim(room='office', level=35)", None)
    assert parser.model.legal_programs is not None
    assert parser.model.legal_programs.accepts(
        parser.model.text.programs.tokenize("dim(room='office', level=35)")
    )


def test_what_is_not_a_number_is_said_not_to_be_one(parser: Parser) -> None:
    answer = parser.parse("dim the office lights to kitchen percent")
    assert answer.target is None


def test_a_derivation_names_the_words_of_the_value(parser: Parser) -> None:
    answer = parser.parse("dim the office lights to thirty five percent")
    assert answer.reading is not None
    assert "thirty five ### level = 35" in [
        str(each.rule) for each in answer.reading.derivation.hyperedges
    ]


def test_words_that_programs_quote_are_free_text(tmp_path: Path) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])
    assert parser.parse("fly to San Francisco").target == "fly(to='San Francisco')"


@pytest.mark.parametrize("name", ["O'Hare", "Rome'", "Rome\\", "'"])
def test_a_value_that_would_end_its_quotes_is_no_answer(
    tmp_path: Path, name: str
) -> None:
    answer = trained(tmp_path, [*PAIRS, *GREETINGS]).parse(f"fly to {name}")
    assert answer.target is None
    assert answer.reason.startswith(
        "no valid program: a value has marks that would end it too soon: "
    )


def test_how_one_sentence_is_typed_is_nothing_to_another(tmp_path: Path) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])
    sentences = ["fly to San Jose", "Fly to SAN JOSE", "fly to san jose"]
    alone = [next(parser.answers([sentence])) for sentence in sentences]
    together = list(parser.answers(sentences))
    assert [each.target for each in together] == [
        f"fly(to='{name}')" for name in ("San Jose", "SAN JOSE", "san jose")
    ]
    assert [each.probability for each in together] == pytest.approx(
        [each.probability for each in alone], rel=1e-6
    )


def test_a_gazetteer_gives_names_their_values(tmp_path: Path) -> None:
    (tmp_path / "cities.tsv").write_text(
        "Rome\tIT-RM\nNYC\tUS-NYC\nBig Apple\tUS-NYC\nOslo\tNO-03\n"
    )
    lines = [
        "Fly to Rome\tfly(IT-RM)",
        "Fly to NYC\tfly(US-NYC)",
        "Drive to Rome\tdrive(IT-RM)",
    ]
    parser = trained(tmp_path, lines, '[slots]\ncity = {gazetteer = "cities.tsv"}\n')
    (tmp_path / "cities.tsv").unlink()
    assert parser.parse("drive to the Big Apple").target is None
    assert parser.parse("drive to Big Apple").target == "drive(US-NYC)"
    assert parser.parse("drive to Paris").target is None


def test_slots_can_be_left_to_the_settings(tmp_path: Path) -> None:
    parser = trained(tmp_path, PAIRS, '[text]\nslots = "given"\n')
    assert parser.parse("dim the office lights to 35 percent").target is None


def test_an_answer_is_given_only_where_it_is_probably_right(
    tmp_path: Path,
) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])

    def answer(bias: float, least: float | None = None, learned: float = 0.5) -> Answer:
        # Nothing but the bias counts.
        weights = Weights(bias, *[0.0] * 9)
        calibrator = Calibrator(weights, RulePairs(()), threshold=learned)
        sure = Parser(
            replace(parser.model, calibrator=calibrator),
            DecodeOptions(least_confidence=least),
        )
        return next(iter(sure.answers(["fly to San Francisco"])))

    assert answer(1.0).target == "fly(to='San Francisco')"
    assert answer(-1.0).target is None
    assert answer(-1.0).reason == "not sure enough: 27 %"
    assert answer(-1.0, least=0.2).confidence == pytest.approx(0.2689, abs=1e-3)
    assert answer(-1.0, learned=0.2).confidence == pytest.approx(0.2689, abs=1e-3)
    assert answer(1.0, learned=0.8).reason == "not sure enough: 73 %"


def test_where_there_is_free_text_new_pairs_of_rules_are_not_held_against_a_reading(
    tmp_path: Path,
) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])
    one = parser.parse("fly to Rome").reading
    assert one is not None
    calibrator = Calibrator(
        PRIORS[False], RulePairs.of([one.derivation], parser.grammar.numbers)
    )
    knowing = Parser(
        replace(parser.model, calibrator=calibrator, call_reader=None),
        DecodeOptions(least_confidence=0.0),
    )
    alone = Parser(replace(parser.model, calibrator=None))
    for sentence in ("fly to San Francisco", "fly to San Diego 35"):
        assert knowing.parse(sentence).target == alone.parse(sentence).target


def test_text_with_what_training_has_as_a_value_behind_the_same_word_is_doubted(
    tmp_path: Path,
) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])
    derivations = list(right_derivations(parser, read_examples(tmp_path / "train.tsv")))
    assert len(derivations) == len(PAIRS) + len(GREETINGS)
    contexts = known_contexts(parser.grammar, derivations)
    assert contexts.rows == (("to", "number", len(PAIRS)),)
    # What the call reader reads instead is as doubtful.
    weights = Weights(3.0, 0.0, 0.0, 0.0, -4.0, 0.0, 0.0, 0.0, 0.0, -4.0)
    calibrator = Calibrator(weights, RulePairs(()), threshold=0.5, contexts=contexts)
    sure = Parser(replace(parser.model, calibrator=calibrator))
    assert sure.parse("fly to San Diego 35").target == "fly(to='San Diego 35')"
    assert sure.parse("fly to San Diego to 35").reason == "not sure enough: 27 %"


def test_free_text_that_is_unlike_that_of_training_is_doubted(tmp_path: Path) -> None:
    parser = trained(tmp_path, [*PAIRS, *GREETINGS])
    known = knowledge(parser, read_examples(tmp_path / "train.tsv"), has_seq2seq=False)
    assert known.texts.places == (("to", "to"),)
    assert known.texts.longest == (("to", 2),)
    assert "dim" in known.texts.never_in_text
    # The signs are those of the grammar's readings.
    informed = Parser(replace(parser.model, calibrator=known, call_reader=None))
    signs = {}
    for city in ("San Diego", "Oslo, no", "San Diego now", "Oslo lights"):
        (answer,) = informed.answers([f"fly to {city}"])
        assert answer.reading is not None
        assert answer.reading.evidence is not None
        signs[city] = answer.reading.evidence.text_signs
    assert signs == {
        "San Diego": 0,
        "Oslo, no": 1,
        "San Diego now": 1,
        "Oslo lights": 1,
    }


def test_a_rule_by_hand_may_have_a_value_that_training_never_had(
    parser: Parser, tmp_path: Path
) -> None:
    taught = parser.with_rules(["movie time ### dim(room='office', level=33)"])
    assert taught.parse("movie time").target == "dim(room='office', level=33)"
    with pytest.raises(FormatError, match=r"'office' is not a|no legal program has"):
        parser.with_rules(["movie time ### dim(room='office', level=office)"])
    with pytest.raises(FormatError, match="no legal program has 'lock'"):
        parser.with_rules(["lock NT_1 ### lock(NT_1)"])
    home = trained(tmp_path, [*PAIRS, *GREETINGS]).with_rules(
        ["go home ### fly(to='Santa Fe')"]
    )
    assert home.parse("go home").target == "fly(to='Santa Fe')"
    home.save(tmp_path / "model")
    again = [
        "train",
        str(tmp_path / "train.tsv"),
        "-o",
        str(tmp_path / "model"),
        *QUICK,
    ]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (
        Parser.load(tmp_path / "model", device="cpu").parse("go home").target
        == "fly(to='Santa Fe')"
    )


def test_relative_dates_refer_to_the_day_of_training_of_evaluation_or_of_parsing(
    tmp_path: Path,
) -> None:
    days = {
        "today": "16",
        "tomorrow": "17",
        "on friday": "20",
        "on sunday": "22",
        "in three days": "19",
    }
    lines = [f"wake me {said}\twake(2026-11-{day})" for said, day in days.items()]
    lines += [f"call Bob {said}\tcall(2026-11-{day})" for said, day in days.items()]
    trained(tmp_path, lines, '[text]\ntoday = "2026-11-16"\n')
    model, test = str(tmp_path / "model"), tmp_path / "test.tsv"
    test.write_text("wake me on saturday\twake(2026-11-21)\n")

    def printed(*words: str) -> str:
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == 0, result.output
        return result.output

    assert "wake(2027-01-02)" in printed(
        "parse", model, "wake me tomorrow", "--today", "2027-01-01"
    )
    assert f"wake({date.today()})" in printed("parse", model, "wake me today")
    assert '"accuracy": 1.0' in printed("evaluate", model, str(test))
    assert '"accuracy": 0.0' in printed(
        "evaluate", model, str(test), "--today", "2027-01-01"
    )


@pytest.mark.parametrize("today", ["soon", "2026-02-30"])
def test_a_day_that_is_none_is_refused(tmp_path: Path, today: str) -> None:
    with pytest.raises(
        SettingsError, match=f"today is '{today}'; expected a day such as 2026-11-16"
    ):
        TextSettings(today=today)


def test_rules_are_induced_as_in_training(tmp_path: Path) -> None:
    trained(tmp_path, [*PAIRS, *GREETINGS])
    rules = tmp_path / "rules.txt"
    result = CliRunner().invoke(
        app, ["induce", str(tmp_path / "train.tsv"), "-o", str(rules)]
    )
    assert result.exit_code == 0, result.output
    model = (tmp_path / "model" / "grammar.txt").read_text()
    assert [
        line for line in rules.read_text().splitlines() if line[0] != "#"
    ] == model.splitlines()
    assert "@number ### level = @number" in model


def test_a_fallback_may_write_any_value_where_a_slot_is(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(
        "".join(f"{line}\n" for line in [*PAIRS, *GREETINGS])
    )
    words = [
        "train",
        str(tmp_path / "train.tsv"),
        "-o",
        str(tmp_path / "model"),
        *QUICK,
        "--seq2seq",
        "embedded",
    ]
    tiny = changed(
        "fine_tuning.steps=2", "seq2seq.longest_target=24", "seq2seq.embedded.width=16"
    )
    result = CliRunner().invoke(app, [*words, *tiny])
    assert result.exit_code == 0, result.output
    hybrid, model = (
        Hybrid.load(tmp_path / "model", device="cpu"),
        Parser.load(tmp_path / "model").model,
    )
    legal = model.legal_programs
    assert legal is not None
    for program, is_legal in (
        ("dim(room='office', level=99)", True),
        ("fly(to='New Paris')", True),
        ("fly(99)", False),
    ):
        assert legal.accepts(model.text.programs.tokenize(program)) == is_legal
    (answer,) = hybrid.answers(["Turn it up to San Diego"])
    assert [part.system for part in answer.parts] == [
        "grammar",
        "fallback",
    ]  # two steps teach it no program that ends
