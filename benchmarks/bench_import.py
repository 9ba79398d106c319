"""Times of `import deltauq` and of the command line without a command."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

N_RUNS = 9
IMPORTS = """
import time
start = time.perf_counter(); import sklearn
middle = time.perf_counter(); import deltauq
end = time.perf_counter(); from deltauq import AnchoredRegressor
used = time.perf_counter()
import sys
assert not {"torch", "ray", "plotly", "numba"} & set(sys.modules)
print(middle - start, end - middle, used - end)
"""
BASELINE = ["-c", "import typer, rich"]


def main() -> None:
    """Print medians over fresh processes, and the ratios of the command line to importing its libraries."""
    runs = [
        [
            float(value)
            for value in subprocess.check_output([sys.executable, "-c", IMPORTS], text=True).split()
        ]
        for _ in range(N_RUNS)
    ]
    sklearn, package, estimator = map(statistics.median, zip(*runs, strict=True))
    print(f"import sklearn                              {sklearn:6.3f} s")
    print(f"then import deltauq                         {package:6.3f} s   (limit: 0.2 s)")
    print(f"then from deltauq import AnchoredRegressor  {estimator:6.3f} s")

    commands = {option: ["-m", "deltauq.cli", option] for option in ("--version", "--help")}
    times: dict[str, list[float]] = {name: [] for name in ("baseline", *commands)}
    for _ in range(N_RUNS):  # in turns, so that other load on the machine affects all alike
        for name, arguments in {"baseline": BASELINE, **commands}.items():
            times[name].append(seconds(arguments))
    baseline = statistics.median(times["baseline"])
    print(f"python -c 'import typer, rich'              {baseline:6.3f} s")
    for name in commands:
        median = statistics.median(times[name])
        command = f"deltauq {name}"
        print(f"{command:<43} {median:6.3f} s   {median / baseline:.2f} × (limit: 2 ×)")


def seconds(arguments: list[str]) -> float:
    """Return the time of a Python process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
