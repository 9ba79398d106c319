"""Names of methods, datasets and metrics in tables and figures."""

from __future__ import annotations

from deltauq.data import OPENML

ENCODINGS = {"identity": "X", "difference": "X − R", "two-anchor": "X − R₁ − R₂"}

METHODS = {
    "delta-uq": "Δ-UQ",
    "delta-labelled": "labelled anchors",
    "delta-labelled-difference": "labelled anchors, [R, X − R]",
    "delta-uq-paper": "Δ-UQ, the paper's setting",
    "gp": "Gaussian process",
    "ensemble": "ensemble",
    "deup": "DEUP",
    "plain": "plain",
    "tree-spread-5": "5 trees' spread",
    "tree-spread-100": "100 trees' spread",
    "quantile-forest": "quantile forest",
    "ngboost": "NGBoost",
    "scaled": "plain, logits × 0.5",
    "delta-mean": "Δ, mean",
    "delta-mean-scaled": "Δ, mean × 0.5",
    "delta-trivial": "Δ, trivial encoding",
    "delta-uq-batch": "Δ-UQ, own anchors",
    "delta-masked": "Δ-UQ, masked",
    "delta-masked-mean": "Δ, masked, mean",
    "temperature-shifted": "temperature, shifted",
    "delta-masked-rows-temperature": "Δ, rows, T",
    "delta-masked-rows-temperature-shifted": "Δ, rows, T, shifted",
    "delta-masked-rows-both-temperature-shifted": "Δ, rows, ± mask, T, shifted",
    "delta-masked-rows-both-fitted-shifted": "Δ, rows, ± mask, T(σ), shifted",
    "delta-masked-1": "Δ, masked, K = 1, × 0.5",
    "delta-masked-rows": "Δ-UQ, rows masked",
    "delta-masked-both": "Δ, masked, with and without mask",
    "delta-masked-rows-both": "Δ, rows, with and without mask",
    "delta-masked-rows-mean": "Δ, rows, mean",
    "mc-dropout": "MC dropout",
    "temperature": "temperature",
    "svi": "variational (SVI)",
    "ensemble-5": "ensemble of 5",
    "duq": "DUQ",
    "vbll": "VBLL",
}

# Underscores and hyphens become spaces, where a narrow column may break.
DATASETS = {
    str(id): f"{id} {table.title.replace('_', ' ').replace('-', ' ')}" for id, table in OPENML.items()
}

FUNCTIONS = {
    "booth": "Booth",
    "levi": "Lévi N. 13",
    "multi-optima": "Multi-Optima",
    "ackley": "Ackley",
    "sinusoid": "Sinusoid",
    "hartmann-6": "Hartmann, 6 inputs",
    "ackley-5": "Ackley, 5 inputs",
    "rosenbrock-4": "Rosenbrock, 4 inputs",
    "branin-noise": "Branin with noise",
}

METRICS = {"auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR at 95 % TPR", "ece": "ECE"}

DISPLAY_NAMES = {**ENCODINGS, **METHODS, **METRICS, **DATASETS, **FUNCTIONS}
"""Value of a cell to its name in tables and figures; other values are shown as they are."""
