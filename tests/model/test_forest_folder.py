"""Forests in a folder are those in memory, whoever built them, and damage shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.examples import Example
from nqg.data.scan import scan_examples
from nqg.engines import ProcessPool
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.model import forests as folder_module
from nqg.model.forests import ForestFolder, Forests, build_folder, build_forests, part_files

GRAMMAR = Grammar.parse(
    "walk ### I_WALK\nrun ### I_RUN\nleft ### I_TURN_LEFT\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2\n"
    "NT_1 after NT_2 ### NT_2 NT_1\nNT_1 left ### I_TURN_LEFT NT_1"
)
EXAMPLES = [example for example in scan_examples() if len(example.source_tokens) <= 3][:50]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "PAIRS", 16)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForestFolder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "PAIRS", 16)
        yield fresh(tmp_path_factory.mktemp("forests") / "deep")


def fresh(folder: Path, examples: list[Example] = EXAMPLES) -> ForestFolder:
    assert list(build_folder(folder, GRAMMAR, examples))[-1] == len(examples)
    return ForestFolder.open(folder)


def assert_equal(ours: Forests, theirs: Forests) -> None:
    for one, other in ((ours.full, theirs.full), (ours.goal, theirs.goal)):
        assert one.arrays().keys() == other.arrays().keys()
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, other.arrays()[name], name)


def test_progress_counts_pairs(tmp_path: Path) -> None:
    assert list(build_folder(tmp_path, GRAMMAR, EXAMPLES)) == [16, 32, 48, 50]


def test_everything_in_it_is_what_memory_would_hold(built: ForestFolder) -> None:
    whole = build_forests(GRAMMAR, EXAMPLES)
    assert len(built) == len(whole) == 50
    assert_equal(built.select(range(50)), whole)
    assert built.underivable() == whole.underivable()
    assert 0 < len(built.underivable()) < 50
    assert built.nbytes >= whole.nbytes


@given(pairs=st.lists(st.integers(0, 49)))
def test_any_pairs_can_be_picked_in_any_order(built: ForestFolder, pairs: list[int]) -> None:
    assert_equal(built.select(pairs), build_forests(GRAMMAR, EXAMPLES).select(pairs))


def test_arrays_are_mapped_and_cannot_be_changed(built: ForestFolder) -> None:
    rules = built.part(0).full.rules
    assert isinstance(rules, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        rules[0] = 1


def test_a_pair_that_is_not_there_is_refused(built: ForestFolder) -> None:
    with pytest.raises(NqgError, match="there are forests of 50 pairs; pair 50 was asked for"):
        built.select([50])


def test_two_workers_write_the_same_bytes(built: ForestFolder, tmp_path: Path) -> None:
    assert list(build_folder(tmp_path, GRAMMAR, EXAMPLES, ProcessPool(2))) == [16, 32, 48, 50]
    assert contents(tmp_path) == contents(built.folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_build_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    building = build_folder(tmp_path, GRAMMAR, EXAMPLES)
    assert [next(building), next(building)] == [16, 32]
    building.close()  # type: ignore[attr-defined]
    built = list[int]()

    def counted(grammar: Grammar, examples: list[Example], workers: int | None) -> Forests:
        built.append(len(examples))
        return build_forests(grammar, examples, workers=workers)

    monkeypatch.setattr(folder_module, "build_forests", counted)
    assert_equal(fresh(tmp_path).select(range(50)), build_forests(GRAMMAR, EXAMPLES))
    assert built == [16, 2]


def test_parts_of_other_examples_are_built_again_and_left_over_ones_removed(tmp_path: Path) -> None:
    fresh(tmp_path)
    (tmp_path / "part-odd.json").touch()
    others = EXAMPLES[:16] + EXAMPLES[20:25]
    assert_equal(fresh(tmp_path, others).select(range(21)), build_forests(GRAMMAR, others))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_damaged_part_is_noticed_when_it_is_read_and_mended_by_building_again(tmp_path: Path) -> None:
    arrays = part_files(fresh(tmp_path).folder, 1).arrays
    raw = bytearray(arrays.read_bytes())
    raw[100] ^= 1
    arrays.write_bytes(raw)
    damaged = ForestFolder.open(tmp_path)
    damaged.select([0, 15, 32])
    with pytest.raises(FormatError, match=r"part-000001.arrays: damaged: another checksum"):
        damaged.select([16])
    assert_equal(fresh(tmp_path).select(range(50)), build_forests(GRAMMAR, EXAMPLES))


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        ({"first_byte": 0}, r"no forests .*a child that does not come before it"),
        ({"first_byte": 1 << 40}, r"no forests .*cannot reshape"),
        ({"shape": ["a"]}, r"damaged header .*expected an integer as entry 0 of 'shape'"),
        ({"shape": [10**30]}, r"damaged header .*1000000000000000000000000000000 is not a size"),
    ],
)
def test_arrays_that_make_no_graph_are_refused(tmp_path: Path, column: dict[str, object], complaint: str) -> None:
    header = part_files(fresh(tmp_path).folder, 0).header
    fields = json.loads(header.read_text())
    fields["columns"]["full.children"] |= column
    header.write_text(json.dumps(fields))
    with pytest.raises(FormatError, match=complaint):
        ForestFolder.open(tmp_path).part(0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "expected the header of 'nqg forests' in version 3, found something else"),
        ('{"kind": "nqg forests", "version": 9}', "in version 3"),
        ('{"kind": "nqg forests", "version": 3}', "damaged header .*fingerprint.*build the forests again"),
        ('{"kind": "nqg forests", "version": 3, "columns": {}, "underivable": [], "odd": 1}', "odd"),
        ("{", "part-000001.json:1"),
    ],
)
def test_a_bad_header_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    part_files(fresh(tmp_path).folder, 1).header.write_text(text)
    with pytest.raises(FormatError, match=complaint):
        ForestFolder.open(tmp_path)


def test_lost_arrays_are_named(tmp_path: Path) -> None:
    part_files(fresh(tmp_path).folder, 2).arrays.unlink()
    with pytest.raises(FormatError, match=r"part-000002.arrays: cannot be read"):
        ForestFolder.open(tmp_path).part(2)


def test_neither_an_empty_folder_nor_an_empty_corpus_has_forests(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match="there are no forests in this folder"):
        ForestFolder.open(tmp_path)
    with pytest.raises(NqgError, match="there are no examples to build forests of"):
        list(build_folder(tmp_path, GRAMMAR, []))
