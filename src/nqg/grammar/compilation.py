"""Kernels: functions over arrays that run as plain Python, or as machine code made by Numba.

A sentence takes plain Python some milliseconds. Numba takes half a second to load, and many seconds
to compile what its cache does not hold. So kernels run as plain Python until they have taken
`PLAIN_SECONDS` of this process, or `UNCACHED_SECONDS` where they would have to be compiled first, or
until somebody who knows that there is much to do calls `compile_kernels`. Where Numba is not
installed, they stay plain. Both ways give the same bytes (`tests/grammar/test_compilation.py`), so
nothing depends on the choice but time.

Compiled kernels release the GIL, so threads run them side by side. Numba's disk cache notices a
change in a kernel's own file but not in the file of a kernel that it calls: after editing one,
remove the `__pycache__` folders (`make clean`) if results look stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., object])

# CPU time of plain kernels after which Numba is loaded: about what it takes to load. Where its cache
# does not hold them, they go on for about as long as it takes to compile them.
# docs/performance.md ("Kernels") has the figures.
PLAIN_SECONDS = 1.0
UNCACHED_SECONDS = 12.0
# A call of a plain kernel cannot be stopped. With so many examples the first may take longer than
# compilation: 15 ms each where free text can stand nearly anywhere.
MANY_EXAMPLES = 1000


class Kernel:
    """A function with two forms: `plain` calls other kernels as plain Python, `compiled` as
    machine code.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        by_element: bool = False,
    ) -> None:
        self.function = cast(FunctionType, function)
        self.options = options
        self.by_element = by_element
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        if _state.is_due(self):
            return self.compiled(*arguments)
        started = time.thread_time()
        if self.by_element:
            arguments = tuple(map(element_view, arguments))
        result = self.plain(*arguments)
        _state.plain_seconds += time.thread_time() - started
        return result

    @cached_property
    def plain(self) -> Callable[..., Any]:
        return self._calling(lambda kernel: kernel.plain)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        import numba

        function = self._calling(lambda kernel: kernel.compiled)
        return cast(Callable[..., Any], numba.njit(**self.options)(function))

    def is_cached(self) -> bool:
        """Whether Numba's cache holds machine code of the kernel that is newer than its source."""
        source = Path(self.function.__code__.co_filename)
        folder = Path(self.compiled.stats.cache_path)  # type: ignore[attr-defined]
        changed = source.stat().st_mtime
        indexes = folder.glob(f"{source.stem}.{self.function.__qualname__}-*.nbi")
        return any(index.stat().st_mtime >= changed for index in indexes)

    def _calling(self, form: Callable[[Kernel], Callable[..., Any]]) -> FunctionType:
        """The function as if the kernels that it names had one form alone."""
        function = self.function
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = form(names[name])
        copy = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__
        )
        copy.__qualname__ = function.__qualname__
        copy.__module__ = function.__module__
        return copy


class InlinedKernel(Kernel):
    """A kernel for other kernels; called from Python, it runs as plain Python.

    It is compiled once for all widths of integers, constants among them. Numba would compile it
    again for each combination of them that a call has.
    """

    def __call__(self, *arguments: Any) -> Any:
        return self.plain(*arguments)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        import numba

        types: Any = numba.types
        dispatcher: Any = super().compiled
        template_for = dispatcher.get_call_template

        def widened(argument: Any) -> Any:
            argument = types.unliteral(argument)
            return types.int64 if isinstance(argument, types.Integer) else argument

        def template_of_widened(arguments: tuple[Any, ...], named: Any) -> Any:
            return template_for(tuple(map(widened, arguments)), named)

        dispatcher.get_call_template = template_of_widened
        return cast(Callable[..., Any], dispatcher)


def element_view(argument: Any) -> Any:
    """An argument with memoryviews for arrays, also in named tuples: Python reads their elements
    two to three times as fast.
    """
    if isinstance(argument, np.ndarray):
        return memoryview(argument)  # type: ignore[arg-type]
    if isinstance(argument, tuple):
        return type(argument)._make(map(element_view, argument))  # type: ignore[attr-defined]
    return argument


class _State:
    """Whether kernels are compiled, and how much time plain ones have taken so far."""

    def __init__(self) -> None:
        self.is_compiled = False
        self.is_fixed = find_spec("numba") is None
        self.plain_seconds = 0.0
        self.most_seconds = PLAIN_SECONDS

    def is_due(self, kernel: Kernel) -> bool:
        """Whether a kernel, which is called now, runs as machine code."""
        if self.is_fixed or self.is_compiled or self.plain_seconds <= self.most_seconds:
            return self.is_compiled
        if self.plain_seconds > UNCACHED_SECONDS or kernel.is_cached():
            self.is_compiled = True
        else:
            self.most_seconds = UNCACHED_SECONDS
        return self.is_compiled


_state = _State()


def compile_kernels(examples: int = MANY_EXAMPLES) -> None:
    """Run kernels as machine code from now on, where Numba is installed: there is much to do.

    With few examples only where they need not be compiled first.
    """
    if _state.is_fixed:
        return
    if examples >= MANY_EXAMPLES:
        _state.is_compiled = True
    else:
        _state.most_seconds = -1.0


def are_compiled() -> bool:
    """Whether kernels run as machine code by now."""
    return _state.is_compiled


@contextmanager
def kernels_in_one_form(*, compiled: bool) -> Iterator[None]:
    """All kernels compiled, or all plain, for the block: for tests and measurements."""
    before = _state.is_compiled, _state.is_fixed
    _state.is_compiled, _state.is_fixed = compiled, True
    try:
        yield
    finally:
        _state.is_compiled, _state.is_fixed = before


def kernel(function: Function) -> Function:
    """A function that Numba compiles where it pays; machine code is cached on disk."""
    return cast(Function, Kernel(function, {"cache": True, "nogil": True}))


def unmanaged_kernel(function: Function) -> Function:
    """Like `kernel`, for functions that allocate nothing: Numba counts no references.

    A function that does allocate is refused when it is compiled, so nothing can leak. Its arrays
    are read and written element by element, because as plain Python it sees memoryviews.
    """
    # _nrt is not among the options that Numba documents; with the counting, forests take 10 to 25
    # times as long.
    options = {"cache": True, "nogil": True, "_nrt": False}
    return cast(Function, Kernel(function, options, by_element=True))


def inlined(function: Function) -> Function:
    """A kernel that allocates nothing and is set into the compiled kernels that call it.

    Handing over a dozen arrays costs more than most calls. LLVM sets it in: where Numba does, with
    `inline="always"`, compilation takes nearly twice as long.
    """
    options = {
        "nogil": True,
        "_nrt": False,
        "forceinline": True,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }
    return cast(Function, InlinedKernel(function, options))
