# SPDX-License-Identifier: Apache-2.0
"""Draws what `tocsin-bench quota --samples FILE` has written: python3 Tests/Plots/quota.py OUTPUT.png NAME=FILE ..."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# Seconds over which rates are averaged.
WINDOW = 5


def smooth(values: list[float]) -> list[float]:
    return [sum(values[max(0, i - WINDOW + 1) : i + 1]) / len(values[max(0, i - WINDOW + 1) : i + 1]) for i in range(len(values))]


def draw(axes, below, name: str, file: str) -> None:
    with open(file, newline="") as source:
        rows = list(csv.DictReader(source))
    seconds = [int(row["second"]) for row in rows]

    def column(key: str) -> list[float]:
        return [float(row[key]) for row in rows]

    axes.step(seconds, column("quota"), where="post", color="0.75", linewidth=2, label="quota (after the ramp)")
    axes.plot(seconds, smooth(column("submitted")), color="tab:blue", linewidth=1, label="submitted")
    axes.plot(seconds, smooth(column("accepted")), color="tab:green", linewidth=1.2, label="accepted")
    axes.plot(seconds, smooth(column("refused")), color="tab:red", linewidth=1, label="refused (429)")
    axes.set_title(name, loc="left", fontsize=10)
    axes.set_ylabel("notifications a second")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    below.plot(seconds, smooth(column("in_flight")), color="tab:purple", linewidth=1)
    below.set_ylabel("in flight")
    below.set_ylim(bottom=0)
    below.grid(alpha=0.3)


def main() -> None:
    output, *inputs = sys.argv[1:]
    figure, axes = pyplot.subplots(
        2 * len(inputs), 1, sharex=True, figsize=(10, 3.6 * len(inputs)), gridspec_kw={"height_ratios": [3, 1] * len(inputs)}
    )
    for index, text in enumerate(inputs):
        name, file = text.split("=", 1)
        draw(axes[2 * index], axes[2 * index + 1], name, file)
    axes[0].legend(loc="upper right", fontsize=8, ncol=4)
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(output, dpi=110)


if __name__ == "__main__":
    main()
