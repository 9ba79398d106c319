"""Contract checks for anchored estimators, including those of third parties."""

from deltauq.testing.contract import (
    check_contract,
    check_pickle,
    check_posterior,
    check_row_independence,
    check_same_seed,
)
from deltauq.testing.expected import EXPECTED_FAILED_CHECKS, expected_failed_checks

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "check_contract",
    "check_pickle",
    "check_posterior",
    "check_row_independence",
    "check_same_seed",
    "expected_failed_checks",
]
