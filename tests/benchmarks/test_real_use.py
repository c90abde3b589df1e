"""`benchmarks/real_use.py`: its datasets, sets, measures and tables, without weights."""

import doctest
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import real_use
import real_use_hassil
from nqg import Answer, Example, NqgError
from nqg.inference.decoding import DecodeOptions
from real_use import Cost, Measures, Prediction, Predictions, tables
from real_use_datasets import (
    COMPOUND,
    DATASETS,
    OTHER_DOMAIN,
    SPLICE,
    TEST,
    Folder,
    Question,
    RealDataset,
    checked_names,
    compounds,
    is_right_compound,
    other_domains,
    splices,
)
from real_use_hassil import Call, Hassil, is_same_call, recognized_call
from real_use_systems import Asked, Resources, Trained, suits

LIGHTS = (
    Example("turn on the lamp", "on(lamp)"),
    Example("turn off the radio", "off(radio)"),
    Example("what time is it", "time()"),
    Example("is it raining outside?", "rain()"),
)


def dataset_of(name: str, pairs: tuple[Example, ...], domains: str) -> RealDataset:
    return RealDataset(name, pairs, pairs, frozenset(domains.split()), connective="and")


@pytest.mark.parametrize("name", ["", "_datasets", "_hassil", "_systems", "_prompted"])
def test_the_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(import_module(f"real_use{name}")).failed == 0


# Datasets


def test_a_folder_becomes_a_dataset_with_the_files_that_it_has(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "train.tsv").write_text("turn on the lamp\ton(lamp)\n")
    (home / "test.tsv").write_text("turn on the fan\ton(fan)\n")
    (home / "nqg.toml").write_text("")

    dataset = Folder("home", "home music", connective="and").load(
        "mine", tmp_path, tmp_path
    )

    assert dataset.train == (Example("turn on the lamp", "on(lamp)"),)
    assert [pair.target for pair in dataset.test] == ["on(fan)"]
    assert dataset.domains == {"home", "music"}
    assert dataset.settings == home / "nqg.toml"
    assert dataset.fixtures is None
    assert not suits("hassil", dataset)
    assert suits("grammar", dataset)


@pytest.mark.parametrize("name", ["robot", "shop", "home-en", "home-de", "starter"])
def test_the_examples_of_the_repository_are_datasets(name: str, tmp_path: Path) -> None:
    dataset = DATASETS[name].load(name, tmp_path, tmp_path)
    assert len(dataset.train) >= 80
    assert len(dataset.test) >= 30
    assert not {*dataset.train} & {*dataset.test}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(NqgError, match="no dataset 'ha'; did you mean 'ha-en'"):
        checked_names(["ha"], DATASETS, "dataset")


# Sets that are made


def test_sentences_of_other_domains_come_from_datasets_that_share_none() -> None:
    home = dataset_of("home", LIGHTS, "home weather")
    shop = dataset_of("shop", (Example("how much", "a"), Example("sell", "b")), "shop")
    weather = dataset_of("weather", (Example("will it snow", "c"),), "weather")
    asked = other_domains(home, [home, shop, weather], count=10)
    assert {question.source for question in asked} == {"how much", "sell"}
    assert {question.reference for question in asked} == {None}
    assert {question.kind for question in asked} == {OTHER_DOMAIN}


def test_splices_are_new_sentences_of_commands_that_share_no_word_of_programs() -> None:
    home = dataset_of("home", LIGHTS, "home")
    asked = [question.source for question in splices(home, count=12)]
    assert len(set(asked)) == len(asked) == 12
    assert "turn on the radio" in asked
    assert "what time raining outside?" in asked
    assert not {*asked} & {pair.source for pair in LIGHTS}


def test_there_are_no_splices_where_all_programs_call_one_function() -> None:
    pairs = (Example("play some jazz", "play(jazz)"), Example("play a song", "play()"))
    assert splices(dataset_of("music", pairs, "music")) == []


def test_the_same_seed_makes_the_same_sets_and_another_one_others() -> None:
    home = dataset_of("home", LIGHTS, "home")
    assert splices(home, 5) == splices(home, 5)
    assert splices(home, 5) != splices(home, 5, seed=1)


def test_compounds_join_two_commands_that_are_right_alone() -> None:
    home = dataset_of("home", LIGHTS, "home")
    asked = compounds(home, LIGHTS[2:])
    assert {(question.source, question.reference) for question in asked} == {
        ("what time is it and is it raining outside?", "time()\nrain()"),
        ("is it raining outside and what time is it", "rain()\ntime()"),
    }
    without = RealDataset("german", LIGHTS, LIGHTS, frozenset())
    assert compounds(without, LIGHTS) == []


