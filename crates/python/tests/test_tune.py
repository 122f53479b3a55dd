"""Searches over a scheme's parameters: judged where they have not looked."""

import json

import pytest
from conftest import HARDWARE

import forerun
from forerun import _native, _tune

optuna = pytest.importorskip("optuna")

# What it reads is never read again nor in order: nothing that a scheme is given can help.
HOPELESS = "random:size=64MiB,requests=300"
# One reader in order, on a drive that does not read ahead itself: longer windows save turns of the disk.
ORDERLY = ["forward:size=4MiB,block=4KiB", "forward:size=8MiB,block=4KiB"]
STREAMS = "streams:streams=8,length=1MiB"
DISK = {"array": "single", "device": "wd-7200", "scheduler": "none", "cache": "32MiB", "host_cache": "16MiB", "drive_cache": "off"}


def test_what_pays_is_found_and_said():
    tuned = forerun.tune(ORDERLY, "linux-2.4", {"max": ["16KiB", "512KiB"]}, trials=5, **DISK)
    assert tuned.scheme == "linux-2.4(max=512KiB)"
    assert tuned.gain > 1.5 and tuned.held_out > 1.5 and tuned.pays
    assert [part.name for part in tuned.parts] == ORDERLY
    assert "it pays" in str(tuned) and ORDERLY[1] in str(tuned)
    # The text is what every other call takes, and the gain is that of its runs.
    runs = [forerun.sim(ORDERLY[0], scheme, **DISK).runs[0] for scheme in (tuned.given, tuned.scheme)]
    gain = runs[1]["throughput_bytes_per_s"] / runs[0]["throughput_bytes_per_s"]
    assert tuned.parts[0].gain == pytest.approx(gain)


def test_where_nothing_pays_it_says_to_leave_it():
    tuned = forerun.tune(HOPELESS, "asp", ["cost"], trials=3, parts=2, **HARDWARE)
    assert tuned.gain >= 1.0 and not tuned.pays
    assert "leave asp as it is" in str(tuned)


def test_one_seed_gives_one_result_and_a_storage_goes_on(tmp_path):
    def search(**more):
        return forerun.tune(STREAMS, "streams", {"R": (64 << 10, 1 << 20), "N": (1, 32)}, parts=2, **DISK, **more)

    first, again = search(trials=4), search(trials=4)
    assert str(first) == str(again)
    path = tmp_path / "study.log"
    search(trials=2, storage=path)
    kept = search(trials=4, storage=path)
    assert len(kept.study.trials) == 4, "two were there"
    names = {json.loads(line).get("study_name") for line in path.read_text().splitlines()} - {None}
    assert len(names) == 3, "one without each part, one on all"


def test_a_trace_is_cut_into_parts_of_as_many_requests(small):
    tuned = forerun.tune(small, "linux-2.6", ["max"], trials=2, parts=2, **{**HARDWARE, "host_cache": "16MiB"})
    assert [part.name for part in tuned.parts] == ["requests 0 to 500", "requests 500 to 1000"]


def test_a_run_that_falls_behind_is_given_up_at_the_same_moment_each_time():
    heard = []

    def judge(done, of, now_ns):
        heard.append((done, of, now_ns))
        return done < 8192

    words = ["--device=nvme-pcie4", "--cache=16MiB"]
    assert _native.trial("random:size=64MiB,requests=20000", "none", words, judge) is None
    assert [done for done, _, _ in heard] == [4096, 8192] and 0 < heard[0][2] < heard[1][2]
    first = list(heard)
    heard.clear()
    assert _native.trial("random:size=64MiB,requests=20000", "none", words, judge) is None
    assert heard == first

    def fails(done, of, now_ns):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        _native.trial("random:size=64MiB,requests=20000", "none", words, fails)
    assert len(_native.trial("random:size=1MiB,requests=10", "none", words, fails)) == 1


def test_runs_that_cannot_win_are_pruned():
    inputs = ["forward:size=64MiB,block=4KiB", "forward:size=80MiB,block=4KiB"]
    search = dict(trials=12, **DISK)
    parameters = {"max": ["4KiB", "16KiB", "64KiB", "256KiB", "512KiB"]}
    pruned = forerun.tune(inputs, "linux-2.4", parameters, **search)
    whole = forerun.tune(inputs, "linux-2.4", parameters, prune=False, **search)
    assert whole.pruned == 0 < pruned.pruned
    assert pruned.scheme == whole.scheme


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("has no 'treshold'", lambda: forerun.tune(HOPELESS, "rpp(linux-2.4)", ["treshold"])),
        ("has none", lambda: forerun.tune(HOPELESS, "none")),
        ("parts: wants a whole number of at least 2, not 1", lambda: forerun.tune(HOPELESS, "asp", parts=1)),
        ("trials: wants a whole number of at least 1, not 0", lambda: forerun.tune(HOPELESS, "asp", trials=0)),
        ("seed: wants a whole number from 0 to 4294967295, not -1", lambda: forerun.tune(HOPELESS, "asp", seed=-1)),
        ("prune: wants True or False, not 'no'", lambda: forerun.tune(HOPELESS, "asp", prune="no")),
        ("parameters: wants a list, as in .*, not 'cost'", lambda: forerun.tune(HOPELESS, "asp", "cost")),
        ("inputs: there is none", lambda: forerun.tune([], "asp")),
        ("no number called", lambda: forerun.tune(HOPELESS, "asp", metric="speed", **HARDWARE)),
        ("wants \\(least", lambda: forerun.tune(HOPELESS, "rpp(linux-2.4)", {"threshold": 7})),
    ],
)
def test_what_cannot_be_searched_is_refused(said, call):
    with pytest.raises(forerun.OptionError, match=said):
        call()


def test_values_are_written_where_their_scheme_stands():
    found = _tune._parameters("asp(cost=off)+seqp:128KiB", None)
    assert [parameter.key for parameter in found] == ["ghosts", "cull", "upstream"]
    assert _tune._written("asp(cost=off)+seqp:128KiB", found[:1], {"ghosts": "off"}) == "asp(cost=off,ghosts=off)+seqp:128KiB"
    (threshold,) = _tune._parameters("rpp(linux-2.4)", {"threshold": (2, 64)})
    assert _tune._written("rpp(linux-2.4)", [threshold], {"threshold": 8}) == "rpp(linux-2.4,threshold=8)"
    bounded = [scheme for scheme in forerun.schemes() if any("bounds" in row for row in scheme["parameters"])]
    assert bounded, "the listing tells bounds where there are some"
