"""Arrays and Arrow tables, in and out."""

import json
import warnings
from array import array

import pytest
from conftest import HARDWARE

import forerun

numpy = pytest.importorskip("numpy")
pyarrow = pytest.importorskip("pyarrow")


def test_arrays_of_every_kind_are_the_same_trace():
    offsets, sizes = [0, 4096, 12288], [4096, 8192, 4096]
    kinds = [
        (offsets, sizes),
        (array("Q", offsets), array("Q", sizes)),
        (numpy.array(offsets, "u8"), numpy.array(sizes, "u8")),
        (numpy.array(offsets, "i4"), numpy.array(sizes, "i8")),
        (iter(offsets), range(0)),
    ]
    hashes = {forerun.Trace.from_arrays(*kind).sha256 for kind in kinds[:4]}
    assert len(hashes) == 1
    with pytest.raises(forerun.OptionError, match="size: has 0 values, and offset 3"):
        forerun.Trace.from_arrays(*kinds[4])


def test_ops_times_and_contexts_are_told():
    trace = forerun.Trace.from_arrays([0, 0], [512, 4096], time=[5, 10], op=["R", "W"], context=[3, 4])
    info = trace.info()
    assert (info["reads"], info["writes"], info["processes"], info["duration_ns"]) == (1, 1, 2, 5)
    rows = pyarrow.table(trace).to_pylist()
    assert rows[1] | {"took_ns": None} == {
        "time_ns": 10, "process": "4", "device": None, "file": None, "offset": 0, "bytes": 4096, "op": "W", "took_ns": None,
        "file_bytes": None,
    }


@pytest.mark.parametrize("wrong", [[-1], [0.5], numpy.array([-1]), numpy.array([0.5]), ["x"]])
def test_what_is_no_whole_number_from_0_is_refused(wrong):
    with pytest.raises(forerun.OptionError, match="offset: wants whole numbers from 0"):
        forerun.Trace.from_arrays(wrong, [4096])


@pytest.mark.parametrize("op", [
    ["R", "W"], ["r", "w"], [b"R", b"w"], [0, 1], [False, True], numpy.array(["R", "W"]), numpy.array(["R", "W"], "S1"),
    numpy.array([False, True]), numpy.array([0, 1], "i1"), array("B", [0, 1]), pyarrow.array(["R", "W"]), "RW",
])
def test_an_operation_is_said_in_any_of_these_ways(op):
    trace = forerun.Trace.from_arrays([0, 0], [512, 512], op=op)
    assert [row["op"] for row in pyarrow.table(trace).to_pylist()] == ["R", "W"]


@pytest.mark.parametrize("op", [["R", float("nan")], [0, 2], [0, None], ["R", "Write"], [0, -1], [0, [1]], numpy.array([0, 0.5]), b"RW"])
def test_what_is_no_operation_is_refused(op):
    with pytest.raises(forerun.OptionError, match='op: .* in row [01] is none of "R", "W", 0, 1'):
        forerun.Trace.from_arrays([0, 0], [512, 512], op=op)
    with pytest.raises(forerun.OptionError, match="op: wants a column of operations, not 1"):
        forerun.Trace.from_arrays([0, 0], [512, 512], op=1)


def test_columns_of_frames_are_columns():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = {"offset": [0, 4096], "size": [512, 512], "time": [0, 5], "op": ["R", "W"], "context": [1, 2]}
    trace = forerun.Trace.from_arrays(**rows)
    for frame in (pandas.DataFrame(rows), pandas.DataFrame(rows).astype({"offset": "Int64", "op": "category"}), polars.DataFrame(rows), pyarrow.table(rows)):
        assert forerun.Trace.from_arrays(**{name: frame[name] for name in rows}).sha256 == trace.sha256


