"""Arrays and Arrow tables, in and out."""

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
    }


@pytest.mark.parametrize("wrong", [[-1], [0.5], numpy.array([-1]), numpy.array([0.5]), ["x"]])
def test_what_is_no_whole_number_from_0_is_refused(wrong):
    with pytest.raises(forerun.OptionError, match="offset: wants whole numbers from 0"):
        forerun.Trace.from_arrays(wrong, [4096])


def test_a_trace_goes_to_polars_and_pandas(small):
    trace = forerun.Trace.open(small)
    assert len(trace) == len(trace.to_arrow()) == 1000
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(trace)["bytes"].sum() == 1000 * 4096


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
