"""Variants of anchoring for image classifiers, compared without SVHN.

Networks are trained without 5,000 training images. These are used for evaluation, clean and corrupted: one
half to fit scores and scalers, the other half to measure. Severe corruptions replace OOD images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deltauq.metrics import accuracy, auroc, ece, entropy, nll
from experiments.image_configs import (
    N_ANCHORS,
    NETWORK,
    NOISY,
    SCHEDULES,
    TRAINING_IMAGES,
    NetworkKind,
    TrainingRun,
)
from experiments.image_data import load_image_set
from experiments.image_logits import logits, seconds_per_image
from experiments.runner import Cell, Experiment, Outcome
from experiments.scoring import (
    Scorer,
    fitted_spread,
    fitted_temperature,
    mean_logits,
    posterior_of,
    spread,
    spread_scaled,
)
from experiments.tables import TableSpec

CORRUPTIONS = ("impulse_noise", "glass_blur", "fog", "contrast")
"""One of each type: noise, blur, weather, digital."""
SEVERITY = 5
HIDDEN_LAYERS = {"ResNet18": ("stages.2", "stages.3"), "ResNet20": ("stages.1", "stages.2")}
"""The middle stage, which follows half of the blocks of ResNet-18, and the last one."""
ALPHAS = (0.1, 0.25, 0.5)
SEEDS = {"quick": range(1), "paper": range(2)}

ANCHORED = NetworkKind("", anchored=True)


def settings(network: str) -> dict[str, NetworkKind]:
    """Return all variants by name."""
    middle, late = HIDDEN_LAYERS[network]
    variants = {
        "plain": NetworkKind(""),
        "anchored": ANCHORED,
        **masked("label", ""),
        "hidden-middle": replace(ANCHORED, at=middle),
        "hidden-late": replace(ANCHORED, at=late),
        "hidden-late-masked-0.25": replace(ANCHORED, at=late, mask=0.25),
        "consistent-0.1": replace(ANCHORED, copies=2, consistency=0.1),
        "consistent-1": replace(ANCHORED, copies=2, consistency=1.0),
        **masked("uniform", "-uniform"),
    }
    return {name: replace(kind, network=network) for name, kind in variants.items()}


def masked(target: str, suffix: str) -> dict[str, NetworkKind]:
    """Return the variants of masking with one target, by name."""
    return {
        f"masked-{alpha}{by}{suffix}": replace(ANCHORED, mask=alpha, mask_rows=rows, masked_target=target)
        for by, rows in (("", False), ("-rows", True))
        for alpha in ALPHAS
    }


QUICK = ("plain", "anchored", "hidden-late", "consistent-1", "masked-0.25", "masked-0.25-rows-uniform")


def cells(profile: str) -> list[Cell]:
    """Return one cell per setting and trial, the first trial of all settings first."""
    names = QUICK if profile == "quick" else tuple(settings(NETWORK[profile]))
    return [{"setting": name, "seed": seed} for seed in SEEDS[profile] for name in names]


def run(cell: Cell, profile: str) -> Outcome:
    """Train a variant and evaluate it on held-out images."""
    network = NETWORK[profile]
    schedule = replace(SCHEDULES[profile]["linear"], held_out=True)
    training = TrainingRun(settings(network)[cell["setting"]], schedule, cell["seed"], profile)
    sets = {name: f"validation/{name}/{SEVERITY}" for name in CORRUPTIONS}
    clean = logits(training, "validation")
    shifted = {name: logits(training, images) for name, images in sets.items()}
    classes = load_image_set("validation", profile).labels
    metrics = {
        **classifier(clean, shifted, classes),
        **scores(clean, shifted),
        **by_anchors(training, sets, classes),
        "microseconds_per_image": 1e6 * seconds_per_image(training, "validation", N_ANCHORS),
    }
    return Outcome(metrics)


def by_anchors(training: TrainingRun, sets: Mapping[str, str], classes: np.ndarray) -> dict[str, float]:
    """Return how well σ works with clean anchors and with noisy ones.

    Parameters
    ----------
    sets : mapping of str to str
        Image sets by corruption. That of the noisy anchors is left out.
    classes : int array of shape (n,)

    Returns
    -------
    metrics : dict of str to float
        AUROC of the entropy and of σ for corrupted against clean images, and the calibration on corrupted
        images with a temperature and with a function of σ, both fitted on clean ones. Empty for a plain
        network.
    """
    if not training.kind.anchored:
        return {}
    others = {name: images for name, images in sets.items() if name != "impulse_noise"}
    metrics = {}
    for kind, anchors in (("clean", TRAINING_IMAGES), ("noisy", NOISY)):
        clean = logits(training, "validation", anchors)
        shifted = {name: logits(training, images, anchors) for name, images in others.items()}
        metrics[f"auroc_half_{kind}"] = mean_auroc(_halved_entropy, clean, shifted)
        metrics[f"auroc_sigma_{kind}"] = mean_auroc(spread, clean, shifted)
        for scaling, fit in (("temperature", fitted_temperature), ("fitted", fitted_spread)):
            scorer = fit(clean[:, ::2], classes[::2])
            for name, metric in (("ece", ece), ("nll", nll)):
                figures = [metric(classes[1::2], scorer(k[:, 1::2]).probabilities) for k in shifted.values()]
                metrics[f"{name}_{scaling}_{kind}"] = float(np.mean(figures))
    return metrics


def classifier(clean: np.ndarray, shifted: Mapping[str, np.ndarray], classes: np.ndarray) -> dict[str, float]:
    """Return accuracy and calibration on the images for measuring, clean and corrupted.

    Parameters
    ----------
    clean : array of shape (K, n, 10)
        Logits.
    shifted : mapping of str to array of shape (K, n, 10)
        Of the same images with corruptions; the metrics are averaged over these.
    classes : int array of shape (n,)

    Returns
    -------
    metrics : dict of str to float
        Calibration of the mean logits unscaled, halved, scaled by 0.5 − σ², by a fitted temperature, and
        by a fitted function of σ; with "shifted" in the name for corrupted images.
    """
    scorers: dict[str, Scorer] = {
        "mean": mean_logits(1.0),
        "half": mean_logits(0.5),
        "uq": spread_scaled,
        "temperature": fitted_temperature(clean[:, ::2], classes[::2]),
        "fitted": fitted_spread(clean[:, ::2], classes[::2]),
    }
    classes, clean, shifts = classes[1::2], clean[:, 1::2], [k[:, 1::2] for k in shifted.values()]
    metrics = {}
    for name, scorer in scorers.items():
        stated, under_shift = scorer(clean).probabilities, [scorer(k).probabilities for k in shifts]
        if name == "mean":
            metrics["accuracy"] = accuracy(classes, stated)
            metrics["accuracy_shifted"] = float(np.mean([accuracy(classes, k) for k in under_shift]))
        metrics[f"ece_{name}"] = ece(classes, stated)
        metrics[f"nll_{name}"] = nll(classes, stated)
        metrics[f"ece_{name}_shifted"] = float(np.mean([ece(classes, k) for k in under_shift]))
        metrics[f"nll_{name}_shifted"] = float(np.mean([nll(classes, k) for k in under_shift]))
    return metrics


def scores(clean: np.ndarray, shifted: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the AUROC of scores for corrupted against clean images, averaged over the corruptions.

    Parameters
    ----------
    clean : array of shape (K, n, 10)
    shifted : mapping of str to array of shape (K, n, 10)

    Returns
    -------
    metrics : dict of str to float
        For the entropy of the mean logits, unscaled, halved and scaled by 0.5 − σ²; for σ alone; and for two
        scores fitted on the other corruptions, from the mean logits without and with σ.
    """
    single: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "mean": lambda k: mean_logits(1.0)(k).ood_score,
        "half": _halved_entropy,
    }
    fitted = {"fitted_mean": mean_features}
    if len(clean) > 1:
        single |= {"uq": lambda k: spread_scaled(k).ood_score, "sigma": spread}
        fitted |= {"fitted_sigma": all_features}
    metrics = {f"auroc_{name}": mean_auroc(score, clean, shifted) for name, score in single.items()}
    for name, features in fitted.items():
        metrics[f"auroc_{name}"] = float(
            np.mean([_fitted_auroc(features, clean, shifted, c) for c in shifted])
        )
    return metrics


