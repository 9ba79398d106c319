"""Which errors are those of a base estimator, and which are bugs."""

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.linear_model import Ridge

from deltauq.calibration import choose_delta
from deltauq.tables.errors import TableError, model_errors


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_model_errors(n_jobs):
    def call(function, *args):
        with model_errors("this table is rejected", Ridge()):
            list(Parallel(n_jobs=n_jobs)(delayed(function)(*args) for _ in range(2)))

    with pytest.raises(TableError, match="this table is rejected: Input X contains NaN"):
        call(Ridge().fit, [[np.nan]], [1.0])
    with pytest.raises(ValueError, match="broadcast") as caught:
        call(choose_delta, np.ones(2), np.ones(3))
    assert not isinstance(caught.value, TableError)
