"""What is refused before anything is done: values that are no whole numbers, no switches or no paths, and lists of nothing."""

from __future__ import annotations

import operator
import os
from typing import Any

from ._native import OptionError

MOST = 2**64 - 1
"""The greatest number that the native part takes."""


def whole(what: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number in these bounds; no switch, which Python counts among them."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if isinstance(value, bool) or not least <= number <= most:
        bounds = f"of at least {least}" if most == MOST else f"from {least} to {most}"
        raise OptionError(f"{what}: wants a whole number {bounds}, not {value!r}")
    return number


def switch(what: str, value: Any) -> bool:
    """True or False: any other word would be taken for True."""
    if not isinstance(value, bool):
        raise OptionError(f"{what}: wants True or False, not {value!r}")
    return value


def some(what: str, values: list[Any], remedy: str = "give at least one") -> list[Any]:
    """A list that has something in it."""
    if not values:
        raise OptionError(f"{what}: there is none; {remedy}")
    return values


def listed(what: str, values: Any, like: str) -> Any:
    """A list of words: one text would be taken for its letters."""
    if isinstance(values, (str, bytes, os.PathLike)):
        raise OptionError(f"{what}: wants a list, as in {like}, not {values!r}")
    return values