def _halved_entropy(under_anchors: np.ndarray) -> np.ndarray:
    return mean_logits(0.5)(under_anchors).ood_score


def mean_auroc(
    score: Callable[[np.ndarray], np.ndarray], clean: np.ndarray, shifted: Mapping[str, np.ndarray]
) -> float:
    """Return the AUROC of a score of logits on the images for measuring, averaged over the corruptions."""
    return float(np.mean([auroc(score(clean[:, 1::2]), score(k[:, 1::2])) for k in shifted.values()]))


def mean_features(under_anchors: np.ndarray) -> np.ndarray:
    """Return features of the mean logits, of shape (n, 3): two entropies and the free energy."""
    mean = under_anchors.mean(axis=0)
    entropies = [np.log(entropy(softmax(scale * mean, axis=-1)) + 1e-12) for scale in (0.5, 1.0)]
    return np.stack([*entropies, -logsumexp(mean, axis=-1)], axis=1)


def all_features(under_anchors: np.ndarray) -> np.ndarray:
    """Return the features of the mean logits, and σ of the sigmoids and of the logits, of shape (n, 5)."""
    of_logits = np.sqrt(posterior_of(under_anchors).var.sum(axis=-1))
    spreads = np.log(np.stack([spread(under_anchors), of_logits], axis=1) + 1e-12)
    return np.concatenate([mean_features(under_anchors), spreads], axis=1)


