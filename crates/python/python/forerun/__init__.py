"""Prefetching for storage: simulate it on a trace, compare schemes, write your own.

>>> import forerun
>>> runs = forerun.compare("forward:processes=4,size=64MiB", ["asp", "linux-6"], array="raid5:5x128KiB", device="wd-7200")
>>> print(runs)
>>> runs.report("report.html")

The words are the command's: an input is a trace file or a workload, a scheme is written as ``forerun schemes`` lists it, and
an option of ``forerun compare --help`` is a keyword with ``_`` for ``-``. So are the defaults and the numbers.
Sizes are text with a unit ("64MiB") or bytes, times are nanoseconds of virtual time.
"""

from ._native import (
    DeviceError,
    ForerunError,
    OptionError,
    PolicyError,
    SchemeError,
    TraceError,
    UnsupportedError,
    version as _version,
)
from ._advise import advise
from ._comparison import Comparison
from ._device import Device, devices, schemes
from ._policy import Access, Batch, Fetched, Policy, Wish, Wishes
from ._run import compare, mrc, sim
from ._trace import Trace
from ._tune import Tuned, tune

__version__: str = _version()

# Where nothing else is known.
ForerunError.place = ForerunError.remedy = ""

__all__ = [
    "Access",
    "Batch",
    "Comparison",
    "Device",
    "DeviceError",
    "Fetched",
    "ForerunError",
    "OptionError",
    "Policy",
    "PolicyError",
    "SchemeError",
    "Trace",
    "TraceError",
    "Tuned",
    "UnsupportedError",
    "Wish",
    "Wishes",
    "advise",
    "compare",
    "devices",
    "mrc",
    "schemes",
    "sim",
    "tune",
]
