"""Policies of your own, run in the simulator beside the built-in schemes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ._native import Access, Batch as _Columns, Fetched, OptionError

__all__ = ["Access", "Batch", "Fetched", "Policy"]

Wish = tuple[int, int] | tuple[int, int, str]


class Batch:
    """Accesses, a column for each number: views of unsigned integers of 64 bits, which ``numpy.asarray`` takes as they are.

    ``now_ns`` is virtual time, ``process`` who asks, ``first`` the first block of 4 KiB, ``blocks`` how many, ``missing`` how
    many of them had to be fetched.
    """

    __slots__ = ("now_ns", "process", "first", "blocks", "missing")

    def __init__(self, columns: _Columns) -> None:
        for name in self.__slots__:
            setattr(self, name, memoryview(getattr(columns, name)).cast("Q"))

    def __len__(self) -> int:
        return len(self.first)


class Policy:
    """A prefetching policy. Subclass it, fill in ``on_access``, and name the class or an instance among the schemes.

    A hook returns wishes: tuples ``(first block, blocks)`` of blocks of 4 KiB that should be read ahead, or nothing. A third
    part, "with-demand", asks for them in one command with the missing blocks. The engine drops what is here or on its way,
    stays within the file and obeys the budgets. The same accesses must lead to the same wishes: no clock and no randomness of
    your own. Each run has a fresh copy.

    ``layer`` is "host" (the page cache) or "array" (the array's cache). ``batch``, where it is not 0, has ``on_batch`` told of
    so many accesses at once, when the last of them is made, in place of ``on_access``; what is left at the end is not told.

    What a hook raises ends that run, and no other: ``Comparison.failures`` holds it with its traceback.
    """

    name: str = ""
    layer: str = "host"
    batch: int = 0

    def on_access(self, access: Access) -> Iterable[Wish] | None:
        """A read or write reaches the layer, and has not changed the cache yet."""

    def on_fetched(self, fetched: Fetched) -> Iterable[Wish] | None:
        """A fetch has arrived."""

    def on_batch(self, batch: Batch) -> Iterable[Wish] | None:
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

    def on_batch(self, columns: _Columns) -> Iterable[Wish] | None:
        return self._policy.on_batch(Batch(columns))


def given(policy: Policy | type[Policy]) -> Given:
    """A class or an instance as the native part takes it; a copy is made for each run."""
    kind = policy if isinstance(policy, type) else type(policy)
    layer, batch = policy.layer, policy.batch
    if layer not in ("host", "array"):
        raise OptionError(f"{kind.__name__}.layer: {layer!r} is none of host, array")

    def make() -> Any:
        made = policy() if isinstance(policy, type) else copy.deepcopy(policy)
        return _Batched(made) if batch else made

    fetched = kind.on_fetched is not Policy.on_fetched
    return Given(policy.name or kind.__name__, layer, make, batch, fetched)
