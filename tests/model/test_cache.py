"""Forests that are found again, and those that must not be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.model.forests import ForestCache, Forests, build_forests, fingerprint

GRAMMAR = Grammar.parse("jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 after NT_2 ### NT_2 NT_1")
EXAMPLES = [Example("jump twice", "J J"), Example("walk after jump after walk", "W J W")]
FORESTS = build_forests(GRAMMAR, EXAMPLES)


def arrays(forests: Forests) -> list[list[int]]:
    return [array.tolist() for graph in (forests.full, forests.goal) for array in graph.arrays().values()]


@pytest.fixture
def cache(tmp_path: Path) -> ForestCache:
    found = ForestCache(tmp_path / "nqg" / "forests")
    found.add(GRAMMAR, EXAMPLES, FORESTS)
    return found


def entry(cache: ForestCache, ending: str) -> Path:
    (path,) = cache.folder.glob(f"*.{ending}")
    return path


def test_forests_that_were_kept_are_found_as_they_were(cache: ForestCache) -> None:
    found = cache.find(GRAMMAR, EXAMPLES)
    assert found is not None
    assert arrays(found) == arrays(FORESTS)


def test_an_empty_cache_holds_nothing_and_makes_no_folder(tmp_path: Path) -> None:
    assert ForestCache(tmp_path / "none").find(GRAMMAR, EXAMPLES) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("grammar", "examples"),
    [
        (Grammar(GRAMMAR.rules[::-1]), EXAMPLES),
        (Grammar(GRAMMAR.rules[:3]), EXAMPLES),
        (GRAMMAR, EXAMPLES[::-1]),
        (GRAMMAR, EXAMPLES[:1]),
        (GRAMMAR, [EXAMPLES[0], Example(EXAMPLES[1].source, "W W W")]),
    ],
    ids=["order of rules", "fewer rules", "order of examples", "fewer examples", "another target"],
)
def test_another_grammar_or_other_examples_are_not_found(
    cache: ForestCache, grammar: Grammar, examples: list[Example]
) -> None:
    assert cache.find(grammar, examples) is None
    assert cache.find(GRAMMAR, EXAMPLES) is not None


@pytest.mark.parametrize("name", ["nqg.__version__", "nqg.model.forests.VERSION"])
def test_another_version_makes_another_fingerprint(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = fingerprint(GRAMMAR, EXAMPLES)
    monkeypatch.setattr(name, "9.9.9")
    assert fingerprint(GRAMMAR, EXAMPLES) != before


@pytest.mark.parametrize("ending", ["arrays", "json"])
@pytest.mark.parametrize("place", [0, 100, -3])
def test_an_entry_with_one_wrong_bit_is_not_found_and_can_be_kept_again(
    cache: ForestCache, ending: str, place: int
) -> None:
    raw = bytearray(entry(cache, ending).read_bytes())
    raw[place] ^= 1
    entry(cache, ending).write_bytes(raw)
    assert cache.find(GRAMMAR, EXAMPLES) is None
    cache.add(GRAMMAR, EXAMPLES, FORESTS)
    assert cache.find(GRAMMAR, EXAMPLES) is not None
    assert len(list(cache.folder.iterdir())) == 2


def test_an_entry_that_was_cut_short_is_not_found(cache: ForestCache) -> None:
    entry(cache, "arrays").write_bytes(entry(cache, "arrays").read_bytes()[:-10])
    assert cache.find(GRAMMAR, EXAMPLES) is None


def test_an_entry_under_another_name_is_not_found(cache: ForestCache) -> None:
    for ending in ("arrays", "json"):
        entry(cache, ending).rename(cache.folder / f"{fingerprint(GRAMMAR, EXAMPLES[:1])}.{ending}")
    assert cache.find(GRAMMAR, EXAMPLES[:1]) is None


def test_an_interrupted_write_leaves_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nqg.files.os.fsync", full_disk)
    with pytest.raises(NqgError, match=r"\.arrays: cannot be written \(No space left on device\)"):
        ForestCache(tmp_path / "forests").add(GRAMMAR, EXAMPLES, FORESTS)
    assert not list((tmp_path / "forests").iterdir())


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "forests").write_text("")
    with pytest.raises(NqgError, match=r"forests: forests cannot be kept there \(File exists\)"):
        ForestCache(tmp_path / "forests").add(GRAMMAR, EXAMPLES, FORESTS)


def test_the_cache_lies_beside_the_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path))
    assert ForestCache.of_this_machine().folder == tmp_path / "forests"
    monkeypatch.delenv("NQG_DATA_CACHE")
    assert ForestCache.of_this_machine().folder.parts[-2:] == ("nqg", "forests")


def test_entries_can_be_read_by_others(cache: ForestCache) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.folder.iterdir()} == {0o666 & ~umask}