@pytest.mark.parametrize(
    "target",
    [
        'on(name="a; (b")\noff()',
        'on(name="a; (b"); off()',
        '[on(name="a; (b"), off()]',
        'on ( name = "a; (b" ) off ( )',
    ],
)
def test_a_compound_is_right_however_its_calls_are_separated(target: str) -> None:
    assert is_right_compound(target, 'on(name="a; (b")\noff()')


@pytest.mark.parametrize("target", [None, "", "off()", "off()\non()", "on() off() x()"])
def test_a_compound_is_wrong_where_a_call_is_missing_or_misplaced(
    target: str | None,
) -> None:
    assert not is_right_compound(target, "on()\noff()")


# hassil


def test_a_recognised_intent_is_written_as_the_call_of_the_data() -> None:
    entities = {
        "area": SimpleNamespace(value="Premier Étage"),
        "brightness": SimpleNamespace(value=50.0),
        "temperature": SimpleNamespace(value=20.5),
    }
    result = SimpleNamespace(
        intent=SimpleNamespace(name="HassLightSet"), entities=entities
    )
    written = str(recognized_call(result))
    assert (
        written == 'HassLightSet(area="Premier Étage", brightness=50, temperature=20.5)'
    )


def test_the_order_of_slots_does_not_matter_and_a_list_has_alternatives() -> None:
    reference = 'Stop(area="Kitchen", name=["pizza ", "pizza"])'
    assert is_same_call('Stop(name="pizza", area="Kitchen")', reference)
    assert is_same_call('Stop(area="Kitchen", name=["pizza ", "pizza"])', reference)
    assert not is_same_call('Stop(name="pasta", area="Kitchen")', reference)
    assert not is_same_call('Stop(name="pizza")', reference)
    assert not is_same_call('Go(name="pizza", area="Kitchen")', reference)
    assert not is_same_call(None, reference)


@pytest.mark.parametrize("program", ["SELECT 1", "f(x)(y)", "f(**x)", "f(a=b)", "f("])
def test_what_is_not_a_call_with_values_is_no_call(program: str) -> None:
    assert Call.parse(program) is None


def test_hassil_abstains_where_no_rule_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    def recognize_best(sentence: str, rules: Any, **options: Any) -> Any:
        if sentence != "stop":
            return None
        assert options["slot_lists"] == {"area": []}
        return SimpleNamespace(intent=SimpleNamespace(name="HassStop"), entities={})

    stub = SimpleNamespace(recognize_best=recognize_best)
    monkeypatch.setattr(real_use_hassil, "optional_module", lambda name: stub)
    known, unknown = Hassil(rules=None, slot_lists={"area": []}).answers(["stop", "go"])
    assert (known.target, known.reason) == ("HassStop()", "")
    assert (unknown.target, unknown.reason) == (None, "no rule matches")


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(NqgError, match=r"'no_such_package' is missing.*pip install"):
        real_use_hassil.optional_module("no_such_package")


# Systems


class Doubtful:
    """A hybrid of two readers that abstains below 0.5 by default."""

    def __init__(self, least: float = 0.5) -> None:
        self.least = least

    def with_options(self, options: DecodeOptions) -> "Doubtful":
        return Doubtful(options.least_confidence or 0.0)

    def answers(self, sentences: list[str]) -> list[Answer]:
        return [self.answer(sentence) for sentence in sentences]

    def answer(self, sentence: str) -> Answer:
        confidence = len(sentence) / 10
        if confidence < self.least:
            return Answer(sentence, reason="not sure enough")
        parts = (Answer(sentence, "A", system="grammar"), Answer(sentence, system="t5"))
        return Answer(sentence, "A", confidence=confidence, parts=parts)


def test_a_system_is_asked_by_default_and_when_all_is_answered() -> None:
    sure, unsure = Trained.of_nqg(Doubtful()).ask(["a sentence", "one"])
    readers = {"grammar": "A", "t5": None}
    assert sure == Asked("A", "A", 1.0, "", readers)
    assert unsure == Asked(None, "A", 0.3, "not sure enough", readers)


def test_a_system_that_needs_weights_names_the_option() -> None:
    with pytest.raises(NqgError, match=r"'plain-t5' needs .* --seq2seq"):
        Resources().required("seq2seq", "plain-t5")


# Measures and tables


def predicted(
    target: str | None,
    forced: str | None,
    confidence: float | None,
    *,
    kind: str = TEST,
    reference: str | None = "A",
    **readers: str | None,
) -> Prediction:
    asked = Asked(target, forced, confidence, "", readers)
    return Prediction(Question(kind, "a sentence", reference), asked)


