"""Six numbers at once: the rows of 6x6 blocks and of body velocities as one value in vector registers.

A rigid body has six velocities, and contact solvers work on rows of six: products of 6x6 blocks, an impulse pushed
to a body. Written number by number they take one instruction each, for Numba does not join scalar operations (see
``jit.py``), and its vectorised loops pay from some dozens of numbers on. `Six` is a type of compiled code that LLVM
holds in vector registers, of whatever width the machine has: `six` reads one from an array, `put` writes it, and
``+``, ``-`` and ``*`` act number by number, with another one or (``*``) with a plain number before it. Every operation
is rounded as it would be alone and none are fused, so results have the same bits as loops have. In Python a `Six` is an
array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numpy.typing import NDArray

Six = NDArray[np.float64]
_VECTOR = ir.VectorType(ir.DoubleType(), 6)
_INDEX = ir.IntType(32)
_known: Any = infer_global
_lowered: Any = lower_builtin
_signature: Any = signature
_pointer: Any = cgutils.get_item_pointer


class _SixType(types.Type):
    """The type of six numbers in compiled code."""


_six = _SixType("six")


@register_model(_SixType)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


def six(array: NDArray[np.float64], i: int, j: int = 0, k: int = 0) -> Six:
    """Return the six numbers of an array that begin at an index; indices that are left out are zero."""
    first = np.ravel_multi_index((i, j, k)[: array.ndim], array.shape)
    return array.reshape(-1)[first : first + 6].copy()


def put(values: Six, array: NDArray[np.float64], i: int, j: int = 0, k: int = 0) -> None:
    """Write six numbers into an array, from an index on; indices that are left out are zero."""
    first = np.ravel_multi_index((i, j, k)[: array.ndim], array.shape)
    array.reshape(-1)[first : first + 6] = values


def total(start: float, values: Six) -> float:
    """Add six numbers to another one, in their order."""
    for k in range(6):
        start += values[k]
    return start


def _of(function: Callable[..., Any], returns: Any, accepts: Callable[..., bool]) -> None:
    """Say of what types a function takes its arguments, and what it returns."""

    class Template(AbstractTemplate):
        key = function

        def generic(self, given: Any, named: Any) -> Any:
            return _signature(returns, *given) if accepts(*given) else None

    _known(function)(Template)


def _is_six(kind: Any) -> bool:
    return isinstance(kind, _SixType)


def _is_array(kind: Any, *at: Any) -> bool:
    rows = isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64
    return rows and len(at) <= kind.ndim <= 3


def _both(one: Any, other: Any) -> bool:
    return _is_six(one) and _is_six(other)


def _scales(one: Any, other: Any) -> bool:
    return one == types.float64 and _is_six(other)


_of(six, _six, _is_array)
_of(put, types.void, lambda values, *place: _is_six(values) and _is_array(*place))
_of(total, types.float64, _scales)
_of(operator.getitem, types.float64, lambda values, k: _is_six(values) and isinstance(k, types.Integer))
_of(operator.add, _six, _both)
_of(operator.sub, _six, _both)
_of(operator.mul, _six, lambda one, other: _both(one, other) or _scales(one, other))


def _place(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """Return the address of six numbers of an array, from the indices after it."""
    given = [context.cast(builder, k, kind, types.intp) for k, kind in zip(args[1:], kinds[1:], strict=True)]
    zeros = [context.get_constant(types.intp, 0)] * (kinds[0].ndim - len(given))
    array = context.make_array(kinds[0])(context, builder, args[0])
    first = _pointer(context, builder, kinds[0], array, [*given, *zeros], wraparound=False)
    return builder.bitcast(first, _VECTOR.as_pointer())


def _load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.load(_place(context, builder, signature.args, args), align=8)


def _store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.store(args[0], _place(context, builder, signature.args[1:], args[1:]), align=8)
    return context.get_dummy_value()


def _add_up(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    start, values = args
    for k in range(6):
        start = builder.fadd(start, builder.extract_element(values, _INDEX(k)))
    return start


def _take(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_element(*args)


def _plus(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fadd(*args)


def _minus(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fsub(*args)


def _times(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fmul(*args)


def _scaled(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], _INDEX(0))
    alike = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INDEX, 6), [0] * 6))
    return builder.fmul(alike, args[1])


for _at in ((types.Integer,) * n for n in (1, 2, 3)):
    _lowered(six, types.Array, *_at)(_load)
    _lowered(put, _SixType, types.Array, *_at)(_store)
_lowered(total, types.float64, _SixType)(_add_up)
_lowered(operator.getitem, _SixType, types.Integer)(_take)
_lowered(operator.add, _SixType, _SixType)(_plus)
_lowered(operator.sub, _SixType, _SixType)(_minus)
_lowered(operator.mul, _SixType, _SixType)(_times)
_lowered(operator.mul, types.float64, _SixType)(_scaled)
