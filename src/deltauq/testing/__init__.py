"""Contract checks for anchored estimators, ours and other people's."""

from deltauq.testing.contract import (
    check_contract,
    check_pickle,
    check_posterior,
    check_rows_stand_alone,
    check_same_seed,
)
from deltauq.testing.expected import EXPECTED_FAILED_CHECKS, expected_failed_checks

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "check_contract",
    "check_pickle",
    "check_posterior",
    "check_rows_stand_alone",
    "check_same_seed",
    "expected_failed_checks",
]
