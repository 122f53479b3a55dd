"""Policies written in Python, beside the built-in schemes."""

import traceback

import pytest
from conftest import HARDWARE, SMALL

import forerun

FORWARD = "forward:size=8MiB,block=4KiB"


class Next(forerun.Policy):
    """Reads 32 blocks on behind a miss that follows the last read of its process."""

    def __init__(self):
        self.last = {}

    def on_access(self, access):
        end = access.first + access.blocks
        follows = self.last.get(access.process) == access.first
        self.last[access.process] = end
        return [(end, 32, "with-demand")] if follows and access.missing else None


def test_a_policy_runs_beside_the_others_and_pays():
    runs = forerun.compare(FORWARD, [Next, "linux-6"], array="single", device="wd-7200", drive_cache="off")
    rate = {run["scheme"]: run["throughput_bytes_per_s"] for run in runs.runs}
    assert rate["Next"] > 2 * rate["none"]
    assert [run["scheme"] for run in runs.runs] == ["none", "bound", "oracle", "auto", "Next", "linux-6"]
    assert runs.failures == []
    again = forerun.compare(FORWARD, [Next(), "linux-6"], array="single", device="wd-7200", drive_cache="off")
    assert again.to_json() == runs.to_json()


def test_in_the_array_s_layer_and_told_of_arrivals():
    heard = []

    class Arrivals(forerun.Policy):
        name, layer = "arrivals", "array"

        def on_fetched(self, fetched):
            heard.append((fetched.blocks, fetched.was_prefetch))
            return [(fetched.first + fetched.blocks, 32)]

    runs = forerun.sim(SMALL, Arrivals, **HARDWARE)
    assert runs.runs[0]["prefetch_hits"] > 0
    assert any(was_prefetch for _, was_prefetch in heard)


def test_what_a_policy_raises_ends_its_run_alone_and_keeps_its_traceback():
    class Broken(forerun.Policy):
        def on_access(self, access):
            return [] if access.first < 100 else self.nothing

    with pytest.warns(RuntimeWarning, match="Broken on"):
        runs = forerun.compare([FORWARD, SMALL], [Broken, Next, "asp"], **HARDWARE, bounds=False)
    assert [run["scheme"] for run in runs.runs] == ["Next", "asp", "Next", "asp"]
    assert [(scheme, name) for scheme, name, _ in runs.failures] == [("Broken", FORWARD), ("Broken", SMALL)]
    told = "".join(traceback.format_exception(runs.failures[0][2]))
    assert "AttributeError" in told and "self.nothing" in told
    with pytest.raises(forerun.PolicyError) as raised:
        forerun.sim(FORWARD, Broken, **HARDWARE)
    assert isinstance(raised.value.__cause__, AttributeError)


@pytest.mark.parametrize("leaves", [KeyboardInterrupt("mine"), SystemExit(3)])
@pytest.mark.parametrize("hook", ["on_access", "on_fetched", "on_batch"])
def test_what_is_no_exception_ends_all_and_is_raised(leaves, hook):
    def leave(self, told):
        raise leaves

    kind = type("Leaves", (forerun.Policy,), {hook: leave, "batch": 4 if hook == "on_batch" else 0})
    for call in (lambda: forerun.compare([FORWARD, SMALL], [kind, Next, "asp"], **HARDWARE), lambda: forerun.sim(SMALL, kind, **HARDWARE)):
        with pytest.raises(type(leaves)) as raised:
            call()
        assert raised.value is leaves
        assert any(entry.name == "leave" for entry in raised.traceback)


@pytest.mark.parametrize(("said", "parts"), [
    ("Deaf: has no hook that is called; fill in on_access", {}),
    ("Deaf: has no hook that is called; give it batch = N", {"on_batch": lambda self, batch: None}),
    ("Deaf: has batch = 4 and no on_batch", {"batch": 4, "on_access": lambda self, access: None}),
    ("Deaf.batch: wants a whole number of at least 0, not -1", {"batch": -1, "on_batch": lambda self, batch: None}),
    ("Deaf.batch: wants a whole number of at least 0, not '4'", {"batch": "4", "on_batch": lambda self, batch: None}),
])
def test_a_policy_that_would_hear_nothing_is_refused(said, parts):
    kind = type("Deaf", (forerun.Policy,), parts)
    for policy in (kind, kind()):
        with pytest.raises(forerun.OptionError, match=said):
            forerun.compare(SMALL, policy, **HARDWARE)


