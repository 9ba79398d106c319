"""What `import deltauq` adds to importing scikit-learn, and that it leaves the heavy libraries alone."""

from __future__ import annotations

import statistics
import subprocess
import sys

PROGRAM = """
import time
start = time.perf_counter(); import sklearn
middle = time.perf_counter(); import deltauq
end = time.perf_counter(); from deltauq import AnchoredRegressor
used = time.perf_counter()
import sys
assert not {"torch", "ray", "plotly", "numba"} & set(sys.modules)
print(middle - start, end - middle, used - end)
"""


def main() -> None:
    """Print the median of nine fresh processes."""
    runs = [
        [float(word) for word in subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split()]
        for _ in range(9)
    ]
    sklearn, ours, used = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"import sklearn                           {sklearn:6.3f} s")
    print(f"then import deltauq                      {ours:6.3f} s   (promised: under 0.2 s)")
    print(f"then from deltauq import AnchoredRegressor {used:4.3f} s")


if __name__ == "__main__":
    main()