@pytest.mark.parametrize(("said", "columns"), [
    ("offset: wants a column of whole numbers from 0, not None", {"offset": None, "size": None}),
    ("size: wants a column of whole numbers from 0, not 7", {"offset": [0], "size": 7}),
    ("offset: wants a column of whole numbers from 0, not bytes", {"offset": b"12345678", "size": [1]}),
    ("offset: wants a column, of one dimension, and this has 2", {"offset": numpy.zeros((2, 2), "u8"), "size": [1] * 4}),
    (r"time: wants nanoseconds as whole numbers from 0, not datetime64\[s\] \(column.astype", {"offset": [0], "size": [1], "time": numpy.array(["2020-01-01"], "M8[s]")}),
    (r"time: wants nanoseconds as whole numbers from 0, not timedelta64\[ms\] \(column.astype", {"offset": [0], "size": [1], "time": numpy.array([5], "m8[ms]")}),
    ("offset: row 1 ends beyond 2", {"offset": [0, 2**64 - 1], "size": [1, 2]}),
])
def test_columns_that_are_none_are_refused_with_what_to_give(said, columns):
    with pytest.raises(forerun.OptionError, match=said):
        forerun.Trace.from_arrays(**columns)


def test_the_nanoseconds_of_moments_are_taken_as_the_remedy_says():
    pandas = pytest.importorskip("pandas")
    moments = pandas.Series(pandas.to_datetime(["2020-01-01 00:00:00", "2020-01-01 00:00:01"]))
    with pytest.raises(forerun.OptionError, match="time: wants nanoseconds"):
        forerun.Trace.from_arrays([0, 0], [1, 1], time=moments)
    time = moments.astype("datetime64[ns]").astype("int64")
    assert forerun.Trace.from_arrays([0, 0], [1, 1], time=time - time[0]).info()["duration_ns"] == 10**9


def test_a_trace_goes_to_polars_and_pandas(small):
    trace = forerun.Trace.open(small)
    assert len(trace) == len(trace.to_arrow()) == 1000
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(trace)["bytes"].sum() == 1000 * 4096


def test_a_table_comes_back_as_the_trace_that_it_was(small):
    trace = forerun.Trace.open(small)
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    table = trace.to_arrow()
    tables = [table, trace, polars.DataFrame(trace), table.to_pandas(), pandas.DataFrame(table.to_pylist())]
    again = [forerun.Trace.from_arrow(one, name="again") for one in tables]
    assert len({one.sha256 for one in again}) == 1 and again[0].name == "again"
    assert all(one.to_arrow().to_pylist() == table.to_pylist() for one in again)
    parts = pyarrow.concat_tables([table.slice(0, 10), table.slice(10)])
    assert len(parts.column("offset").chunks) == 2 and forerun.Trace.from_arrow(parts).sha256 == again[0].sha256
    assert forerun.Trace.from_arrow(table.slice(0, 999)).sha256 != again[0].sha256


RECORDED = """t,dev,off,bytes,op,pid,file,size
# kernel: 6.12
0.0,,0,4096,R,1,a,40960
0.1,,4096,4096,R,1,a,
0.2,,0,4096,R,1,b,8192
"""


def test_a_table_has_the_sizes_of_files_and_what_is_known_of_the_machine(tmp_path):
    path = tmp_path / "recorded.parquet"
    (tmp_path / "recorded.csv").write_text(RECORDED)
    forerun.Trace.open(tmp_path / "recorded.csv").write(path)
    trace = forerun.Trace.open(path)
    info = trace.info()
    assert info["files_with_size"] == 2 and info["about"] == {"kernel": "6.12"}
    table = trace.to_arrow()
    assert table["file_bytes"].to_pylist() == [40960, None, 8192]
    assert table.schema.metadata == {b"forerun.about.kernel": b"6.12"}
    again = forerun.Trace.from_arrow(table, name=str(path))
    assert again.info() == info | {"format": "arrow", "sha256": again.sha256}
    runs = [forerun.compare(one, "linux-6", bounds=False, **HARDWARE).runs[0] for one in (trace, again)]
    assert runs[0]["prefetched_blocks"] == runs[1]["prefetched_blocks"]
    assert runs[0]["elapsed_ns"] == runs[1]["elapsed_ns"]
    bare = forerun.Trace.from_arrow(table.drop_columns("file_bytes"))
    assert bare.info()["files_with_size"] == 0 and bare.sha256 != again.sha256
    # The file that Forerun wrote, as pyarrow reads it, has the same names.
    parquet = pytest.importorskip("pyarrow.parquet")
    assert forerun.Trace.from_arrow(parquet.read_table(path)).sha256 == again.sha256


