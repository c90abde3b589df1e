"""The same work in one process, in two, and on Ray: equal results, in order; a worker that dies is an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pickle import PicklingError

import pytest

from nqg.errors import MissingExtra, NqgError, SettingsError
from nqg.parallel import CHUNKS_AHEAD, Engine, in_chunks
from parallel_tasks import (
    counted,
    dividing,
    doubled,
    killed_at,
    pickling_nothing,
    refusing,
    threads,
    unloadable,
)

TESTS = str(Path(__file__).parent)
TWO = Engine("local", 2)


@pytest.fixture(scope="module")
def on_ray() -> Iterator[Engine]:
    """A Ray of our own with two CPUs, started once: that takes longer than all that is done with it."""
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    path, usage = (
        os.environ.get("PYTHONPATH"),
        os.environ.get("RAY_USAGE_STATS_ENABLED"),
    )
    os.environ["PYTHONPATH"] = TESTS if path is None else f"{TESTS}:{path}"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray

        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            log_to_driver=False,
            logging_level=40,
        )
        yield Engine("ray", 2)
        ray.shutdown()
    for name, value in (("PYTHONPATH", path), ("RAY_USAGE_STATS_ENABLED", usage)):
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(params=["here", "processes", "ray"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "ray":
        return request.getfixturevalue("on_ray")  # type: ignore[no-any-return]
    return Engine() if request.param == "here" else TWO


@pytest.fixture(params=["processes", "ray"])
def workers(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue("on_ray") if request.param == "ray" else TWO


def test_results_come_in_the_order_of_the_chunks_from_jobs_loaded_once_a_worker(
    engine: Engine, tmp_path: Path
) -> None:
    assert list(engine.map(partial(counted, tmp_path), range(40))) == list(
        range(0, 80, 2)
    )
    assert 1 <= len(list(tmp_path.iterdir())) <= 2


def test_no_chunks_no_results(engine: Engine) -> None:
    assert list(engine.map(doubled, [])) == []


def test_on_ray_a_chunk_whose_worker_was_killed_is_begun_again(
    on_ray: Engine, tmp_path: Path
) -> None:
    assert list(on_ray.map(partial(killed_at, tmp_path, 7, 1), range(20))) == list(
        range(0, 40, 2)
    )
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("unlucky", [0, 3, 19])
def test_a_worker_that_is_killed_is_an_error_that_says_so(
    tmp_path: Path, unlucky: int
) -> None:
    results = TWO.map(partial(killed_at, tmp_path, unlucky, 99), range(20))
    with pytest.raises(
        NqgError, match="a worker was killed; where memory ran out, use fewer workers"
    ):
        list(results)


def test_a_chunk_that_kills_every_worker_of_ray_is_an_error(
    on_ray: Engine, tmp_path: Path
) -> None:
    results = on_ray.map(partial(killed_at, tmp_path, 3, 99), range(20))
    assert [next(results) for _ in range(3)] == [0, 2, 4]
    with pytest.raises(
        NqgError,
        match=r"a worker was killed; where memory ran out, use fewer workers \(",
    ):
        next(results)


def test_an_error_that_was_raised_on_purpose_comes_back_in_its_own_words() -> None:
    with pytest.raises(NqgError, match=r"^no number '0'.* Known: none$"):
        list(TWO.map(refusing, range(3)))


def test_a_job_that_cannot_be_loaded_says_why() -> None:
    with pytest.raises(NqgError, match=r"^no model 'mine'"):
        list(TWO.map(unloadable, range(3)))


def test_any_other_error_comes_back_with_its_traceback(workers: Engine) -> None:
    results = workers.map(dividing, range(5))
    assert [next(results), next(results)] == [-0.5, -1.0]
    with pytest.raises(
        NqgError, match=r"(?s)a worker failed:.*parallel_tasks.py.*ZeroDivisionError"
    ):
        next(results)


def test_a_result_that_cannot_be_sent_back_is_an_error() -> None:
    with pytest.raises((AttributeError, PicklingError), match="pickle"):
        list(TWO.map(pickling_nothing, range(3)))


def test_no_more_chunks_are_taken_than_can_be_begun_soon(workers: Engine) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            yield taken
            taken += 1

    results = workers.map(doubled, endless())
    for number in range(30):
        assert next(results) == 2 * number
        assert taken <= number + 1 + CHUNKS_AHEAD * 2
    results.close()  # type: ignore[attr-defined]


def test_the_workers_of_a_machine_share_its_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert list(TWO.map(threads, [0])) == ["3"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert list(TWO.map(threads, [0])) == ["5"]


PROGRAM = """
import signal
from parallel_tasks import counted
from functools import partial
from itertools import count
from pathlib import Path
from nqg.parallel import Engine
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
    for result in Engine("local", 2).map(partial(counted, Path({folder!r})), count()):
        print(result, flush=True)
"""


@pytest.mark.parametrize(
    ("stop", "tracebacks"),
    [(signal.SIGINT, 1), (signal.SIGKILL, 0)],
    ids=["Ctrl-C", "kill"],
)
def test_the_workers_end_with_the_first_process(
    tmp_path: Path, stop: signal.Signals, tracebacks: int
) -> None:
    program = tmp_path / "program.py"
    (folder := tmp_path / "loaded").mkdir()
    program.write_text(PROGRAM.format(folder=str(folder)))
    environment = {
        **os.environ,
        "PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}",
    }
    with subprocess.Popen(
        [sys.executable, str(program)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout
        assert [running.stdout.readline() for _ in range(3)] == ["0\n", "2\n", "4\n"]
        running.send_signal(stop)
        _, complaint = running.communicate(
            timeout=60
        )  # the workers write there too: it ends with the last of them
    assert (
        complaint.count("KeyboardInterrupt")
        == complaint.count("Traceback")
        == tracebacks
    )
    loaded = [int(path.name.removeprefix("loaded-")) for path in folder.iterdir()]
    assert loaded
    for worker in (
        loaded if stop == signal.SIGINT else []
    ):  # what a killed process leaves behind waits for init
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_only_a_local_engine_without_workers_is_serial() -> None:
    assert Engine().is_serial
    assert Engine("local", 1).is_serial
    assert not Engine("local", 3).is_serial
    assert not Engine("ray", 1).is_serial


@pytest.mark.parametrize(
    ("name", "workers", "complaint"),
    [
        ("cloud", None, "no engine 'cloud'; expected local, ray, or"),
        ("local", 0, "workers is 0; expected 1 or more"),
    ],
)
def test_other_engines_are_refused(
    name: str, workers: int | None, complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Engine(name, workers)


def test_without_ray_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="needs the extra 'ray'"):
        list(Engine("ray").map(doubled, [1]))


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (Engine("ray", 3), "Ray has room for 2 workers; 3 were asked for"),
        (Engine("ray", 1, gpus=1), "Ray has room for 0 workers; 1 were asked for"),
        (Engine("ray", gpus=1), "Ray has room for 0 workers; some were asked for"),
    ],
)
def test_more_workers_than_ray_has_room_for_are_refused(
    on_ray: Engine, asked: Engine, complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        list(asked.map(doubled, [1]))


def test_without_a_number_ray_gives_as_many_workers_as_there_is_room_for(
    on_ray: Engine,
) -> None:
    assert list(Engine("ray").map(doubled, range(5))) == [0, 2, 4, 6, 8]


def test_chunks_of_a_stream() -> None:
    assert list(in_chunks(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_chunks([], 2)) == []
