"""What goes wrong is typed, and says where and what to do; and Ctrl-C is heard."""

import os
import signal
import threading
import time

import pytest
from conftest import HARDWARE, SMALL

import forerun


@pytest.mark.parametrize(
    ("kind", "said", "call"),
    [
        (forerun.SchemeError, "no scheme", lambda: forerun.compare(SMALL, "aspp", **HARDWARE)),
        (forerun.DeviceError, "did you mean", lambda: forerun.compare(SMALL, "asp", device="nvme-pcie")),
        (forerun.OptionError, "array", lambda: forerun.compare(SMALL, "asp", array="raid9")),
        (forerun.OptionError, "did you mean 'cluster'", lambda: forerun.compare(SMALL, "asp", clustr=1)),
        (forerun.OptionError, "12M", lambda: forerun.compare(SMALL, "asp", cache=12)),
        (forerun.OptionError, "at least one", lambda: forerun.compare(SMALL, "asp", seeds=[])),
        (forerun.TraceError, "no such file", lambda: forerun.compare("nowhere.csv", "asp", **HARDWARE)),
        (forerun.TraceError, "cannot read", lambda: forerun.Trace.open("nowhere.csv")),
        (forerun.OptionError, "there are: ", lambda: forerun.mrc("x", "fifo", cache_blocks=1)),
    ],
)
def test_every_mistake_has_its_type(kind, said, call, small, monkeypatch):
    if kind is forerun.OptionError and said.startswith("there"):
        call = lambda: forerun.mrc(small, "fifo", cache_blocks=1)  # noqa: E731
    with pytest.raises(kind, match=said) as raised:
        call()
    assert isinstance(raised.value, forerun.ForerunError)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("input: sim makes one run, and there are 2; use compare", lambda: forerun.sim([SMALL, SMALL], "none")),
        ("scheme: sim makes one run, and there are 2; use compare", lambda: forerun.sim(SMALL, ["none", "asp"])),
        ("inputs: there is none", lambda: forerun.sim([], "none")),
        ("schemes: there is none", lambda: forerun.sim(SMALL, [])),
        ("inputs: there is none", lambda: forerun.compare([], "none")),
        ("schemes: there is none", lambda: forerun.compare(SMALL, [])),
        ("inputs: 7 is neither text, a path nor", lambda: forerun.compare(7)),
        ("cache_blocks: there is none", lambda: forerun.mrc("nowhere", cache_blocks=[])),
        ("retention: there is none", lambda: forerun.mrc("nowhere", [], cache_blocks=1)),
    ],
)
def test_a_run_has_one_input_and_scheme_and_a_comparison_at_least_one(said, call):
    with pytest.raises(forerun.OptionError, match=said):
        call()


OFFSETS = [4096 * n for n in range(100)]


def tiny():
    return forerun.Trace.from_arrays(OFFSETS, [4096] * 100, time=OFFSETS, name="tiny")


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("limit: wants a whole number of at least 1, not -1", lambda path: forerun.Trace.open(path, limit=-1)),
        ("limit: wants a whole number of at least 1, not 0", lambda path: forerun.Trace.open(path, limit=0)),
        ("limit: wants a whole number of at least 1, not True", lambda path: forerun.Trace.open(path, limit=True)),
        ("threads: wants a whole number of at least 0, not -1", lambda path: forerun.compare(path, threads=-1)),
        ("seeds: wants a whole number of at least 0, not -1", lambda path: forerun.compare(path, seeds=[1, -1])),
        ("seeds: wants a list, as in .*, not 3", lambda path: forerun.compare(path, seeds=3)),
        ("seed", lambda path: forerun.sim(path, seed=-1)),
        ("seed: wants a whole number of at least 0, not -1", lambda path: tiny().cut(sample=0.5, seed=-1)),
        ("threshold: wants a whole number of at least 0, not -1", lambda path: tiny().patterns(threshold=-1)),
        ("threshold: from 1 to 1024 blocks", lambda path: tiny().patterns(threshold=0)),
        ("threshold: from 1 to 1024 blocks", lambda path: tiny().patterns(threshold=1025)),
        ("threshold: wants a whole number of at least 0, not 1.5", lambda path: tiny().patterns(threshold=1.5)),
        ("map: `only:` names no device", lambda path: forerun.mrc(path, map="only:", cache_blocks=1)),
        ("skip_bad: wants True or False, not 'no'", lambda path: forerun.Trace.open(path, skip_bad="no")),
        ("skip_bad: wants True or False, not 'no'", lambda path: forerun.compare(path, skip_bad="no")),
        ("skip_bad: wants True or False, not 0", lambda path: forerun.sim(path, skip_bad=0)),
        ("bounds: wants True or False, not 'no'", lambda path: forerun.compare(path, bounds="no")),
        ("files: wants True or False, not 'no'", lambda path: forerun.Trace.record(["ls"], files="no")),
        ("command: wants a list, as in .*, not 'ls'", lambda path: forerun.Trace.record("ls")),
        ("command: wants a list, as in .*, not ", lambda path: forerun.Trace.record(path)),
    ],
)
def test_a_value_that_no_option_has_is_refused(said, call, small):
    with pytest.raises(forerun.OptionError, match=said):
        call(small)


def test_a_limit_and_a_threshold_that_can_be_are_taken(small):
    numpy = pytest.importorskip("numpy")
    assert len(forerun.Trace.open(small, limit=numpy.int64(7), skip_bad=False)) == 7
    assert [forerun.Trace.open(small).patterns(threshold=blocks)["threshold"] for blocks in (1, 1024)] == [1, 1024]