def test_a_hook_of_the_instance_alone_is_one():
    policy = forerun.Policy()
    policy.name, policy.on_access = "alone", lambda access: [(access.first + access.blocks, 8)]
    assert forerun.sim(SMALL, policy, **HARDWARE).runs[0]["prefetch_hits"] > 0


@pytest.mark.parametrize("wish", [[(1,)], [3], ["ab"], 7, [(-1, 1)], [(0, 1, "now")]])
def test_a_wish_that_is_none_is_told(wish):
    class Odd(forerun.Policy):
        def on_access(self, access):
            return wish

    with pytest.raises(forerun.PolicyError):
        forerun.sim(FORWARD, Odd, **HARDWARE)


def test_names_that_are_taken_and_layers_that_are_not_there_are_refused():
    with pytest.raises(forerun.OptionError, match="two called 'asp'"):
        forerun.compare(SMALL, type("asp", (Next,), {}))
    with pytest.raises(forerun.OptionError, match="none of host, array"):
        forerun.compare(SMALL, type("Lost", (forerun.Policy,), {"layer": "disk"}))
    with pytest.raises(forerun.OptionError, match="neither text nor"):
        forerun.compare(SMALL, 7)


def test_batches_are_columns_that_numpy_takes():
    numpy = pytest.importorskip("numpy")
    sizes = []

    class Batched(forerun.Policy):
        batch = 64

        def on_batch(self, batch):
            first = numpy.asarray(batch.first)
            assert first.dtype == numpy.uint64 and not first.flags.owndata
            sizes.append((len(batch), int(numpy.asarray(batch.blocks).sum())))
            ends = first + numpy.asarray(batch.blocks)
            return [(int(ends.max()), 64)]

    runs = forerun.sim(FORWARD, Batched, **HARDWARE)
    assert set(sizes) == {(64, 64)} and len(sizes) == 2048 // 64
    assert runs.runs[0]["prefetch_hits"] > 0


def test_wishes_as_arrays_are_those_of_a_list():
    numpy = pytest.importorskip("numpy")

    class Listed(forerun.Policy):
        batch = 16

        def on_batch(self, batch):
            return [(first + 64, 8) for first in batch.first]

    class Columns(Listed):
        def on_batch(self, batch):
            first = numpy.asarray(batch.first) + 64
            return forerun.Wishes(first, numpy.full_like(first, 8))

    class Sequences(Listed):
        def on_batch(self, batch):
            return forerun.Wishes([first + 64 for first in batch.first], range(8, 9) if len(batch) == 1 else [8] * len(batch))

    reports = [forerun.sim(FORWARD, kind, **HARDWARE).runs[0] for kind in (Listed, Columns, Sequences)]
    assert reports[0]["prefetched_blocks"] > 0
    told = ("elapsed_ns", "prefetched_blocks", "prefetch_hits", "misses")
    assert len({tuple(report[key] for key in told) for report in reports}) == 1


@pytest.mark.parametrize(("said", "wishes"), [("has 1 values", ([1, 2], [1])), ("whole numbers", ([-1], [1])), ("ahead", ([1], [1], "now"))])
def test_arrays_that_are_no_wishes_are_told(said, wishes):
    with pytest.raises((ValueError, forerun.OptionError), match=said):
        forerun.Wishes(*wishes)


def test_a_wish_of_a_batch_is_for_the_file_that_it_begins_in():
    class Behind(forerun.Policy):
        """Told of two readers of two files together: what it wishes for one of them is drained while the other reads."""

        batch = 2

        def on_batch(self, batch):
            return [(first + blocks, 4) for first, blocks in zip(batch.first, batch.blocks)]

    report = forerun.sim("forward:processes=2,size=8MiB,block=4KiB", Behind, **HARDWARE).runs[0]
    assert report["prefetched_blocks"] > 1000 and report["precision"] > 0.9
