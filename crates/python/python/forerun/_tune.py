"""Values for a scheme's parameters: searched for by Optuna, and judged on parts of the input that the search has not seen."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _native
from ._checks import listed, some, switch, whole
from ._native import OptionError
from ._run import Input, _inputs, _several, _words
from ._trace import Trace

if TYPE_CHECKING:
    import optuna

Space = Mapping[str, "tuple[int | str, int | str] | Sequence[int | str]"]
"""Of each parameter the least and the greatest value as a tuple, or the values that there are as a list."""

THROUGHPUT = "throughput_bytes_per_s"
_REACH = 16
"""How far from its default a parameter is tried that has no bounds: from a sixteenth to sixteen times."""
_SEED_MOST = 2**32 - 1
"""Optuna's seeds have 32 bits."""
_CHECKS = (1 / 8, 1 / 4, 1 / 2)
"""Shares of a run's requests at which it is judged."""
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(KiB|MiB|GiB|ns|us|ms|s)?")


@dataclass(frozen=True)
class Part:
    """A part of the input, what was chosen on the others, and what that gains here: 1.1 is a tenth better than the defaults."""

    name: str
    scheme: str
    gain: float


@dataclass(frozen=True)
class Tuned:
    """What a search found. ``print`` says it in a few lines.

    ``scheme`` is the best over all parts, as text that every command takes, and ``gain`` how much better it is there than the
    scheme with its defaults. It was chosen for that, so it flatters: ``parts`` has, for each part, what the search chose
    without seeing it and what that gained on it, and ``held_out`` their geometric mean. ``study`` is Optuna's.
    """

    given: str
    scheme: str
    gain: float
    parts: list[Part]
    study: optuna.Study = field(repr=False)
    pruned: int

    @property
    def held_out(self) -> float:
        """What parts gained that the search had not seen, on the geometric mean; 1.0 is nothing."""
        return _mean([part.gain for part in self.parts])

    @property
    def pays(self) -> bool:
        """Whether the parts that the search had not seen gained on the whole, and none of them lost more than 2%."""
        return self.held_out > 1.0 and min(part.gain for part in self.parts) >= 0.98

    def __str__(self) -> str:
        lines = [f"{self.scheme}: {self.gain:.3f} × {self.given} on all parts, for which it was chosen"]
        lines += [f"  {part.gain:.3f} ×  on {part.name}, with {part.scheme} of the other parts" for part in self.parts]
        verdict = "it pays" if self.pays else f"leave {self.given} as it is"
        lines.append(f"On parts that it was not chosen for: {self.held_out:.3f} ×, so {verdict}.")
        return "\n".join(lines) + "\n"


def tune(
    inputs: Input | Iterable[Input],
    scheme: str,
    parameters: Space | Iterable[str] | None = None,
    *,
    trials: int = 30,
    parts: int = 3,
    metric: str = THROUGHPUT,
    prune: bool = True,
    storage: str | os.PathLike[str] | optuna.storages.BaseStorage | None = None,
    name: str | None = None,
    seed: int = 1,
    **options: Any,
) -> Tuned:
    """Searches values of a scheme's parameters, and judges them where the search has not looked. Needs Optuna (``forerun[tune]``).

    ``inputs`` are what to tune on, as of ``compare``. Several are judged on one another; one trace is cut into ``parts`` of as many
    requests each, one workload runs with the seeds 1 to ``parts``. For each part a search of ``trials`` sees the others only, and
    what it chooses runs on that part (cross-validation); one more search sees all. ``parameters`` names those to search,
    with a range as a tuple (``{"threshold": (4, 256)}``) or values as a list (``{"cost": ["on", "off"]}``); a name alone, or nothing for
    all of the scheme's, is tried within its bounds, or from a sixteenth of its default to sixteen times it. In
    "asp+msp" all parts' parameters count, and those that the text gives stay.

    ``metric`` is a number of a run's report: ``throughput_bytes_per_s`` is to grow, anything else (``latency_ns.p99``) to shrink. With
    ``prune`` a run whose virtual time is already far behind those before it ends early; that needs throughput.
    ``storage`` is a file that keeps the studies, for others and to go on later, or a storage of Optuna's; ``name`` tells studies in
    one storage apart. ``options`` are those of ``sim``. One seed gives one result.

    Raises ``OptionError`` for parameters that the scheme does not have, and what ``sim`` raises.
    """
    trials, seed, prune = whole("trials", trials, 1), whole("seed", seed, most=_SEED_MOST), switch("prune", prune)
    parts = whole("parts", parts, 2)  # of one nothing is held out
    parameters = listed("parameters", parameters, '["cost", "cull"]')
    found = _parameters(scheme, parameters)
    given = {key: value for key, value in options.items() if value is not None}
    bench = _Bench(_parts(inputs, parts), scheme, metric, prune, given)
    studies = _Studies(storage, name or f"{scheme} by {metric}", seed)
    judged: list[Part] = []
    pruned = 0
    for out, (label, _, _) in enumerate(bench.parts):
        seen = [number for number in range(len(bench.parts)) if number != out]
        study = studies.search(f"without {label}", bench, seen, found, trials)
        chosen, _ = _chosen(study, scheme)
        judged.append(Part(label, chosen, bench.gain(out, chosen)))
        pruned += _pruned(study)
    study = studies.search("on all", bench, range(len(bench.parts)), found, trials)
    best, gain = _chosen(study, scheme)
    return Tuned(scheme, best, gain, judged, study, pruned + _pruned(study))