def _fitted_auroc(
    features: Callable[[np.ndarray], np.ndarray],
    clean: np.ndarray,
    shifted: Mapping[str, np.ndarray],
    left_out: str,
) -> float:
    """Return the AUROC, on one corruption, of a score fitted on the other corruptions."""
    inside = features(clean[:, ::2])
    outside = np.concatenate([features(k[:, ::2]) for name, k in shifted.items() if name != left_out])
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    model.fit(np.concatenate([inside, outside]), np.repeat([0, 1], [len(inside), len(outside)]))
    scores = (model.decision_function(features(k[:, 1::2])) for k in (clean, shifted[left_out]))
    return auroc(*scores)


SCALINGS = {
    "mean": "unscaled",
    "half": "× 0.5",
    "uq": "× (0.5 − σ²)",
    "temperature": "temperature",
    "fitted": "T(σ)",
}
NAMES = {
    "auroc_sigma": "σ",
    "auroc_fitted_mean": "fitted, mean",
    "auroc_fitted_sigma": "fitted, mean and σ",
    "accuracy_shifted": "accuracy, corrupted",
    "microseconds_per_image": "µs per image",
    "ece_mean": "ECE",
    "ece_half": "ECE, × 0.5",
    "ece_mean_shifted": "ECE, corrupted",
    "ece_half_shifted": "ECE, × 0.5, corrupted",
    **{f"auroc_{scaling}": f"AUROC, {name}" for scaling, name in SCALINGS.items()},
    **{f"nll_{scaling}_shifted": name for scaling, name in SCALINGS.items()},
    **{f"auroc_half_{kind}": f"AUROC, × 0.5, {kind}" for kind in ("clean", "noisy")},
    **{f"auroc_sigma_{kind}": f"AUROC, σ, {kind}" for kind in ("clean", "noisy")},
    **{
        f"{metric}_fitted_{kind}": f"{metric.upper()}, {SCALINGS['fitted']}, {kind}"
        for metric in ("ece", "nll")
        for kind in ("clean", "noisy")
    },
}
"""Names of columns."""

EXPERIMENT = Experiment(
    "anchoring-variants",
    1,
    "Variants of anchoring for image classifiers",
    cells,
    run,
    stored_as="beyond",
    tables=(
        TableSpec(
            "Quality and cost on held-out images",
            ("auroc_half", "accuracy", "accuracy_shifted", "microseconds_per_image"),
            "setting",
            best=None,
            labels=NAMES,
            note="AUROC: severe corruptions against clean images, by the entropy of the halved mean logits, "
            "mean of four corruptions. Time: 10 anchors, or one pass of the plain network.",
        ),
        TableSpec(
            "Calibration of the mean logits, clean and corrupted",
            ("ece_mean", "ece_half", "ece_mean_shifted", "ece_half_shifted"),
            "setting",
            best=None,
            labels=NAMES,
            note="Unscaled and halved; mean of four severe corruptions.",
        ),
        TableSpec(
            "Does σ over anchors add anything to the mean? AUROC of scores",
            (
                "auroc_mean",
                "auroc_half",
                "auroc_uq",
                "auroc_sigma",
                "auroc_fitted_mean",
                "auroc_fitted_sigma",
            ),
            "setting",
            best="max",
            labels=NAMES,
            note="Entropy of the mean logits, of their halves, of the logits times 0.5 − σ²; σ alone; scores "
            "fitted on three corruptions and measured on the fourth, without σ and with it.",
        ),
        TableSpec(
            "Does it add anything to calibration? Negative log-likelihood under corruptions",
            tuple(f"nll_{scaling}_shifted" for scaling in ("mean", "half", "uq", "temperature", "fitted")),
            "setting",
            best="min",
            labels=NAMES,
            note="Mean logits unscaled, halved, times 0.5 − σ², divided by a temperature, and scaled by a "
            "function of σ; the last two fitted on clean held-out images.",
        ),
        TableSpec(
            "The same under clean anchors and under noisy ones",
            tuple(
                f"{column}_{kind}"
                for column in ("auroc_half", "auroc_sigma", "ece_fitted", "nll_fitted")
                for kind in ("clean", "noisy")
            ),
            "setting",
            best=None,
            labels=NAMES,
            note="AUROC of scores, and calibration by T(σ), under corruptions, without impulse noise; noisy "
            "anchors are the same training images with impulse noise of severity 1. A temperature gives the "
            "same but for rounding.",
        ),
    ),
    notes=(
        "ResNet-18, 40 epochs with a linearly decreasing learning rate, 45,000 training images; the other "
        "5,000 are the evaluation set. SVHN is not used. “masked”: the share of batches, or of rows, with "
        "masked anchors, with the true label or the uniform distribution as target. “hidden”: the tensor "
        "before the third or the last stage is anchored. “consistent”: two anchors per step, with this "
        "weight of their variance in the loss. Masking with the true label helps most; σ over anchors adds "
        "little to the mean logits."
    ),
)
