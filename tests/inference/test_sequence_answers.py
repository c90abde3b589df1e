"""Several commands in one sentence: when a sentence is divided, what its answer holds, and who reads
the commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import UNSURE, Answer, Correction
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.inference.sequences import possible_commands, sequence_answers
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.preprocessing.training_text import tokenized
from nqg.text.sequences import SequenceFormat
from oracles import best_commands

FORM = SequenceFormat()
GRAMMAR = Grammar.parse(
    """
    turn off the NT_1 ### off ( NT_1 )
    close the NT_1 ### close ( NT_1 )
    lights ### lights
    blinds ### blinds
    """
)
PAIRS = [
    ("Turn off the lights.", "off(lights)"),
    ("close the blinds", "close(blinds)"),
    ("close the lights", "close(lights)"),
]


@dataclass
class Dictionary:
    """Answers from a table of programs and confidences, and remembers what it was asked."""

    known: Mapping[str, tuple[str, float | None]]
    asked: list[list[str]] = field(default_factory=list)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        self.asked.append(list(sentences))
        for sentence in self.asked[-1]:
            if sentence in self.known:
                target, confidence = self.known[sentence]
                yield Answer(sentence, target, confidence=confidence, system="table")
            else:
                yield Answer(sentence, system="table", reason="not in the table")


def answered(
    known: Mapping[str, tuple[str, float | None]],
    sentence: str,
    form: SequenceFormat = FORM,
) -> Answer:
    (answer,) = sequence_answers(Dictionary(known).answers, [sentence], form)
    return answer


def test_a_sentence_with_several_commands_has_the_sequence_of_their_programs() -> None:
    known = {"lamp on": ("on(lamp)", 0.9), "fan off": ("off(fan)", 0.8)}
    answer = answered(known, "lamp on and then fan off")
    assert answer.target == "on(lamp); off(fan)"
    assert answer.confidence == pytest.approx(0.72)
    assert answer.system == "table"
    assert [command.source for command in answer.commands] == ["lamp on", "fan off"]


def test_json_objects_become_an_array() -> None:
    known = {"lamp on": ('{"name": "on"}', 0.9), "fan off": ('{"name": "off"}', 0.8)}
    form = SequenceFormat("[", ", ", "]")
    answer = answered(known, "lamp on, fan off", form)
    assert answer.target == '[{"name": "on"}, {"name": "off"}]'


def test_the_whole_sentence_wins_if_it_is_no_less_sure() -> None:
    known = {
        "play rock and roll": ("play(rock and roll)", 0.5),
        "play rock": ("play(rock)", 1.0),
        "roll": ("roll()", 0.5),
    }
    assert answered(known, "play rock and roll").target == "play(rock and roll)"
    assert not answered(known, "play rock and roll").commands
    known["roll"] = ("roll()", 0.6)
    assert answered(known, "play rock and roll").target == "play(rock); roll()"


def test_a_command_may_hold_a_connective() -> None:
    known = {
        "play rock and roll": ("play(rock and roll)", 0.9),
        "play rock": ("play(rock)", 0.8),
        "roll": ("roll()", 0.1),
        "fan off": ("off(fan)", 0.9),
    }
    answer = answered(known, "play rock and roll and fan off")
    assert answer.target == "play(rock and roll); off(fan)"


def test_an_answer_without_any_figure_loses_against_one_that_has_one() -> None:
    known = {"a and b": ("whole()", None), "a": ("a()", 0.1), "b": ("b()", 0.1)}
    assert answered(known, "a and b").target == "a(); b()"
    known["b"] = ("b()", None)
    assert answered(known, "a and b").target == "whole()"
    del known["a and b"]
    answer = answered(known, "a and b")
    assert (answer.target, answer.confidence) == ("a(); b()", None)


def test_a_derivation_of_the_whole_is_kept_where_it_says_the_same() -> None:
    known = {"a and b": ("a();b()", 0.1), "a": ("a()", 1.0), "b": ("b()", 1.0)}
    answer = answered(known, "a and b")
    assert (answer.confidence, answer.commands) == (0.1, ())


def test_the_reason_names_the_command_that_has_no_answer() -> None:
    answer = answered({"lamp on": ("on(lamp)", 0.9)}, "lamp on and sing a song")
    assert answer.target is None
    assert answer.reason == "'sing a song' has no answer: not in the table"
    assert [command.target for command in answer.commands] == ["on(lamp)", None]


def test_the_reason_also_says_that_the_whole_was_too_uncertain() -> None:
    def answer_all(sentences: Sequence[str]) -> Iterator[Answer]:
        for sentence in sentences:
            if sentence == "play rock":
                yield Answer(sentence, "play(rock)", confidence=0.9)
            else:
                yield Answer(sentence, reason=f"{UNSURE}: 20 %")

    (answer,) = sequence_answers(answer_all, ["play rock and roll"], FORM)
    expected = "not sure enough: 20 %; 'roll' has no answer: not sure enough: 20 %"
    assert answer.reason == expected


def test_a_program_that_is_not_a_call_is_not_a_command() -> None:
    known = {"lamp on": ("on(lamp)", 0.9), "the fan": ("fan", 0.9)}
    answer = answered(known, "lamp on and the fan")
    assert answer.target is None
    assert answer.reason == "'the fan' is not a command: fan"


def test_a_sentence_of_which_nothing_is_read_abstains_as_a_whole() -> None:
    answer = answered({}, "sing and dance")
    assert (answer.reason, answer.commands) == ("not in the table", ())


def test_every_text_is_asked_once_and_all_together() -> None:
    table = Dictionary({})
    sentences = ["a and b", "b", "a and b and a"]
    list(sequence_answers(table.answers, sentences, FORM))
    (asked,) = table.asked
    assert asked[:3] == sentences
    assert sorted(asked[3:]) == ["a", "b and a"]


def test_only_answers_that_are_shown_are_completed() -> None:
    completed = []

    def complete(answer: Answer) -> Answer:
        completed.append(answer.source)
        return answer

    table = Dictionary({"a": ("a()", 0.9), "c": ("c()", 0.9)})
    (answer,) = sequence_answers(table.answers, ["a and b and c"], FORM, complete)
    assert answer.target is None
    # Six texts were read; of these, one division and the whole are shown.
    assert len(table.asked[0]) == 6
    shown = [command.source for command in answer.commands]
    assert sorted(completed) == sorted([*shown, "a and b and c"])


def test_sentences_without_a_connective_are_passed_on_as_they_are() -> None:
    table = Dictionary({"a": ("a()", 1.0)})
    assert [a.target for a in sequence_answers(table.answers, ["a"], FORM)] == ["a()"]
    list(sequence_answers(table.answers, ["a and a"], None))
    assert table.asked == [["a"], ["a and a"]]


def test_a_system_that_loses_an_answer_is_refused() -> None:
    with pytest.raises(NqgError, match="asked about 3 sentences and gave 0 answers"):
        list(sequence_answers(lambda sentences: [], ["a and b"], FORM))


# Products of these are exact.
figures = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@given(st.data(), st.integers(2, 5))
def test_the_best_division_is_that_of_brute_force(
    data: st.DataObject, count: int
) -> None:
    sentence = " and ".join("abcde"[:count])
    clauses = FORM.clauses(sentence)
    texts = [sentence, *dict.fromkeys(possible_commands(sentence, clauses))]
    confidences = {}
    for text in texts:
        if data.draw(st.booleans()):
            confidences[text] = data.draw(figures)
    known = {}
    for text, confidence in confidences.items():
        known[text] = (f"read({text})", confidence)
    answer = answered(known, sentence)
    expected = best_commands("abcde"[:count], " and ", confidences)
    if expected is None:
        assert answer.target is None
    else:
        assert answer.target == "; ".join(f"read({text})" for text in expected)


# The parser and the hybrid.


@pytest.fixture(scope="module")
def parser() -> Parser:
    text = Preprocessor.fit(PAIRS, TextSettings(sequence="allow", slots="given"))
    examples = [Example(*pair) for pair in PAIRS]
    assert len(tokenized(examples, text)) == len(PAIRS)
    tiny = ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    )
    return fit_parser(
        GRAMMAR,
        examples,
        model=tiny,
        training=TrainingSettings(steps=1, batch_size=1),
        text=text,
        device="cpu",
    )


def test_a_parser_reads_each_command_without_an_example_of_a_sequence(
    parser: Parser,
) -> None:
    answer = parser.parse(
        "Could you turn off the lights, then please close the blinds?"
    )
    assert answer.target == "off(lights); close(blinds)"
    assert answer.probability == 1.0
    assert all(command.reading for command in answer.commands)


def test_a_parser_says_which_command_it_lacks(parser: Parser) -> None:
    reason = parser.parse("turn off the lights and sing a song").reason
    expected = "'sing a song' has no answer: no derivation: no rule knows 'sing', 'a'"
    assert reason.startswith(expected)
    assert parser.parse("turn off the lights and blinds").reason == (
        "'blinds' is not a command: blinds"
    )


def test_the_explanation_says_how_the_sentence_was_divided(parser: Parser) -> None:
    lines = parser.parse("turn off the lights and close the blinds").explain()
    assert lines.splitlines()[:4] == [
        "2 commands: 'turn off the lights', 'close the blinds'",
        "off(lights); close(blinds)",
        "",
        "1. 'turn off the lights'",
    ]
    assert "lights → lights" in lines


def test_corrected_words_are_told_for_all_commands() -> None:
    first = Answer("tunr on", "on()", corrections=(Correction(0, "tunr", "turn"),))
    second = Answer("dmi it", "dim()", corrections=(Correction(0, "dmi", "dim"),))
    answer = Answer("tunr on, dmi it", "on(); dim()", commands=(first, second))
    assert [each.read for each in answer.all_corrections] == ["turn", "dim"]


def test_a_parser_without_a_format_reads_every_sentence_as_one_command(
    parser: Parser,
) -> None:
    text = replace(parser.model.text, sequence=None)
    single = replace(parser, model=replace(parser.model, text=text))
    assert single.parse("turn off the lights and close the blinds").target is None
    sentences = ["turn off the lights and close the blinds"]
    (answer,) = parser.single_answers(sentences)
    assert answer.target is None


def test_a_hybrid_asks_both_about_each_command(parser: Parser) -> None:
    table = Dictionary({"sing a song": ("sing(song)", None)})
    hybrid = Hybrid(parser, table)
    (answer,) = hybrid.answers(["turn off the lights and sing a song"])
    assert answer.target == "off(lights); sing(song)"
    assert answer.answered_by == "grammar and fallback"
    assert table.asked == [["turn off the lights and sing a song", "sing a song"]]