def test_a_table_needs_places_alone():
    table = pyarrow.table({"offset": pyarrow.array([0, 4096], "int32"), "bytes": pyarrow.array([512, 512], "uint16"), "more": ["x", "y"]})
    info = forerun.Trace.from_arrow(table).info()
    assert (info["reads"], info["bytes"], info["duration_ns"], info["processes"]) == (2, 1024, None, 0)


@pytest.mark.parametrize(
    ("said", "columns"),
    [
        ("bytes: the table has no such column", {"offset": [0]}),
        ("offset: 1 of 2 rows have none", {"offset": [0, None], "bytes": [1, 1]}),
        ("offset: wants whole numbers from 0, not all of Int64", {"offset": [-1], "bytes": [1]}),
        ("bytes: wants whole numbers from 0, not all of Float64", {"offset": [0], "bytes": [0.5]}),
        ("offset: row 0 ends beyond", {"offset": pyarrow.array([2**64 - 1], "uint64"), "bytes": [2]}),
        ("process: wants text, not Int64", {"offset": [0], "bytes": [1], "process": [7]}),
        ("file_bytes: wants whole numbers from 0", {"offset": [0], "bytes": [1], "file_bytes": [-1]}),
        ('op: "read" is none of', {"offset": [0], "bytes": [1], "op": ["read"]}),
    ],
)
def test_a_table_that_is_no_trace_is_refused(said, columns):
    with pytest.raises(forerun.OptionError, match=said):
        forerun.Trace.from_arrow(pyarrow.table(columns))
    with pytest.raises(forerun.OptionError, match="wants a table"):
        forerun.Trace.from_arrow([1, 2])


def test_rows_of_runs_are_typed_and_named_as_in_csv(command):
    from conftest import SMALL, WORDS

    runs = forerun.compare(SMALL, "asp", **HARDWARE)
    table = runs.to_arrow()
    csv = command("compare", SMALL, "--scheme", "asp", *WORDS, "--csv")
    assert table.column_names == csv.splitlines()[0].split(",")
    assert table.schema.field("misses").type == pyarrow.uint64()
    assert table.schema.field("throughput_bytes_per_s").type == pyarrow.float64()
    frame = pytest.importorskip("pandas") and runs.to_pandas()
    assert list(frame["scheme"]) == ["none", "bound", "oracle", "auto", "asp"]
    assert pytest.importorskip("polars") and runs.to_polars().height == 5
    chart = pytest.importorskip("altair") and runs.plot().to_dict()
    assert {row["scheme"] for row in chart["data"]["values"]} == {"none", "oracle", "auto", "asp"}


def test_a_part_is_what_the_command_cuts(command, small, tmp_path):
    trace = forerun.Trace.open(small)
    command("trace", "cut", str(small), str(tmp_path / "command.parquet"), "--from", "0.2", "--until", "0.5", "--process", "1")
    part = trace.cut(from_=0.2, until=0.5, process="1")
    part.write(tmp_path / "module.parquet")
    assert (tmp_path / "module.parquet").read_bytes() == (tmp_path / "command.parquet").read_bytes()
    assert 0 < len(part) < len(trace) and part.name == f"{small} (cut)"
    sample = trace.cut(sample=0.5, seed=2, name="half")
    assert 0 < len(sample) < len(trace) and sample.name == "half"
    assert len({trace.sha256, part.sha256, sample.sha256, trace.cut(sample=0.5, seed=3).sha256}) == 4


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("nothing says what to keep", {}),
        ("no process is called", {"process": "nobody"}),
        ("no request is in this part", {"from_": 1e6}),
        ("sample: above 0 and at most 1", {"sample": 2.0}),
        ("from_: from 0 to", {"from_": -1.0}),
    ],
)
def test_a_part_that_is_none_is_refused(said, more, small):
    with pytest.raises(forerun.OptionError, match=said):
        forerun.Trace.open(small).cut(**more)


