from pathlib import Path

import pytest

from nqg.paper.recipe import is_available, read_recipe, used_weights

RECIPE = read_recipe("geoquery-tmcd")


def test_the_recipes_weights_are_used_where_they_are_available() -> None:
    used = used_weights(RECIPE, available=lambda name: True)
    assert (used.encoder, used.seq2seq) == ("bert-base-uncased", "t5-base")
    assert used.label("hybrid") == used.asked("hybrid") == "bert-base-uncased+t5-base"


def test_a_stand_in_is_used_where_they_cannot_and_is_told_apart() -> None:
    used = used_weights(RECIPE, available=lambda name: False)
    assert (used.encoder, used.seq2seq) == ("embedded", "embedded")
    assert used.label("nqg") != used.asked("nqg")


def test_what_the_user_names_is_used_unseen(tmp_path: Path) -> None:
    used = used_weights(
        RECIPE, str(tmp_path), "google/flan-t5-small", available=lambda name: False
    )
    assert used.path("nqg") == str(tmp_path)
    assert used.label("hybrid") == f"{tmp_path.name}+google/flan-t5-small"


def test_nobody_is_asked_for_weights_that_no_system_needs() -> None:
    asked: list[str] = []

    def is_reachable(name: str) -> bool:
        asked.append(name)
        return False

    used_weights(RECIPE, systems=("nqg",), available=is_reachable)
    assert asked == ["bert-base-uncased"]


def test_embedded_weights_and_folders_is_available_without_a_network(
    tmp_path: Path,
) -> None:
    assert is_available("embedded")
    assert is_available(str(tmp_path))


def test_a_hub_that_does_not_answer_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent:
        def model_info(self, name: str, timeout: float) -> None:
            raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi", Silent)
    assert not is_available("nobody/nothing")
