"""Models on the Hugging Face Hub, by a stand-in for it that keeps files as its cache does: as links to blobs."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from conftest import PROJECT
from nqg.errors import NqgError
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model_folder import folder_digest

MODELS = PROJECT / "tests" / "models"


class Hub:
    """Repositories in a folder, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits: list[tuple[str, str, bool | None]] = []

    def create_repo(
        self, repo_id: str, *, private: bool | None, exist_ok: bool
    ) -> None:
        assert exist_ok
        (self.folder / repo_id).mkdir(parents=True, exist_ok=True)
        self.commits.append((repo_id, "created", private))

    def upload_folder(
        self,
        *,
        repo_id: str,
        folder_path: Path,
        commit_message: str,
        delete_patterns: str,
    ) -> SimpleNamespace:
        assert delete_patterns == "*"
        shutil.rmtree(self.folder / repo_id)
        shutil.copytree(folder_path, self.folder / repo_id)
        self.commits.append((repo_id, commit_message, None))
        return SimpleNamespace(
            commit_url=f"https://hub/{repo_id}/commit/{len(self.commits)}"
        )

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str]
    ) -> str:
        if not (self.folder / repo_id).is_dir():
            raise OSError(f"404: {repo_id} at {revision}")
        snapshot = self.folder / "cache" / "snapshots"
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        for path in sorted((self.folder / repo_id).rglob("*")):
            inside = path.relative_to(self.folder / repo_id)
            if path.is_file() and any(
                fnmatch.fnmatch(str(inside), pattern) for pattern in allow_patterns
            ):
                blob = (
                    self.folder
                    / "cache"
                    / "blobs"
                    / inside.as_posix().replace("/", "-")
                )
                blob.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, blob)
                (snapshot / inside).parent.mkdir(parents=True, exist_ok=True)
                (snapshot / inside).symlink_to(blob)
        return str(snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    stand_in = Hub(tmp_path / "hub")
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", stand_in.snapshot_download
    )
    for name in ("create_repo", "upload_folder"):
        monkeypatch.setattr(huggingface_hub.HfApi, name, getattr(stand_in, name))
    monkeypatch.chdir(tmp_path)
    return stand_in


def test_a_parser_that_was_pushed_is_the_same_when_it_comes_back(hub: Hub) -> None:
    parser = Parser.load(MODELS / "v4", "cpu")
    address = parser.push_to_hub("someone/steps", message="first", private=True)
    assert address == "https://hub/someone/steps/commit/2"
    assert hub.commits == [
        ("someone/steps", "created", True),
        ("someone/steps", "first", None),
    ]
    again = Parser.from_pretrained("someone/steps", "cpu")
    assert again.grammar == parser.grammar
    assert [each.target for each in again.answers(["run twice", "fly"])] == [
        "R R",
        None,
    ]


def test_a_hybrid_comes_back_with_its_second_reader_and_its_confidence(
    hub: Hub,
) -> None:
    hybrid = Hybrid.load(MODELS / "v4-whole", "cpu")
    hybrid.push_to_hub("someone/home")
    again = Hybrid.from_pretrained("someone/home", "cpu")
    assert again.calibrator is not None
    assert again.calibrator == hybrid.calibrator
    assert [each.target for each in again.answers(["illuminate the cellar"])] == [
        "on(lamp, cellar)"
    ]
    assert Parser.from_pretrained("someone/home", "cpu").grammar == again.parser.grammar  # type: ignore[attr-defined]


def test_a_model_on_the_hub_has_a_card_and_nothing_but_a_model_folder(hub: Hub) -> None:
    parser = Parser.load(MODELS / "v4", "cpu")
    parser.push_to_hub("someone/steps")
    card = (hub.folder / "someone/steps/README.md").read_text()
    assert card.startswith(
        "---\nlibrary_name: nqg\ntags:\n- semantic-parsing\n---\n# A parsing model of nqg\n"
    )
    parser.save("own")
    assert folder_digest(Path("own")) == folder_digest(hub.folder / "someone/steps")


def test_a_folder_is_read_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    assert (
        Parser.from_pretrained(MODELS / "v4", "cpu").parse("run twice").target == "R R"
    )
    assert Hybrid.from_pretrained(str(MODELS / "v4-whole"), "cpu").calibrator


def test_what_a_repository_holds_beside_a_model_is_not_fetched(hub: Hub) -> None:
    Parser.load(MODELS / "v4", "cpu").push_to_hub("someone/steps")
    (hub.folder / "someone/steps/setup.py").write_text("print('hello')")
    assert (
        Parser.from_pretrained("someone/steps", "cpu").parse("run twice").target
        == "R R"
    )


def test_a_damaged_or_foreign_repository_is_refused(hub: Hub) -> None:
    Parser.load(MODELS / "v4", "cpu").push_to_hub("someone/steps")
    with (hub.folder / "someone/steps/grammar.txt").open("a") as file:
        file.write("fly ### F\n")
    with pytest.raises(
        NqgError, match=r"grammar\.txt is damaged: it is not the file that was saved"
    ):
        Parser.from_pretrained("someone/steps", "cpu")
    (hub.folder / "someone/other").mkdir()
    (hub.folder / "someone/other/config.json").write_text("{}")
    with pytest.raises(NqgError, match="is not a model folder"):
        Parser.from_pretrained("someone/other", "cpu")


def test_a_name_that_nobody_has_is_an_error_that_says_what_was_expected(
    hub: Hub,
) -> None:
    with pytest.raises(
        NqgError,
        match=r"^someone/no: could not be downloaded .* expected a folder, or a model on the Hub",
    ):
        Parser.from_pretrained("someone/no", "cpu", revision="v1")


def test_an_upload_that_is_refused_says_how_to_log_in(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("401 Client Error")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refused)
    with pytest.raises(
        NqgError,
        match=r"could not be uploaded .*: 401 Client Error; log in with: hf auth login",
    ):
        Parser.load(MODELS / "v4", "cpu").push_to_hub("someone/steps")


@pytest.mark.parametrize("name", ["no/such/folder/here", "", "a b/c", "../x"])
def test_what_cannot_be_a_name_is_refused_by_the_real_client_without_a_network(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        NqgError,
        match=r"expected a folder, or a model on the Hub as OWNER/NAME|not a model folder",
    ):
        Parser.from_pretrained(name, "cpu")
