"""The thresholds of the recommendation; `decide` documents its rule."""

CONFIDENCE = 0.95
"""Of the one-sided test: noise alone makes a difference significant in one case out of twenty."""
PREDICTED_ROWS = 1000
"""The rows whose prediction is part of what a method costs."""
COST_FACTOR = 1.5
"""Costs closer than this are equal: run times are noisy."""
ERROR_MARGIN = 0.01
"""A difference below this fraction of the smaller error does not count."""
ACCURACY_MARGIN = 0.001
"""Nor does a difference between accuracies that the table does not show."""
NOTABLE_ERROR_MARGIN = 0.05
"""A difference of this fraction counts as a possible loss, even where it is not significant."""
NOTABLE_ACCURACY_MARGIN = 0.01
"""Accuracies must also differ by this much: a fraction of a small error rate is a few rows."""
RANK_MARGIN = 0.05
"""Two rankings closer than this are equally good."""
USEFUL_RANK = 0.1
"""A ranking below this is not used."""
MAX_WIDTH_RATIO = 2.0
"""An alternative whose intervals are this many times as wide as those of constant width is not used."""
WIDTH_MARGIN = 0.1
"""Calibrated intervals wider than those of constant width by this fraction do not count as an improvement."""
COVERAGE_MARGIN = 0.05
"""Uncalibrated intervals this far from their nominal coverage need calibration."""
