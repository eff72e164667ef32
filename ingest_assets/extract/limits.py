"""What one document may take of a worker's memory and time, kept by the kernel, and how much memory it took.

What does not belong here: what follows from it (`worker.py`), and the time limit that the run keeps (`pool.py`).
Where the kernel has no /proc, memory is neither limited nor measured.
"""

import contextlib
import math
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest_assets.settings import ExtractSettings

CPU_GRACE_SECONDS = 5.0  # the run ends a worker at the time limit; the kernel does where the run is held up itself
# Arrays are doubled when they are full: what asks for more than the limit may hold little more than a third of it.
SUSPECT_SHARE = 0.25
MEBIBYTE = 1024 * 1024
_PROCESS = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Memory:
    """A worker's memory at one moment."""

    allocated_bytes: int  # what RLIMIT_DATA counts: private memory that can be written
    resident_bytes: int

    @classmethod
    def now(cls) -> "Memory":
        """Measure; zeros where that is not possible."""
        if not _PROCESS.exists():
            return cls(0, 0)
        pages = (_PROCESS / "statm").read_text().split()
        return cls(int(pages[5]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize())

    def forget_peak(self) -> None:
        """Let the peak be measured from now on."""
        with contextlib.suppress(OSError):
            (_PROCESS / "clear_refs").write_text("5")

    def is_peak_suspect(self, limit_mb: int) -> bool:
        """Tell whether so much was taken meanwhile that the limit may have been met."""
        if not self.resident_bytes:
            return False
        [kibibytes] = re.findall(r"VmHWM:\s*(\d+)", (_PROCESS / "status").read_text())
        return is_suspect(int(kibibytes) * 1024 - self.resident_bytes, limit_mb)


def is_suspect(growth_bytes: int, limit_mb: int) -> bool:
    """Tell whether a failure after such a growth may be one to get more memory than the limit allows."""
    return growth_bytes > SUSPECT_SHARE * limit_mb * MEBIBYTE


@contextlib.contextmanager
def limited(settings: ExtractSettings, before: Memory) -> Iterator[None]:
    """Bound what one document may take: memory that was not there before it, and time of the processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + settings.timeout_seconds + CPU_GRACE_SECONDS
    set_limit(resource.RLIMIT_CPU, math.ceil(seconds))
    if before.allocated_bytes:
        set_limit(resource.RLIMIT_DATA, before.allocated_bytes + settings.memory_limit_mb * MEBIBYTE)
    try:
        yield
    finally:
        set_limit(resource.RLIMIT_DATA, None)


def set_limit(what: int, value: int | None) -> None:
    """Set a limit that can be set anew for the next document; None lifts it as far as this process may."""
    _, hard = resource.getrlimit(what)
    is_bounded = hard != resource.RLIM_INFINITY
    resource.setrlimit(what, (hard if value is None or (is_bounded and value > hard) else value, hard))