PREDICTIONS = (
    predicted("A", "A", 0.9, grammar="A", t5="A"),
    predicted("B", "B", 0.8, grammar="B", t5="B"),
    predicted(None, "A", 0.3, grammar=None, t5="A"),
    predicted(None, None, None, grammar=None, t5=None),
    predicted("A", "A", 0.95, kind=OTHER_DOMAIN, reference=None),
    predicted("A", "A", 0.6, kind=OTHER_DOMAIN, reference=None),
    predicted(None, "A", 0.1, kind=OTHER_DOMAIN, reference=None),
    predicted(None, "A", 0.1, kind=SPLICE, reference=None),
    predicted("a() b()", "a() b()", 0.9, kind=COMPOUND, reference="a()\nb()"),
    predicted("a()", "a()", 0.9, kind=COMPOUND, reference="a()\nb()"),
)
FOUND = Predictions("home", "hybrid", PREDICTIONS, 0.5, Cost(12.3, 8.0, 900))


def test_measures_are_those_of_hand_made_answers() -> None:
    measures = Measures.of(FOUND)
    assert (measures.sentences, measures.right) == (4, 2)
    assert (measures.answered, measures.precise) == (2, 1)
    assert measures.mean_confidence == pytest.approx((0.9 + 0.8 + 0.3) / 4)
    assert (measures.agreed, measures.right_agreed) == (2, 1)
    assert measures.readers == {"grammar": 1, "t5": 2}
    assert measures.other_domains == real_use.Silence(asked=3, answered=2, sure=1)
    assert measures.splices == real_use.Silence(asked=1, answered=0, sure=0)
    assert measures.compounds == (1, 2)


def test_a_system_without_confidence_is_sure_of_every_answer() -> None:
    found = [predicted("A", "A", None, kind=SPLICE, reference=None)]
    assert real_use.silence(found) == real_use.Silence(asked=1, answered=1, sure=1)
    measures = Measures.of(Predictions("home", "hassil", (predicted("A", "A", None),)))
    assert measures.mean_confidence is None
    assert measures.agreed is None


@pytest.mark.parametrize(("learned", "shown"), [(0.8, 0.8), (0.85, None)])
def test_a_threshold_that_is_not_used_is_not_shown(
    learned: float, shown: float | None
) -> None:
    found = Predictions("home", "grammar", PREDICTIONS, learned)
    assert Measures.of(found).threshold == shown


def test_hassil_alone_is_compared_without_the_order_of_slots() -> None:
    swapped = Question(TEST, "stop", "f(a=1, b=2)")
    assert real_use.is_right("hassil", "f(b=2, a=1)", swapped)
    assert not real_use.is_right("grammar", "f(b=2, a=1)", swapped)


def test_predictions_survive_their_file(tmp_path: Path) -> None:
    FOUND.write(tmp_path)
    path = Predictions.path(tmp_path, "home", "hybrid")
    assert Predictions.read(path) == FOUND
    head, *lines = path.read_text().splitlines()
    assert json.loads(head)["threshold"] == 0.5
    assert len(lines) == len(PREDICTIONS)
    assert real_use.stored(tmp_path, ["home"], ["grammar", "hybrid"]) == [path]


TABLES = """\
| dataset | sentences | hybrid | hybrid: grammar | hybrid: t5 | hassil |
| --- | --: | --: | --: | --: | --: |
| home | 4 | 50.0 | 25.0 | 50.0 | – |
| flat | 1 | – | – | – | 100.0 |

| dataset | system | answered | precision | right of all | mean confidence | threshold | agreed | precision there |
| --- | --- | --: | --: | --: | --: | --: | --: | --: |
| home | hybrid | 50.0 | 50.0 | 50.0 | 0.50 | 0.50 | 50.0 | 50.0 |
| flat | hassil | 100.0 | 100.0 | 100.0 | – | – | – | – |

| dataset | system | other domains: answered, sure | splices | compounds right | CPU s | s | MB |
| --- | --- | --: | --: | --: | --: | --: | --: |
| home | hybrid | 2, 1 of 3 | 0, 0 of 1 | 1 of 2 | 12 | 8 | 900 |
| flat | hassil | – | – | – | – | – | – |
"""


def test_the_tables_have_a_row_for_each_dataset_and_system() -> None:
    flat = Predictions(
        "flat", "hassil", (predicted("f()", "f()", None, reference="f()"),)
    )
    assert tables([FOUND, flat]) == TABLES


def test_a_failed_process_is_reported_with_its_last_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(command: list[str], **options: Any) -> Any:
        assert command[-5:] == ["--here", "--datasets", "home", "--systems", "hybrid"]
        assert options["env"]["OMP_NUM_THREADS"] == "2"
        return SimpleNamespace(returncode=1, stderr="a trace\nno weights\n")

    monkeypatch.setattr("subprocess.run", run)
    report = real_use.Task("home", "hybrid").run(["--jobs", "1"], threads=2)
    assert report == "home hybrid: failed with 1: no weights"
