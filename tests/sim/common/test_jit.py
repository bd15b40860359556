"""Inner functions: compiled into kernels, plain Python outside."""

from __future__ import annotations

from tamis.jit import inner, kernel


@inner
def doubled(x: float) -> float:
    return 2.0 * x


@kernel
def doubled_twice(x: float) -> float:
    return doubled(doubled(x)) + doubled(1)


def test_inner_functions_run_in_kernels_and_in_python() -> None:
    assert doubled(1.5) == 3.0 and not hasattr(doubled, "py_func")
    assert doubled_twice(1.5) == 8.0
