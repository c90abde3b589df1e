"""The datasets that nqg knows by name: files, licences, conversions and splits. Nothing of them is
bundled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

from nqg.data import scan
from nqg.data.dataset import Dataset, Split, read_split
from nqg.data.example import Example
from nqg.errors import FormatError, UnknownName
from nqg.files import numbered_lines, read_json
from nqg.paper.download import Cache, Mirror, RemoteFile, file_store
from nqg.paper.geoquery import load_geoquery, load_raw_geoquery, raw_geoquery_slots
from nqg.paper.spider import (
    load_spider_ssp,
    load_spider_xsp,
    read_natural_names,
    read_schemas,
)
from nqg.progress import Progress, silent
from nqg.settings_reader import read_value
from nqg.sql.schema import Schema


def load_dataset(
    name: str, mirror: Path | str | None = None, progress: Progress = silent
) -> Dataset:
    """A dataset by name, downloaded on first use, or taken from the folder `mirror` (or
    NQG_DATA_MIRROR).

    >>> train, test = load_dataset("scan").split("length")
    >>> len(train), len(test)
    (16990, 3920)
    """
    return entry_named(name).load(file_store(mirror, progress))


def load_spider_schemas(
    mirror: Path | str | None = None, progress: Progress = silent
) -> Mapping[str, Schema]:
    """The schemas of Spider's databases by name; its tables.json has to be put in place by hand, as
    its examples.
    """
    return read_schemas(file_store(mirror, progress).path_of(_SPIDER_TABLES))


def load_natural_names(
    mirror: Path | str | None = None, progress: Progress = silent
) -> Mapping[str, Mapping[str, str]]:
    """What people call the tables and columns of Spider's databases (`read_natural_names`)."""
    return read_natural_names(file_store(mirror, progress).path_of(_SPIDER_TABLES))


def entry_named(name: str) -> Entry:
    if name not in CATALOGUE:
        raise UnknownName("dataset", name, CATALOGUE)
    return CATALOGUE[name]


