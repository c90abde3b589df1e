"""A fallback that is taught by the grammar, run as a cell: samples, filter, training, both ways to decode, figures."""

from dataclasses import replace
from pathlib import Path

from nqg.data.example import Example
from nqg.evaluation.evaluation import ExactJudge
from nqg.paper.recipe import SystemPlan, UsedWeights, read_recipe
from nqg.paper.runner import Runner
from nqg.paper.systems import RUNS, RecipeData
from nqg.seq2seq.settings import AugmentationSettings

PLACES = {"cities": "city", "rivers": "river", "lakes": "lake", "mountains": "mountain"}
TRAIN = (
    *(
        Example(
            f"what {word} are in m0",
            f"answer ( intersection ( {kind} , loc_2 ( m0 ) ) )",
        )
        for word, kind in PLACES.items()
    ),
    *(
        Example(f"how many {word}", f"answer ( count ( {kind} ) )")
        for word, kind in list(PLACES.items())[:3]
    ),
)
TEST = (Example("how many mountains", "answer ( count ( mountain ) )"),)
BRIEF = SystemPlan(training={"steps": 4, "batch_size": 4})
RECIPE = replace(
    read_recipe("geoquery-tmcd"),
    seq2seq=BRIEF,
    augmented=BRIEF,
    augmentation=AugmentationSettings(samples=20, kept=0.5, reverse_steps=2),
)


def test_a_taught_fallback_has_figures_of_its_samples_and_of_both_ways_to_decode(
    tmp_path: Path,
) -> None:
    data = RecipeData(RECIPE, TRAIN, TEST, {}, {"exact": ExactJudge()})
    runner = Runner(data, tmp_path, UsedWeights(RECIPE, "embedded", "embedded"), RUNS)
    plain, taught = runner.records(("seq2seq", "augmented"), [0])
    for record in (plain, taught):
        figures = record.figures
        assert {"accuracy", "train_accuracy", "legal_accuracy", "legal_coverage"} <= {
            *figures
        }
    assert 1 <= (taught.figures["samples"] or 0) <= 10
    assert taught.figures["sampled_programs"] in (0.0, 1.0)
    assert taught.settings["kept"] == 0.5
    assert "samples" not in plain.figures
    assert taught.is_of(RECIPE)
    assert not taught.is_of(
        replace(RECIPE, augmentation=AugmentationSettings(samples=21))
    )
    assert plain.is_of(replace(RECIPE, augmentation=AugmentationSettings(samples=21)))
