"""Whatever bytes a reader is given, it gives a value or one of our errors, soon, and leaves nothing behind."""

from __future__ import annotations

import random
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import corpus
from fuzz.http_readers import HTTP_READERS
from fuzz.model_readers import MODEL_READERS
from fuzz.mutations import WORDS, damaged
from fuzz.readers import READERS, Reader
from fuzz.tool_readers import TOOL_READERS
from nqg.errors import NqgError

ALL = {**READERS, **TOOL_READERS, **MODEL_READERS, **HTTP_READERS}
SECONDS = 20
SLOW = ("model", "seq2seq")

randoms = st.integers(0, 2**32).map(random.Random)


def bad_files(name: str, reader: Reader) -> st.SearchStrategy[bytes]:
    """Bytes, text and damaged files, some of them of the stored corpus."""
    seeds = st.sampled_from((*reader.seeds(), *corpus.stored(name)))
    return st.one_of(
        st.builds(damaged, seeds, seeds, randoms),
        st.builds(damaged, seeds, seeds, randoms),
        st.binary(max_size=200),
        st.text(max_size=100).map(lambda text: text.encode(errors="surrogatepass")),
        st.lists(st.sampled_from(WORDS), max_size=8).map(b" ".join),
    )


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"a reader took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def files_in(folder: Path) -> set[Path]:
    return {
        path
        for path in folder.rglob("*")
        if path.name not in ("again.jsonl", "mcd1.json")
    }


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    reader: Reader = ALL[request.getfixturevalue("name")]
    reader.around(tmp_path)
    (tmp_path / reader.file).write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize("name", ALL)
def test_the_files_that_are_damaged_here_are_read_while_they_are_whole(
    name: str, folder: Path
) -> None:
    for seed in ALL[name].seeds():
        ALL[name](seed, folder)


@pytest.mark.parametrize("name", ALL)
def test_what_was_refused_before_is_read_or_refused(name: str, folder: Path) -> None:
    for case in corpus.stored(name):
        with time_limit(), warnings.catch_warnings(), suppress(NqgError):
            warnings.simplefilter("ignore")
            ALL[name](case, folder)


@pytest.mark.parametrize("name", ALL)
def test_a_reader_gives_a_value_or_our_own_error_whatever_it_reads(
    name: str, folder: Path
) -> None:
    reader, before = ALL[name], files_in(folder)

    @settings(
        max_examples=30 if name.startswith(SLOW) else 200,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(bad_files(name, reader))
    def check(case: bytes) -> None:
        with time_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that read models
            with suppress(NqgError):
                reader(case, folder)
        assert files_in(folder) == before

    check()