def _chosen(study: optuna.Study, scheme: str) -> tuple[str, float]:
    """The best of a study and its gain: the scheme as it was given where nothing beat it."""
    ended = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    best = max(ended, key=lambda trial: trial.value or 0.0, default=None)
    if best is None or not best.value or best.value <= 1.0:
        return scheme, 1.0
    return best.user_attrs["scheme"], best.value


def _pruned(study: optuna.Study) -> int:
    return sum(trial.state.name == "PRUNED" for trial in study.trials)


def _mean(gains: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, gains)) / len(gains))


@dataclass(frozen=True)
class _Parameter:
    """A parameter of the scheme: which word of the text it belongs to, and what may be tried."""

    key: str
    word: int
    name: str
    default: str
    choices: list[str]
    least: int = 0
    most: int = 0
    step: str = ""
    """``2x`` for powers of two times ``least``, written with ``unit``; empty where there are choices."""
    unit: str = ""

    def suggested(self, trial: optuna.Trial) -> None:
        if self.choices:
            trial.suggest_categorical(self.key, self.choices)
        else:
            trial.suggest_int(self.key, self.least, self.most, log=self.least > 0 and self.most > 4 * self.least)

    def text(self, value: int | str) -> str:
        return f"{value}{self.unit}"


def _split(scheme: str) -> list[str]:
    """The words between the pluses outside of parentheses."""
    words, depth = [""], 0
    for letter in scheme:
        depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def _parameters(scheme: str, wanted: Space | Iterable[str] | None) -> list[_Parameter]:
    """What is to be searched; each parameter once, by name, with its scheme's name before it where two have the same."""
    rows: dict[str, list[dict[str, Any]]] = {
        row["name"]: row["parameters"] for row in json.loads(_native.schemes())["schemes"]
    }
    there: list[tuple[str, int, dict[str, Any]]] = []
    for number, word in enumerate(_split(scheme)):
        own, _, rest = word.partition("(")
        taken = set(re.findall(r"[(,](\w+)=", "(" + rest)) if ":" not in word else {row["name"] for row in rows.get(own.split(":")[0], [])}
        there += [(own, number, row) for row in rows.get(own, []) if row["name"] not in taken]
    names = [row["name"] for _, _, row in there]
    keyed = {
        (row["name"] if names.count(row["name"]) == 1 else f"{own}.{row['name']}"): (number, row) for own, number, row in there
    }
    space: dict[str, Any] = (
        dict.fromkeys(keyed) if wanted is None else dict(wanted) if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
    )
    if not space:
        raise OptionError(f"parameters: {scheme} has none that the text does not give")
    for key in space:
        if key not in keyed:
            raise OptionError(f"parameters: {scheme} has no {key!r} that the text does not give; there are: {', '.join(keyed)}")
    return [_parameter(key, *keyed[key], values) for key, values in space.items()]