@dataclass(frozen=True, slots=True)
class NamedSplit:
    """A split of a known dataset; `make` takes the examples and the paths of `files`."""

    make: Callable[..., Split]
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset that can be loaded by name; `convert` takes the paths of `files` and gives `size`
    examples.

    `fingerprint` is that of the examples which the published files give, so that another release
    can be told apart.
    """

    name: str
    about: str
    size: int
    licence: str
    citation: str
    fingerprint: str
    convert: Callable[..., Sequence[Example]]
    files: tuple[RemoteFile, ...] = ()
    splits: Mapping[str, NamedSplit] = field(default_factory=dict)
    # Settings and lists of names for training, by file name, from the paths of `files`.
    beside: Callable[..., Mapping[str, str]] = lambda *_: {}

    def addresses(self, split: str | None = None) -> tuple[str, ...]:
        """Where the examples come from, and where the positions of a split do."""
        files = [*self.files, *(self.splits[split].files if split else ())]
        return tuple(dict.fromkeys(file.address for file in files))

    def missing(self, store: Mirror | Cache) -> tuple[RemoteFile, ...]:
        """The files, of the examples and of every split, that are not yet in `store`."""
        needed = dict.fromkeys(self.files)
        for split in self.splits.values():
            needed.update(dict.fromkeys(split.files))
        return tuple(file for file in needed if not store.has(file))

    def load(self, store: Mirror | Cache) -> Dataset:
        """The dataset, with its files from `store`; files of splits wait until a split is asked
        for.
        """
        paths = [store.path_of(file) for file in self.files]
        examples = tuple(self.convert(*paths))
        if len(examples) != self.size:
            places = ", ".join(map(str, paths))
            raise FormatError(
                f"expected {self.size} examples of {self.name}, found {len(examples)} in {places}"
            )
        # Splits are made when they are asked for, because some need more files.
        makers = {
            name: partial(self.make_split, name, examples, store)
            for name in self.splits
        }
        return Dataset(self.name, examples, makers, self.licence, self.addresses())

    def files_beside(self, store: Mirror | Cache) -> Mapping[str, str]:
        return self.beside(*map(store.path_of, self.files))

    def make_split(
        self, name: str, examples: Sequence[Example], store: Mirror | Cache
    ) -> Split:
        split = self.splits[name]
        return split.make(examples, *map(store.path_of, split.files))


_MCD_ARCHIVE = RemoteFile(
    "scan/scan-splits.tar.gz",
    "https://storage.googleapis.com/cfq_dataset/scan-splits.tar.gz",
    79_199,
    "e8fff9d88699abd1b88e8eeb44d199bc9706fb21dd9887c3a928dcb11f140785",
)
_SCAN_TASKS = RemoteFile(
    "scan/tasks.txt",
    "https://raw.githubusercontent.com/brendenlake/SCAN/master/tasks.txt",
    4_080_388,
    "d824c7d9e9149ba497e25f701981dac79954e04bf670d22e5c209f076ac6c89f",
)
_CORPUS = RemoteFile(
    "geoquery/corpus.xml",
    "http://www.cs.utexas.edu/~ml/wasp/geo-funql/corpus.xml",
    919_140,
    # No checksum, because the bytes at the public address may differ.
    marks=(b"<example id=", 880),
)
_GEOBASE = RemoteFile(
    "geoquery/geobase",
    "ftp://ftp.cs.utexas.edu/pub/mooney/nl-ilp-data/geosystem/geobase",
    37_356,
    "7ae78ca2c2d3ca933b66ebf3d0aa3bf49cdbb44534e5c013886e9eec65083d90",
)
# Spider's archive lies behind a web page that asks for a click; the split files do not.
_SPIDER_PAGE = "https://yale-lily.github.io/spider"
_SPIDER_TRAIN = RemoteFile("spider/train_spider.json", _SPIDER_PAGE, by_hand=True)
_SPIDER_DEV = RemoteFile("spider/dev.json", _SPIDER_PAGE, by_hand=True)
_SPIDER_TABLES = RemoteFile("spider/tables.json", _SPIDER_PAGE, by_hand=True)


_PUBLISHED_TASKS = (
    "https://raw.githubusercontent.com/google-research/language/master"
    "/language/compgen/{project}/tasks/{path}"
)


def _published_split(
    dataset: str, name: str, file: RemoteFile
) -> dict[str, NamedSplit]:
    """A split that others published as a file of positions, under its name."""

    def read(examples: Sequence[Example], path: Path) -> Split:
        rule = f"published: {file.address}"
        made_by = {"dataset": dataset, "split": name, "rule": rule}
        return replace(read_split(path, size=len(examples)), made_by=made_by)

    return {name: NamedSplit(read, (file,))}


def _published(
    dataset: str, folder: str, size: int, checksums: Mapping[str, str]
) -> dict[str, NamedSplit]:
    """The splits of Shaw et al., in files of equal size: `tmcd_1.json` is called `tmcd`."""
    splits: dict[str, NamedSplit] = {}
    for stem, sha256 in checksums.items():
        path = f"{folder}/splits/{stem}.json"
        address = _PUBLISHED_TASKS.format(project="nqg", path=path)
        file = RemoteFile(path, address, size, sha256)
        splits |= _published_split(dataset, stem.removesuffix("_1"), file)
    return splits


def _csl(checksums: Mapping[str, str]) -> dict[str, NamedSplit]:
    """The splits of Qiu et al. for GeoQuery: `tmcd_1.json` is called `csl-tmcd-1`."""
    splits: dict[str, NamedSplit] = {}
    for stem, sha256 in checksums.items():
        path = f"geoquery/splits/{stem}.json"
        address = _PUBLISHED_TASKS.format(project="csl", path=path)
        # Both projects call their folder `splits`; ours for these is `splits_csl`.
        file = RemoteFile(f"geoquery/splits_csl/{stem}.json", address, 7_861, sha256)
        name = f"csl-{stem.replace('_', '-')}"
        splits |= _published_split("geoquery", name, file)
    return splits


def _mcd(name: str, sha256: str) -> NamedSplit:
    indices = RemoteFile(
        f"scan/{name}.json", _MCD_ARCHIVE.address, sha256=sha256, archive=_MCD_ARCHIVE
    )
    return NamedSplit(scan.mcd_split, (indices, _SCAN_TASKS))


def _cogs_file(part: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(
        f"cogs/{part}.tsv",
        "https://github.com/frankaging/ReCOGS",
        size,
        sha256,
        by_hand=True,
    )


def load_cogs(*paths: Path) -> list[Example]:
    """The examples of files of COGS, one after the other: sentence, program, kind of
    generalisation.
    """
    examples: list[Example] = []
    for place, line in chain.from_iterable(map(numbered_lines, paths)):
        match line.split("\t"):
            case [sentence, program, kind]:
                examples.append(
                    Example(sentence, program, f"{place.path.stem}-{place.line} {kind}")
                )
            case fields:
                raise FormatError(
                    f"expected a sentence, a program and a kind between tabs, found {len(fields)}",
                    place,
                )
    return examples


def _by_file(
    dataset: str, split: str, rule: str, train: int, test: slice = slice(None)
) -> NamedSplit:
    """The first examples are for training, the others, or the slice `test` of them, to test on."""

    def make(examples: Sequence[Example]) -> Split:
        made_by = {"dataset": dataset, "split": split, "rule": rule}
        return Split(
            train=tuple(range(train)),
            test=tuple(range(train, len(examples))[test]),
            made_by=made_by,
        )

    return NamedSplit(make)


_SHAW = "Shaw et al. 2021, Compositional Generalization and Natural Language Variation (splits)"
_QIU = "Qiu et al. 2022, Improving Compositional Generalization with Latent Structure (splits)"
_SCAN = Entry(
    name="scan",
    about="commands to sequences of actions, generated from the grammar of the paper",
    size=20_910,
    licence="BSD (MCD splits: CC BY 4.0)",
    citation="Lake and Baroni 2018, Generalization without Systematicity; "
    "Loula et al. 2018, Rearranging the Familiar (template splits); "
    "Keysers et al. 2020, Measuring Compositional Generalization (MCD splits)",
    fingerprint="9668868b65b770576d757fd70d8d84a7d9ea02563ae10b348ab00601f7e28bbe",
    convert=scan.scan_examples,
    splits={
        **{name: NamedSplit(rule) for name, rule in scan.RULES.items()},
        "mcd1": _mcd(
            "mcd1", "233b65dc603d4544780c48ac1bfb618336e5107897b61097acc14dbd6ca26a9c"
        ),
        "mcd2": _mcd(
            "mcd2", "1ba591b2c3c1eb305584d49fde14aced3589099611a668ba28bb696f2dd34e0a"
        ),
        "mcd3": _mcd(
            "mcd3", "e8310b62bdf9b35485c761fa8b5479b883a5dcbb09b11e66b350b5e46a7201a4"
        ),
    },
)
_GEO = Entry(
    name="geoquery",
    about="questions about the geography of the United States to FunQL, entities as m0, m1, …",
    size=880,
    licence="GPLv2 (splits: Apache-2.0)",
    citation=f"Zelle and Mooney 1996 (questions); Kate et al. 2005 (FunQL); {_SHAW}; {_QIU}",
    fingerprint="d4deb74e002b2d64a9efb13ba19870d6b25ccbc181fcef2ab4e3bf7f45ed26df",
    convert=load_geoquery,
    files=(_CORPUS, _GEOBASE),
    splits={
        **_published(
            "geoquery",
            "geoquery",
            7_846,
            {
                "standard": "e05d48357694bfa7ce9b9257cc05aa413dc843b483af8b1a462f30cbebe8fbc8",
                "template_1": "7549bcc721ac8102de5a513baab5d3d4f438033a552328ddfe7c0284929ab9e0",
                "length_1": "7908c912927f20f692c3edb102d6bc944652d0345a2f51682f3b7ed703973be4",
                "tmcd_1": "49f83b36d7b9c468b3a98c52356e9d8b337d40c420e982e1e1db40abedea7a9e",
            },
        ),
        **_csl(
            {
                "length": "bfe1ea81769f9f8c424a77e907b6e57b0dfae66482b97a73301f51dc3e07a3b4",
                "template_1": "754c79278ce1beeeab03f6e627e425fe7f1d8977a1f55edaff67396ae4adb795",
                "template_2": "37718b1315afc1aaed9e272f4eae3ff53ee309de29aad02197bed65d9ad999f4",
                "template_3": "ff066cefe85c6d8b08771764650c500ca8b467a5011ba551cab666632d52d8f6",
                "tmcd_1": "ca1612c00ab8de1ea62a5b18bd54dff8255bfb35e33c7c65fd681593fc083955",
                "tmcd_2": "d334725fce0c014551fe47d8d708f266bd6987279f30c99b1ca336413a863b27",
                "tmcd_3": "49793305f646a1cd9993f65e91cdd53292219d4e3285dc6db598093a4049bec6",
            }
        ),
    },
)
_GEO_RAW = replace(
    _GEO,
    name="geoquery-raw",
    about="the same questions as people type them, and programs with their entities; "
    "lists of names beside them",
    fingerprint="f5551bae53dcecca88348bcb45b13dfbb645ade156e555c121384456131355c4",
    convert=load_raw_geoquery,
    beside=raw_geoquery_slots,
)


@dataclass(frozen=True, slots=True)
class SnipsChunk:
    """A part of an utterance; a slot's value if it names the slot as its `entity`."""

    text: str
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class SnipsUtterance:
    """An utterance with marked slots, which as a program is an intent and its slots in the order of
    the words.

    >>> utterance = SnipsUtterance((SnipsChunk("Play "), SnipsChunk("Making Out", "track")))
    >>> utterance.example("PlayMusic", "1").target
    'play_music(track="Making Out")'
    """

    data: tuple[SnipsChunk, ...]

    def example(self, intent: str, example_id: str) -> Example:
        # The sentence is all chunks, the program only those with an entity.
        sentence = "".join(chunk.text for chunk in self.data)
        slots = []
        for chunk in self.data:
            if chunk.entity:
                # Backslashes first, or those before quotation marks would be doubled.
                value = " ".join(chunk.text.split()).replace("\\", "\\\\")
                value = value.replace('"', '\\"')
                slots.append(f'{chunk.entity}="{value}"')
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", intent).lower()
        return Example(
            " ".join(sentence.split()), f"{name}({', '.join(slots)})", example_id
        )


