from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nqg.data.scan import scan_examples
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.induction.corpus import underivable
from nqg.induction.settings import InductionSettings
from nqg.model.settings import TrainingSettings
from nqg.paper.datasets import CATALOGUE
from nqg.paper.recipe import (
    PaperFigures,
    SystemName,
    SystemPlan,
    read_recipe,
    recipe_names,
)
from nqg.paper.systems import induced
from nqg.seq2seq.settings import AugmentationSettings

LEAST = 'dataset = "scan"\nsplit = "length"\n'


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_of_a_known_dataset_and_split(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    entry = CATALOGUE[recipe.dataset]
    assert recipe.split in entry.splits or recipe.random_train_size
    assert InductionSettings().changed(**recipe.induction)


def test_the_paper_is_quoted_as_printed() -> None:
    tmcd = read_recipe("geoquery-tmcd").paper
    assert (
        tmcd.accuracy["NQG"],
        tmcd.accuracy["T5-Base"],
        tmcd.accuracy["NQG-T5-Base"],
    ) == (
        41.1,
        54.3,
        56.6,
    )
    assert (tmcd.nqg["coverage"], tmcd.nqg["precision"], tmcd.split["divergence"]) == (
        43.7,
        94.1,
        0.19,
    )


def test_a_recipe_of_ones_own_has_the_defaults_of_what_it_leaves_out(
    written: Callable[[str], str],
) -> None:
    recipe = read_recipe(written(LEAST))
    assert recipe.name == "mine"
    assert recipe.systems == ("nqg", "seq2seq", "hybrid")
    assert recipe.nqg == SystemPlan()
    assert recipe.metric == "exact"


def test_systems_come_in_the_order_in_which_they_build_on_each_other(
    written: Callable[[str], str],
) -> None:
    assert read_recipe(written(LEAST + 'systems = ["hybrid", "nqg"]\n')).systems == (
        "nqg",
        "hybrid",
    )


def test_a_recipe_like_another_takes_over_whole_tables_but_not_the_figures_of_the_paper(
    written: Callable[[str], str],
) -> None:
    text = 'like = "geoquery-standard"\nsplit = "tmcd"\n[teaching]\nrounds = 3\n'
    found, model = read_recipe(written(text)), read_recipe("geoquery-standard")
    teaching = AugmentationSettings(rounds=3)
    assert found == replace(
        model, name="mine", split="tmcd", teaching=teaching, paper=PaperFigures()
    )


@pytest.mark.parametrize(
    ("name", "system", "fingerprint"),
    [
        (
            "geoquery-tmcd",
            "augmented",
            "9a44785027a7916eee5bb9f0a94948b60462653a6f8f13aed9c5f38a657a516d",
        ),
        (
            "scan-length",
            "augmented",
            "385a89866eb1c5b9a98a361c8cea56f6d8e8a9125148371da26fbd82b386b261",
        ),
        (
            "spider-ssp-tmcd",
            "augmented",
            "7ce1cb38e4b9e47794620b54f0a54b5789a7445c495555c6ff0647f8ef7b9c41",
        ),
        (
            "spider-xsp",
            "seq2seq",
            "5a14a2e588f6c6e729107a2cbe328e9cd175a4f961ea90316986bd4bbb9c7a6a",
        ),
        (
            "geoquery-random",
            "seq2seq",
            "c67c17e3a7604b1c95592091f8ba7cb1962472a2e5fdbb748f4c574528ebe477",
        ),
    ],
)
def test_what_a_recipe_takes_over_counts_as_its_own_so_that_records_stay_valid(
    name: str, system: SystemName, fingerprint: str
) -> None:
    assert read_recipe(name).fingerprint(system, "flan-t5-small") == fingerprint


def test_a_near_miss_is_offered(written: Callable[[str], str]) -> None:
    with pytest.raises(UnknownName, match="did you mean 'scan-length'"):
        read_recipe(written('like = "scan-lenght"\n'))
    with pytest.raises(UnknownName, match="did you mean 'scan-length'"):
        read_recipe("scan-lenght")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(NqgError, match=r"nowhere\.toml: cannot be read \(No such file"):
        read_recipe("nowhere.toml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("dataset = ", r"mine\.toml: not valid TOML"),
        (
            'split = "length"\n',
            "the key 'dataset' of the recipe is missing; expected a string",
        ),
        (LEAST + 'speed = "high"\n', "no key of the recipe 'speed'"),
        (
            LEAST + 'metric = "bleu"\n',
            "expected one of exact, spider as 'metric' of the recipe, found 'bleu'",
        ),
        (
            LEAST + 'systems = ["t5"]\n',
            "expected one of nqg, paper-induction, .*, gated as entry 0 of 'systems'",
        ),
        (LEAST + "systems = []\n", "'systems' names none; expected at least one"),
        (
            LEAST + "random_train_size = 0\n",
            "'random_train_size' is 0; expected at least 1",
        ),
        (LEAST + "random_train_size = true\n", "found True"),
        (LEAST + "nqg = 3\n", "expected a table as 'nqg' of the recipe, found 3"),
        (
            LEAST + "[nqg]\nencoder = 3\n",
            r"expected a string as 'weights' of \[nqg\], found 3",
        ),
        (
            LEAST + '[paper.accuracy]\nNQG = "high"\n',
            r"expected a number as 'NQG' of \[accuracy\], found 'high'",
        ),
        (LEAST + "[paper.speed]\nNQG = 3\n", r"no key of \[paper\] 'speed'"),
        (
            LEAST + '[induction]\nshortest = "all"\n',
            r"expected an integer as 'shortest' of \[induction\], found 'all'",
        ),
        (
            LEAST + "[induction]\nterminal_bits = 0\n",
            r"\[induction\]: terminal_bits is 0.0; expected more",
        ),
    ],
)
def test_a_bad_recipe_is_refused_with_the_reason(
    written: Callable[[str], str], text: str, complaint: str
) -> None:
    with pytest.raises(FormatError, match=complaint):
        read_recipe(written(text))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"dataset = '\xff'")
    with pytest.raises(FormatError, match="not valid TOML"):
        read_recipe(str(path))


