"""Checks of the contract of anchored estimators."""

from deltauq.testing.contract import (
    EXPECTED_FAILED_CHECKS,
    check_contract,
    check_pickle,
    check_posterior,
    check_row_independence,
    check_same_seed,
    expected_failed_checks,
)

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "check_contract",
    "check_pickle",
    "check_posterior",
    "check_row_independence",
    "check_same_seed",
    "expected_failed_checks",
]