def load_snips(*paths: Path) -> list[Example]:
    """The examples of files of one intent each, one file after the other."""
    examples: list[Example] = []
    for path in paths:
        kind = dict[str, tuple[SnipsUtterance, ...]]
        intents: dict[str, Any] = read_value(
            kind, read_json(path), "the utterances", path
        )
        if len(intents) != 1:
            reason = (
                f"expected the utterances of one intent, found {len(intents)} intents"
            )
            raise FormatError(reason, path)
        for intent, utterances in intents.items():
            for number, utterance in enumerate(utterances):
                examples.append(utterance.example(intent, f"{path.stem}-{number}"))
    return examples


def snips_files(slots: Mapping[str, str]) -> dict[str, str]:
    """A settings file with a table of slots, by default free text, and the lists of names that it
    mentions.
    """
    table = "".join(
        f"{name} = {value or '{ text = 8 }'}\n" for name, value in slots.items()
    )
    files = {"nqg.toml": f"[slots]\n{table}"}
    folder = resources.files("nqg.paper").joinpath("snips")
    for list_name in ("countries.txt", "states.txt"):
        if list_name in table:
            files[list_name] = folder.joinpath(list_name).read_text("utf-8")
    return files


def _snips(intent: str, fingerprint: str, **slots: str) -> Entry:
    """An intent of SNIPS with slots to declare; those that are not described are free text."""
    repository = "https://raw.githubusercontent.com/sonos/nlu-benchmark/master"
    folder = f"{repository}/2017-06-custom-intent-engines/{intent}"
    files = []
    for file, size in ((f"train_{intent}.json", 300), (f"validate_{intent}.json", 100)):
        marks = (b'"data":', size)
        files.append(RemoteFile(f"snips/{file}", f"{folder}/{file}", marks=marks))
    name = f"snips-{intent.lower()}"
    rule = "train: the first file; test: the second"
    return Entry(
        name=name,
        about=f"utterances to an assistant to frames: the intent {intent} with its slots",
        size=400,
        licence="CC0",
        citation="Coucke et al. 2018, Snips Voice Platform",
        fingerprint=fingerprint,
        convert=load_snips,
        files=tuple(files),
        splits={"standard": _by_file(name, "standard", rule, 300)},
        beside=lambda *_: snips_files(slots),
    )