def _parameter(key: str, word: int, row: Mapping[str, Any], values: Any) -> _Parameter:
    name, default, bounds = row["name"], row["default"], row.get("bounds")
    made = lambda **what: _Parameter(key, word, name, default, **what)  # noqa: E731
    if isinstance(values, list):
        return made(choices=[str(value) for value in values])
    if row["unit"] == "on|off":
        return made(choices=["on", "off"])
    if values is None and default == "auto":
        return made(choices=["auto", *_usual(row["unit"])])
    if isinstance(values, tuple) and len(values) == 2:
        least, most = (_number(key, str(value)) for value in values)
    elif values is None:
        usual = _number(key, default)
        least, most = (_number(key, bound) for bound in bounds) if bounds else (max(usual // _REACH, 1), usual * _REACH)
    else:
        raise OptionError(f"parameters: {key} wants (least, greatest) or a list of values, not {values!r}")
    if row["unit"].startswith("bytes"):
        # Sizes in powers of two: what lies between makes no difference that a search could see.
        least = max(least, 4096)
        return made(choices=[f"{4096 << n >> 10}KiB" for n in range(40) if least <= 4096 << n <= most])
    return made(choices=[], least=least, most=most, unit="ns" if row["unit"].startswith("a time") else "")


def _usual(unit: str) -> list[str]:
    """What to try beside ``auto``."""
    if unit.startswith("%"):
        return ["5%", "10%", "20%", "40%", "80%"]
    if unit.startswith("bytes"):
        return [f"{64 << n}KiB" for n in range(0, 8, 2)]
    if unit.startswith("a time"):
        return ["1ms", "4ms", "16ms", "64ms", "256ms"]
    return [str(4**n) for n in range(1, 6)]


def _number(key: str, text: str) -> int:
    match = _NUMBER.fullmatch(text.rstrip("%"))
    if match is None:
        raise OptionError(f"parameters: {key} wants numbers, sizes or times, not {text!r}")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _written(scheme: str, parameters: Iterable[_Parameter], values: Mapping[str, int | str]) -> str:
    """The scheme's text with these values."""
    words = _split(scheme)
    for parameter in parameters:
        said, word = f"{parameter.name}={parameter.text(values[parameter.key])}", words[parameter.word]
        words[parameter.word] = f"{word[:-1]},{said})" if word.endswith(")") else f"{word}({said})"
    return "+".join(words)


def _parts(inputs: Any, parts: int) -> list[tuple[str, Any, int | None]]:
    """Each part: its name, the input, and its seed where that makes it."""
    several = some("inputs", _several(inputs))
    if len(several) > 1:
        names = [(one.name if isinstance(one, Trace) else str(os.fspath(one))).rsplit("/", 1)[-1] for one in several]
        return [(name, _inputs(one)[0], None) for name, one in zip(names, several, strict=True)]
    (one,) = several
    if not isinstance(one, Trace) and not os.path.isfile(one):
        return [(f"seed {number}", os.fspath(one), number) for number in range(1, parts + 1)]
    trace = one if isinstance(one, Trace) else Trace.open(one)
    if len(trace) < parts:
        raise OptionError(f"parts: {trace.name} has {len(trace)} requests, too few for {parts} parts")
    ends = [len(trace) * number // parts for number in range(parts + 1)]
    return [(f"requests {a} to {b}", trace[a:b]._native, None) for a, b in itertools.pairwise(ends)]


class _Bench:
    """Runs schemes on the parts, each once, and says how much better they are than the scheme as it was given."""

    def __init__(
        self, parts: list[tuple[str, Any, int | None]], scheme: str, metric: str, prune: bool, options: Mapping[str, Any]
    ) -> None:
        self.parts, self.scheme, self.metric = parts, scheme, metric
        self.prunes = prune and metric == THROUGHPUT
        self._options = options
        self._known: dict[tuple[int, str], float] = {}
        # Of each part, when the scheme as it was given had so many requests behind it, in virtual time.
        self._early: list[dict[int, int]] = [{} for _ in parts]
        self._usual = [self._run(part, scheme, self._noted(part)) or 0.0 for part in range(len(parts))]

    def gain(self, part: int, scheme: str) -> float:
        """How many times better than the scheme as it was given."""
        value = self._run(part, scheme, None)
        assert value is not None
        return self._better(value, self._usual[part])

    def judged(self, part: int, scheme: str, step: int, trial: optuna.Trial, before: Sequence[float]) -> float | None:
        """The same, unless the trial is given up first; ``step`` counts this trial's checks and ``before`` its gains."""
        checks, early = list(enumerate(_CHECKS)), self._early[part]
        last = max(early, default=0)

        def goes_on(done: int, of: int, now_ns: int) -> bool:
            while checks and done in early and done >= last * checks[0][1]:
                number, _ = checks.pop(0)
                trial.report(_mean([*before, early[done] / max(now_ns, 1)]), step + number)
                if trial.should_prune():
                    return False
            return True

        value = self._run(part, scheme, goes_on if self.prunes else None)
        return None if value is None else self._better(value, self._usual[part])

    def _noted(self, part: int) -> Callable[[int, int, int], bool]:
        def noted(done: int, of: int, now_ns: int) -> bool:
            self._early[part][done] = now_ns
            return True

        return noted

    def _better(self, value: float, usual: float) -> float:
        grows = self.metric == THROUGHPUT
        return max((value / usual if grows else usual / value) if value and usual else 1.0, 1e-6)

    def _run(self, part: int, scheme: str, judge: Any) -> float | None:
        if (part, scheme) not in self._known:
            _, given, seed = self.parts[part]
            words = _words({**self._options, **({} if seed is None else {"seed": seed})})
            runs = _native.trial(given, scheme, words, judge or _goes_on)
            if runs is None:
                return None
            report = json.loads(runs.json())["runs"][0]
            numbers = _numbers(report)
            if self.metric not in numbers:
                raise OptionError(f"metric: a report has no number called {self.metric!r}; there are: {', '.join(numbers)}")
            self._known[part, scheme] = numbers[self.metric]
        return self._known[part, scheme]


def _numbers(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a report by their names, those of a group with its name before theirs."""
    found: dict[str, float] = {}
    for key, value in report.items():
        group = value.items() if key in ("latency_ns", "stall") else [("", value)]
        found |= {f"{key}.{name}" if name else key: float(one) for name, one in group if isinstance(one, (int, float))}
    return found


def _goes_on(done: int, of: int, now_ns: int) -> bool:
    return True


class _Studies:
    """Optuna's studies, in one storage."""

    def __init__(self, storage: Any, name: str, seed: int) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend
        except ImportError:
            raise ImportError("forerun.tune needs Optuna: pip install 'forerun[tune]'") from None
        self._optuna, self._name, self._seed = optuna, name, seed
        self._storage = storage
        if isinstance(storage, (str, os.PathLike)):
            file = JournalFileBackend(str(os.fspath(storage)))
            self._storage = optuna.storages.JournalStorage(file)

    def search(
        self, about: str, bench: _Bench, seen: Iterable[int], parameters: list[_Parameter], trials: int
    ) -> optuna.Study:
        """A study of so many trials over these parts, those counted that a storage has already."""
        optuna, numbers = self._optuna, list(seen)

        def objective(trial: optuna.Trial) -> float:
            for parameter in parameters:
                parameter.suggested(trial)
            scheme = _written(bench.scheme, parameters, trial.params)
            trial.set_user_attr("scheme", scheme)
            gains: list[float] = []
            for turn, part in enumerate(numbers):
                try:
                    gain = bench.judged(part, scheme, turn * (len(_CHECKS) + 1), trial, gains)
                except _native.SchemeError as problem:  # values that do not go together
                    trial.set_user_attr("refused", str(problem))
                    raise optuna.TrialPruned(str(problem)) from None
                if gain is None:
                    raise optuna.TrialPruned
                gains.append(gain)
                trial.report(_mean(gains), turn * (len(_CHECKS) + 1) + len(_CHECKS))
            return _mean(gains)

        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=self._storage,
                study_name=f"{self._name}, {about}",
                load_if_exists=True,
                direction="maximize",
                sampler=optuna.samplers.TPESampler(seed=self._seed),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
            )
            study.optimize(objective, n_trials=max(trials - len(study.trials), 0))
        finally:
            optuna.logging.set_verbosity(level)
        return study