def test_a_fingerprint_changes_with_what_the_system_depends_on_and_with_nothing_else() -> (
    None
):
    recipe = read_recipe("geoquery-tmcd")
    slower = replace(
        recipe,
        seq2seq=replace(
            recipe.seq2seq, training={"steps": 9}, others={"flan": {"steps": 8}}
        ),
    )
    assert slower.fingerprint("nqg", "x") == recipe.fingerprint("nqg", "x")
    assert slower.fingerprint("seq2seq", "x") != recipe.fingerprint("seq2seq", "x")
    assert slower.fingerprint("hybrid", "x+y") != recipe.fingerprint("hybrid", "x+y")
    assert slower.fingerprint("seq2seq", "x") != slower.fingerprint("seq2seq", "flan")
    assert slower.fingerprint("hybrid", "flan+y") == slower.fingerprint("hybrid", "x+y")
    assert replace(recipe, name="other").fingerprint("nqg", "x") == recipe.fingerprint(
        "nqg", "x"
    )
    tried = replace(recipe, trials=True)
    assert tried.fingerprint("nqg", "x") != recipe.fingerprint("nqg", "x")
    assert tried.fingerprint("augmented", "x") != recipe.fingerprint("augmented", "x")
    assert tried.fingerprint("seq2seq", "x") == recipe.fingerprint("seq2seq", "x")


def test_other_weights_may_have_settings_of_their_own(
    written: Callable[[str], str],
) -> None:
    text = LEAST + "[nqg]\nsteps = 9\nclip = 2.0\n[nqg.other.tiny]\nsteps = 3\n"
    plan = read_recipe(written(text)).nqg
    usual, tiny = (
        plan.settings(TrainingSettings, weights, 1, "[nqg]")
        for weights in ("bert", "models/tiny")
    )
    assert (usual.steps, usual.clip, usual.seed) == (9, 2.0, 1)
    assert (tiny.steps, tiny.clip) == (3, 2.0)


def test_trials_find_the_rule_that_the_papers_settings_miss() -> None:
    short = [example for example in scan_examples() if len(example.source_tokens) <= 3]
    train = [example for example in short if "around right" not in example.source]
    held_out = [example for example in short if "around right" in example.source]
    assert len(held_out) == 5
    assert not underivable(
        induced(read_recipe("scan-around-right"), train, None), held_out
    )
    papers = induced(read_recipe("scan-around-right", ["trials=false"]), train, None)
    assert len(underivable(papers, held_out)) == 5
