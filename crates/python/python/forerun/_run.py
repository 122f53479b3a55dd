"""Runs: ``compare``, ``sim`` and ``mrc``, in the words of the command."""

from __future__ import annotations

import difflib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import _native
from ._checks import some, switch, whole
from ._comparison import Comparison
from ._native import OptionError, PolicyError
from ._policy import Given, Policy, given
from ._trace import Trace

Input = str | os.PathLike[str] | Trace
Scheme = str | Policy | type[Policy]


def compare(
    inputs: Input | Iterable[Input],
    schemes: Scheme | Iterable[Scheme] | None = None,
    *,
    array: str | None = None,
    device: Any = None,
    cache: Any = None,
    seeds: Iterable[int] | None = None,
    bounds: bool = True,
    threads: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Runs inputs under schemes on one set of hardware, side by side: what ``forerun compare`` does.

    ``inputs`` are trace files, workloads ("random:size=1GiB,requests=40000") or ``Trace`` objects, one or several. ``schemes``
    are texts as in "asp+msp", or policies of your own; without them a sensible set is run. ``bounds`` adds none, bound,
    oracle and auto. ``array`` is text ("raid5:5x128KiB"), ``device`` a preset, a preset file or a ``Device``, ``cache`` a size
    or several ("64MiB", or bytes), of which each has runs of its own; ``seeds`` runs everything once for each seed.
    ``threads`` is how many runs at a time, 0 for one on each core; it changes no number. ``progress`` shows a bar (tqdm, where
    it is installed), by itself on a terminal and in a notebook. Every other option of ``forerun compare --help`` is a keyword with ``_`` for ``-``:
    ``host_cache="1GiB"``, ``mode="paced"``, ``failed=[1]``, ``skip_bad=True``. What is left out is taken as the command takes it.

    Runs release the interpreter; Ctrl-C ends them. Raises ``TraceError``, ``SchemeError``, ``DeviceError`` or ``OptionError``
    before anything runs; a policy of your own that raises ends its own run (``Comparison.failures``) and warns.
    """
    names, policies = _schemes(schemes)
    said = {"array": array, "device": device, "cache": cache, **options}
    lines = [_words({**said, **seed}) for seed in _seeds(seeds)]
    threads, bounds = whole("threads", threads), switch("bounds", bounds)
    with _bar(progress) as told:
        runs = _native.compare(_inputs(inputs), names, policies, bounds, threads, lines, told)
    for scheme, name, raised in runs.failures:
        warnings.warn(f"{scheme} on {name} raised {raised!r}; see Comparison.failures", RuntimeWarning, stacklevel=2)
    return Comparison(runs)


def sim(input: Input, scheme: Scheme = "none", *, progress: bool | None = None, **options: Any) -> Comparison:
    """One run: what ``forerun sim`` does; ``Comparison.runs[0]`` is its report. Options as in ``compare``, which takes several
    inputs and schemes; here more than one is refused.

    Raises as ``compare``; where a policy of your own raises, ``PolicyError`` with that as its cause.
    """
    names, policies = _schemes(scheme)
    one = _one("input", _inputs(input))
    name = _one("scheme", names)
    policy = policies[0] if policies else None
    with _bar(progress) as told:
        runs = _native.sim(one, name, policy, _words(options), told)
    for name, _, raised in runs.failures:
        raise PolicyError(f"policy {name}: {raised!r}") from raised
    return Comparison(runs)


def mrc(
    trace: Trace | str | os.PathLike[str],
    retention: str | Iterable[str] = "lru",
    *,
    cache_blocks: Any,
    map: str = "concat",
) -> list[dict[str, Any]]:
    """Misses of a trace in caches without a disk or time: what ``forerun mrc`` does.

    ``retention`` names lru, arc, s3fifo, sieve or belady, one or several; ``cache_blocks`` are sizes in blocks of 4 KiB, or text
    with a unit ("10M"). A row for each: ``input``, ``retention``, ``cache_blocks``, ``requests`` and ``misses`` in blocks, …

    Raises ``OptionError`` for a retention or size that cannot be, ``TraceError`` for a file that cannot be read.
    """
    asked = trace._native if isinstance(trace, Trace) else os.fsdecode(trace)
    sizes = [str(size) for size in some("cache_blocks", _several(cache_blocks))]
    return json.loads(_native.mrc(asked, some("retention", _several(retention)), sizes, map))["runs"]


def _several(one_or_more: Any) -> list[Any]:
    """A list, of one where there is one."""
    if isinstance(one_or_more, (str, bytes, os.PathLike, Trace, Policy, type)) or not isinstance(one_or_more, Iterable):
        return [one_or_more]
    return list(one_or_more)


def _one(what: str, values: list[Any]) -> Any:
    """The only one of a list."""
    if len(values) > 1:
        raise OptionError(f"{what}: sim makes one run, and there are {len(values)}; use compare")
    return values[0]


def _inputs(inputs: Any) -> list[Any]:
    """Inputs as the native part takes them."""
    return [_input(one) for one in some("inputs", _several(inputs), "name a trace file, a workload or a Trace")]


def _input(one: Any) -> Any:
    if isinstance(one, Trace):
        return one._native
    try:
        text = os.fsdecode(one)
    except TypeError:
        raise OptionError(f"inputs: {one!r} is neither text, a path nor a forerun.Trace") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        # Reports and specs name an input by text.
        raise OptionError(f"inputs: the path {one!r} is not UTF-8; give what forerun.Trace.open makes of it") from None
    return text


def _schemes(schemes: Any) -> tuple[list[str], list[Given]]:
    names: list[str] = []
    policies: list[Given] = []
    for one in [] if schemes is None else some("schemes", _several(schemes)):
        if isinstance(one, str):
            names.append(one)
        elif isinstance(one, Policy) or (isinstance(one, type) and issubclass(one, Policy)):
            policies.append(given(one))
            names.append(policies[-1].name)
        else:
            raise OptionError(f"schemes: {one!r} is neither text nor a forerun.Policy")
    known = {scheme["name"] for scheme in json.loads(_native.schemes())["schemes"]}
    own = [policy.name for policy in policies]
    for name in own:
        if name in known or own.count(name) > 1:
            raise OptionError(f"schemes: there are two called {name!r}; give your policy another name")
    return names, policies


def _seeds(seeds: Iterable[int] | None) -> list[Mapping[str, Any]]:
    if seeds is None:
        return [{}]
    if not isinstance(seeds, Iterable):
        raise OptionError(f"seeds: wants a list, as in [1, 2, 3], not {seeds!r}")
    return [{"seed": whole("seeds", seed)} for seed in seeds]


_OPTIONS = dict(_native.options())


def _words(said: Mapping[str, Any]) -> list[str]:
    """Keywords as the command's words."""
    words: list[str] = []
    for name, value in said.items():
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(sorted(_OPTIONS))
            raise OptionError(f"no option is called {name!r}; {hint}")
        option = "--" + name.replace("_", "-")
        if value is None:
            continue
        if _OPTIONS[name]:
            words += [option] if switch(name, value) else []
        elif isinstance(value, bool):
            words.append(f"{option}={'on' if value else 'off'}")
        else:
            words.append(option + "=" + ",".join(str(one) for one in _several(value)))
    return words


def _in_notebook() -> bool:
    """What is written goes to a page: IPython runs in a kernel, whose stderr is no terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


@contextmanager
def _bar(progress: bool | None) -> Iterator[Callable[[int, int, float], None] | None]:
    """What is told how far the runs are; nobody where no bar is wanted, or tqdm is not installed."""
    shown = (sys.stderr.isatty() or _in_notebook()) if progress is None else progress
    if not shown:
        yield None
        return
    try:
        with warnings.catch_warnings():
            # A notebook without widgets gets the bar as text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit="run", bar_format="{l_bar}{bar}| {n:.1f}/{total} runs [{elapsed}<{remaining}]", leave=False) as bar:

        def told(ended: int, all: int, under_way: float) -> None:
            if all:
                bar.total = all
            bar.n = ended + under_way
            bar.refresh()

        yield told
