"""Columns as the native part takes them: buffers of unsigned integers of 64 bits."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from ._native import OptionError

_WRITES = {"R": 0, "r": 0, b"R": 0, b"r": 0, 0: 0, "W": 1, "w": 1, b"W": 1, b"w": 1, 1: 1}
"""Whether an operation writes; ``True`` and ``False`` are 1 and 0 to a dictionary."""


def column(what: str, numbers: Any) -> Any:
    """A buffer of unsigned integers of 64 bits: the column itself where it is one."""
    numbers = _plain(numbers)
    try:
        view = memoryview(numbers)
    except (TypeError, ValueError):  # numpy has types that no buffer has
        view = None
    if view is not None and view.ndim != 1:
        raise OptionError(f"{what}: wants a column, of one dimension, and this has {view.ndim}")
    if view is not None and view.format in ("Q", "L") and view.itemsize == 8 and view.c_contiguous:
        return numbers
    if not isinstance(numbers, Iterable) or isinstance(numbers, (str, bytes, bytearray)):
        raise OptionError(f"{what}: wants a column of whole numbers from 0, not {_said(numbers)}")
    try:
        if hasattr(numbers, "astype") and numbers.dtype.kind != "O":  # numpy, without a loop in Python
            return _converted(what, numbers)
        return array("Q", numbers)
    except (TypeError, OverflowError) as problem:
        raise OptionError(f"{what}: wants whole numbers from 0 ({problem})") from None


def writes(op: Any) -> array[int]:
    """1 for each request that writes, 0 for each that reads."""
    op = _plain(op)
    if not isinstance(op, Iterable):
        raise OptionError(f"op: wants a column of operations, not {_said(op)}")
    column = array("Q")
    for row, one in enumerate(op):
        try:
            column.append(_WRITES[one])
        except (KeyError, TypeError):
            raise OptionError(f'op: {one!r} in row {row} is none of "R", "W", 0, 1') from None
    return column


def _plain(values: Any) -> Any:
    """Numpy's array of what knows how to be one: columns of pandas, polars and pyarrow are no buffers themselves."""
    if not hasattr(values, "__array__"):
        return values
    import numpy

    return numpy.asarray(values)


def _converted(what: str, numbers: Any) -> Any:
    kind = numbers.dtype.kind
    if kind in "Mm":
        moment = "datetime64[ns]" if kind == "M" else "timedelta64[ns]"
        remedy = f"column.astype({moment!r}).astype('int64') gives them" + (", from 1970 on: take the first off" if kind == "M" else "")
        raise OptionError(f"{what}: wants nanoseconds as whole numbers from 0, not {numbers.dtype} ({remedy})")
    if kind not in "iub" or (numbers.size and int(numbers.min()) < 0):
        raise OptionError(f"{what}: wants whole numbers from 0, not {numbers.dtype}")
    return numbers.astype("u8")


def _said(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, (int, float)) else type(value).__name__
