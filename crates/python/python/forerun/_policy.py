"""Policies of your own, run in the simulator beside the built-in schemes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import _native
from ._checks import whole
from ._columns import column
from ._native import Access, Batch as _Columns, Fetched, OptionError

__all__ = ["Access", "Batch", "Fetched", "Policy", "Wishes"]

Wish = tuple[int, int] | tuple[int, int, str]
"""First block, how many, and "ahead" or "with-demand"."""


class Batch:
    """Accesses, a column for each number: views of unsigned integers of 64 bits, which ``numpy.asarray`` takes as they are.

    ``now_ns`` is virtual time, ``process`` who asks, ``first`` the first block of 4 KiB, ``blocks`` how many, ``missing`` how
    many of them had to be fetched.
    """

    __slots__ = ("now_ns", "process", "first", "blocks", "missing")

    now_ns: memoryview
    process: memoryview
    first: memoryview
    blocks: memoryview
    missing: memoryview

    def __init__(self, columns: _Columns) -> None:
        for name in self.__slots__:
            setattr(self, name, memoryview(getattr(columns, name)).cast("Q"))

    def __len__(self) -> int:
        return len(self.first)


class Wishes:
    """Wishes as columns, for ``on_batch``: ``first`` blocks and how many ``blocks`` of 4 KiB, numpy arrays or any sequences of whole
    numbers; all of them "ahead" or "with-demand". At most 65,536 wait; what comes beyond is dropped.
    """

    __slots__ = ("native",)

    native: _native.Wishes

    def __init__(self, first: Any, blocks: Any, when: str = "ahead") -> None:
        self.native = _native.Wishes(column("first", first), column("blocks", blocks), when)

    def __len__(self) -> int:
        return len(self.native)


class Policy:
    """A prefetching policy. Subclass it, fill in ``on_access``, and name the class or an instance among the schemes.

    A hook returns wishes: tuples ``(first block, blocks)`` of blocks of 4 KiB that should be read ahead, or nothing. A third
    part, "with-demand", asks for them in one command with the missing blocks. The engine drops what is here or on its way,
    stays within the file and obeys the budgets. The same accesses must lead to the same wishes: no clock and no randomness of
    your own. Each run has a fresh copy.

    ``layer`` is "host" (the page cache) or "array" (the array's cache). ``batch``, where it is not 0, has ``on_batch`` told of
    so many accesses at once, when the last of them is made, in place of ``on_access``; what is left at the end is not told. Its
    wishes may be ``Wishes``, made of arrays.

    What a hook raises ends that run, and no other: ``Comparison.failures`` holds it with its traceback. What is no ``Exception``
    (``KeyboardInterrupt``, ``SystemExit``) ends all, and the call raises it.
    """

    name: str = ""
    layer: str = "host"
    batch: int = 0

    def on_access(self, access: Access) -> Iterable[Wish] | None:
        """A read or write reaches the layer, and has not changed the cache yet."""

    def on_fetched(self, fetched: Fetched) -> Iterable[Wish] | None:
        """A fetch has arrived."""

    def on_batch(self, batch: Batch) -> Wishes | Iterable[Wish] | None:
        """``self.batch`` accesses have reached the layer."""


class Given(NamedTuple):
    """A policy as the native part takes it."""

    name: str
    layer: str
    make: Callable[[], Any]
    batch: int
    fetched: bool


class _Batched:
    """Gives a policy's batches their views."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.on_fetched = policy.on_fetched

    def on_batch(self, columns: _Columns) -> _native.Wishes | Iterable[Wish] | None:
        wishes = self._policy.on_batch(Batch(columns))
        return wishes.native if isinstance(wishes, Wishes) else wishes


def _has(policy: Policy | type[Policy], hook: str) -> bool:
    """Whether it fills in a hook, by its class or by itself."""
    own = getattr(policy, hook)
    return getattr(own, "__func__", own) is not getattr(Policy, hook)


def _hears(policy: Policy | type[Policy], name: str, batch: int) -> None:
    """Refuses a policy that no hook would be called of: it would run as none does."""
    if batch and not _has(policy, "on_batch"):
        raise OptionError(f"{name}: has batch = {batch} and no on_batch, which is told of batches")
    if not batch and not _has(policy, "on_access") and not _has(policy, "on_fetched"):
        remedy = "give it batch = N" if _has(policy, "on_batch") else "fill in on_access, on_fetched, or on_batch with batch = N"
        raise OptionError(f"{name}: has no hook that is called; {remedy}")


def given(policy: Policy | type[Policy]) -> Given:
    """A class or an instance as the native part takes it; a copy is made for each run."""
    kind = policy if isinstance(policy, type) else type(policy)
    layer, batch = policy.layer, whole(f"{kind.__name__}.batch", policy.batch)
    if layer not in ("host", "array"):
        raise OptionError(f"{kind.__name__}.layer: {layer!r} is none of host, array")
    _hears(policy, kind.__name__, batch)

    def make() -> Any:
        made = policy() if isinstance(policy, type) else copy.deepcopy(policy)
        return _Batched(made) if batch else made

    fetched = _has(policy, "on_fetched")
    return Given(policy.name or kind.__name__, layer, make, batch, fetched)