_MUSIC = _snips(
    "PlayMusic",
    "a77b104b783e6ef91b0886da765979acda7fb11e797aba2d076317ebd06c55ce",
    **dict.fromkeys(("artist", "track", "album", "playlist", "genre", "service"), ""),
)
_WEATHER = _snips(
    "GetWeather",
    "7199ca6d2e0464e3af7a70da9e81cb99d0f3b8cbb7d73bb615e55c3e03ad2bd8",
    **{
        **dict.fromkeys(("city", "geographic_poi", "timeRange"), ""),
        "country": '{ gazetteer = "countries.txt" }',
        "state": '{ gazetteer = "states.txt" }',
        "state-code": '{ regex = "[A-Z]{2}" }',
    },
)
_SSP = Entry(
    name="spider-ssp",
    about="questions to SQL, the same databases in train and test "
    "(51 databases of at least 50 examples)",
    size=4_376,
    licence="CC BY-SA 4.0 (splits: Apache-2.0)",
    citation=f"Yu et al. 2018, Spider; {_SHAW}",
    fingerprint="4096e5ab00bd1127013572a63beec4b168df18d5bcd2fb10b8645c7579fe8f03",
    convert=load_spider_ssp,
    files=(_SPIDER_TRAIN,),
    splits=_published(
        "spider-ssp",
        "spider",
        42_686,
        {
            "random_1": "ac4a82f85caf636a65ead8aa452f5224be1b00acb8bf3c1d7012dd62ba5d9b9c",
            "template_1": "3298d6c2b5837520c54636dc539a987c01c82e311e48ef3362367342464aff21",
            "length_1": "af04a2dc29e36f759155b1218c416a6616ffc2d7881ceba0275d236c732ac8b3",
            "tmcd_1": "b6a925fc5227f9ca12422a5ae179c71c70b5e139faa724b948befd229f94e1d8",
        },
    ),
)
_XSP = Entry(
    name="spider-xsp",
    about="questions to SQL, other databases in test than in train (Spider's own split)",
    size=8_034,
    licence="CC BY-SA 4.0",
    citation="Yu et al. 2018, Spider",
    fingerprint="0a5422c6595f02684e01fcc2044ef39890806d473bd99ff89065cb446796e78e",
    convert=lambda train, dev: list(chain(*load_spider_xsp(train, dev))),
    files=(_SPIDER_TRAIN, _SPIDER_DEV),
    splits={
        "standard": _by_file(
            "spider-xsp", "standard", "train: train_spider.json; test: dev.json", 7_000
        )
    },
)
_COGS_TRAIN, _COGS_TEST, _COGS_GEN = 24_155, 3_000, 21_000
_COGS_FILES = (
    _cogs_file(
        "train",
        2_476_525,
        "0d8429b2db4c9fd216ce2a80ca6ee20861f331f9d4ce6086b565dcbde7c2791d",
    ),
    _cogs_file(
        "test",
        310_329,
        "b312353b6f40fcd870dc2c75b70da8ea25bf32134884e9da2c9c98306e17b9d1",
    ),
    _cogs_file(
        "gen",
        3_203_248,
        "ce0be5c1e70139301b7cc77e6b94e7b23af0ae3db921ce935d2524fe68070159",
    ),
)


def _cogs_split(name: str, test: slice) -> NamedSplit:
    rule = f"train: train.tsv; test: {name}.tsv"
    return _by_file("cogs", name, rule, _COGS_TRAIN, test)


_COGS = Entry(
    name="cogs",
    about="English sentences to logical forms without variables; "
    "`gen` has new combinations, of 21 kinds",
    size=_COGS_TRAIN + _COGS_TEST + _COGS_GEN,
    licence="MIT",
    citation="Kim and Linzen 2020, COGS; Qiu et al. 2022 (forms without variables); "
    "Wu et al. 2023, ReCOGS (files)",
    fingerprint="270ed9b3f130dd76e1c9b73af88454b38c2c078c5497118c08d3cae717d0bfd9",
    convert=load_cogs,
    files=_COGS_FILES,
    splits={
        "test": _cogs_split("test", slice(_COGS_TEST)),
        "gen": _cogs_split("gen", slice(_COGS_TEST, None)),
    },
)
CATALOGUE = {
    entry.name: entry
    for entry in (_SCAN, _GEO, _GEO_RAW, _COGS, _SSP, _XSP, _MUSIC, _WEATHER)
}