def test_a_trace_has_parts_and_no_single_requests():
    for wrong in (lambda trace: trace[0], lambda trace: list(trace), lambda trace: 5 in trace):
        with pytest.raises(TypeError, match=r"as in trace\[1000:2000\], and no 0; to_arrow"):
            wrong(tiny())


def test_a_path_that_is_not_text_is_opened_and_refused_by_runs_with_what_to_give(small, tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.parquet")
    path.write_bytes(small.read_bytes())
    for one in (path, str(path), os.fsencode(path)):
        trace = forerun.Trace.open(one)
        assert len(trace) == 1000 and forerun.mrc(one, cache_blocks=10) == forerun.mrc(trace, cache_blocks=10)
        for call in (forerun.compare, forerun.sim):
            with pytest.raises(forerun.OptionError, match="is not UTF-8; give what forerun.Trace.open makes of it"):
                call(one, "none", **HARDWARE)
    assert forerun.sim(trace, "none", **HARDWARE).runs
    assert forerun.sim(os.fsencode(small), "none", **HARDWARE).to_json() == forerun.sim(small, "none", **HARDWARE).to_json()


def test_advice_on_a_trace_in_memory_that_cannot_be_given_names_the_trace():
    empty = forerun.Trace.from_arrays([], [], name="nothing asked")
    with pytest.raises(forerun.ForerunError, match="^nothing asked: the trace has no requests"):
        forerun.advise(empty, device="gp3")


def test_a_list_of_one_is_that_one():
    assert forerun.sim([SMALL], ["asp"], **HARDWARE).to_json() == forerun.sim(SMALL, "asp", **HARDWARE).to_json()


def test_a_malformed_trace_says_its_line_and_what_passes_over_it(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("128166372003061629,hm,0,Read,0,4096,100\n" * 3 + "nonsense\n")
    with pytest.raises(forerun.TraceError, match="line 4") as raised:
        forerun.Trace.open(path, format="msr")
    assert raised.value.place == f"{path}: line 4 (msr)"
    assert raised.value.remedy == "repair it, or pass over such records with --skip-bad"
    assert forerun.Trace.open(path, format="msr", skip_bad=True).skipped == 1


def test_every_error_has_a_place_and_a_remedy_if_only_empty_ones(small):
    with pytest.raises(forerun.OptionError) as raised:
        forerun.Trace.open(small)[::2]
    assert (raised.value.place, raised.value.remedy) == ("", "")


@pytest.fixture(scope="module")
def long():
    """A trace whose figures take some seconds."""
    numpy = pytest.importorskip("numpy")
    offset = numpy.random.default_rng(1).integers(0, 1 << 28, 3_000_000, "u8") << 12
    return forerun.Trace.from_arrays(offset, numpy.full_like(offset, 4096), context=offset >> 20)


def interrupted_in_time(call, after=0.3):
    """Rings Ctrl-C while it works, and measures when it is heard."""
    began = {}

    def interrupt(*_):
        began["at"] = time.monotonic()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    due = time.monotonic() + after
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        ended = time.monotonic()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert began["at"] - due < 0.2 and ended - began["at"] < 0.2


def test_ctrl_c_is_heard_within_a_fifth_of_a_second():
    interrupted_in_time(lambda: forerun.compare("random:size=1GiB,requests=3000000", ["asp", "strip"], **HARDWARE))


@pytest.mark.parametrize(
    "call",
    [
        lambda trace: forerun.mrc(trace, ["arc", "s3fifo", "sieve"], cache_blocks=[10_000, 100_000, 1_000_000]),
        lambda trace: trace.info(),
        lambda trace: trace.patterns(by="process"),
    ],
    ids=["mrc", "info", "patterns"],
)
def test_ctrl_c_is_heard_while_a_trace_is_counted(call, long):
    interrupted_in_time(lambda: call(long), after=0.02)


@pytest.mark.parametrize(
    "call",
    [lambda path: forerun.Trace.open(path), lambda path: forerun.mrc(path, cache_blocks=1), lambda path: forerun.Trace.from_arrays([0], [1]).write(path, format="csv")],
    ids=["open", "mrc", "write"],
)
def test_ctrl_c_is_heard_while_a_file_lets_one_wait(call, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    interrupted_in_time(lambda: call(tmp_path / "pipe"))
    # Both of its ends, so that whoever waits for one goes on.
    os.close(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK))


def test_a_file_that_is_written_when_ctrl_c_comes_is_whole_or_as_it_was(long, tmp_path):
    path = tmp_path / "long.parquet"
    path.write_text("before")
    interrupted_in_time(lambda: long.write(path))
    assert path.read_text(errors="replace") == "before"


@pytest.mark.parametrize("table", [False, True], ids=["run", "table"])
def test_other_threads_of_python_work_while_a_run_goes_on(table, long):
    pytest.importorskip("pyarrow")
    counted, began = [0], threading.Event()
    over = threading.Event()

    def count():
        began.set()
        while not over.is_set():
            counted[0] += 1

    counting = threading.Thread(target=count)
    counting.start()
    began.wait()
    try:
        before = counted[0]
        if table:
            long.to_arrow()
        else:
            forerun.sim("random:size=1GiB,requests=1000000", "asp", **HARDWARE)
        during = counted[0] - before
    finally:
        over.set()
        counting.join()
    # With the interpreter held, the other thread would have a slice of a few milliseconds before the run and one behind it.
    assert during > 1_000_000


def test_progress_is_told(capsys):
    pytest.importorskip("tqdm")
    forerun.compare("random:size=256MiB,requests=20000", "asp", progress=True, **HARDWARE)
    assert "run" in capsys.readouterr().err