def test_slices_are_counted_in_requests(small):
    trace = forerun.Trace.open(small)
    part = trace[100:300]
    rows = pyarrow.table(part).to_pylist()
    assert len(part) == 200 and rows[0]["time_ns"] == 0
    assert [row["offset"] for row in rows] == [row["offset"] for row in pyarrow.table(trace).to_pylist()[100:300]]
    assert len(trace[:50]) == len(trace[-50:]) == 50 and len(trace[5:3]) == 0
    assert part.sha256 == trace[100:300].sha256 != trace[100:301].sha256
    with pytest.raises(forerun.OptionError, match="no step"):
        trace[::2]


def test_two_traces_of_one_name_are_not_taken_for_one(small):
    trace = forerun.Trace.open(small)
    parts = [trace.cut(until=0.2), trace.cut(until=0.4)]
    with pytest.raises(forerun.OptionError, match="two traces are called"):
        forerun.compare(parts, "none", bounds=False, **HARDWARE)
    named = [part.cut(until=1.0, name=str(number)) for number, part in enumerate(parts)]
    runs = forerun.compare(named, "none", bounds=False, **HARDWARE).runs
    assert runs[0]["blocks_read"] < runs[1]["blocks_read"]


def test_a_command_is_recorded_or_it_is_said_why_not(tmp_path):
    path = tmp_path / "read.me"
    path.write_bytes(b"x" * 100_000)
    try:
        trace = forerun.Trace.record(["cat", path], files=True, dir=tmp_path, name="one cat")
    except forerun.UnsupportedError as problem:
        pytest.skip(f"no recording here: {problem}")
    assert trace.name == "one cat" and trace.info()["bytes"] == 100_000
    with pytest.warns(RuntimeWarning, match="ended with 3"):
        forerun.Trace.record(["sh", "-c", f"cat {path} >/dev/null; exit 3"], files=True, dir=tmp_path)


def test_a_recording_that_cannot_be_is_an_error_with_its_reason():
    with pytest.raises(forerun.ForerunError, match="nothing is named"):
        forerun.Trace.record()
    with pytest.raises(forerun.ForerunError, match="nowhere"):
        forerun.Trace.record(device="/dev/nowhere", seconds=1)


@pytest.mark.parametrize(("name", "more", "words"), [
    ("a.csv", {}, []), ("a.csv.gz", {}, []), ("a.spc", {}, []), ("a.lirs.zst", {}, []), ("a", {}, []), ("a.parquet", {}, []),
    ("a.bin", {"format": "msr"}, ["--to", "msr"]), ("a.csv", {"format": "fio3"}, ["--to", "fio3"]),
])
def test_the_ending_of_a_name_means_the_format_that_it_means_to_the_command(name, more, words, command, small, tmp_path):
    (tmp_path / "theirs").mkdir()
    command("trace", "convert", str(small), str(tmp_path / "theirs" / name), *words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        forerun.Trace.open(small).write(tmp_path / name, **more)
    assert (tmp_path / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_what_a_format_does_not_hold_is_warned_of(command, small, tmp_path):
    said = json.loads(command("trace", "convert", str(small), str(tmp_path / "theirs.lirs"), "--json"))["losses"]
    assert said
    path = tmp_path / "ours.lirs"
    with pytest.warns(UserWarning) as warned:
        forerun.Trace.open(small).write(path)
    assert [str(one.message) for one in warned] == [f"{path}: not in it: {loss}" for loss in said]
    assert {one.filename for one in warned} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forerun.Trace.open(small).write(tmp_path / "all.csv")


def test_what_cannot_be_written_is_refused(small, tmp_path):
    trace = forerun.Trace.open(small)
    with pytest.raises(forerun.OptionError, match=r"`\.bin` is the ending of no format that is written \(endings are \.parquet"):
        trace.write(tmp_path / "a.bin")
    with pytest.raises(forerun.OptionError, match="strace is read but not written"):
        trace.write(tmp_path / "a", format="strace")
    with pytest.raises(forerun.OptionError, match="is not known"):
        trace.write(tmp_path / "a", format="mrs")
    assert list(tmp_path.iterdir()) == []
