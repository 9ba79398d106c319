"""Imports of the package."""

import subprocess
import sys

import numpy as np
import pytest

import deltauq


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_import_loads_no_optional_package():
    loaded = run("import sys, deltauq, deltauq.estimators; print(*sys.modules)").split()
    assert "sklearn" in loaded
    assert not {"torch", "ray", "plotly", "numba", "typer"} & set(loaded)


def test_prediction_does_not_load_torch():
    program = """
import sys, importlib.util
assert importlib.util.find_spec("torch")
from deltauq import AnchoredRegressor
from sklearn.linear_model import Ridge
AnchoredRegressor(Ridge(), random_state=0).fit([[0.], [1.], [2.]], [0., 1., 2.]).predict([[1.]])
print("torch" in sys.modules)
"""
    assert run(program).strip() == "False"


def test_public_names():
    assert set(deltauq.__all__) <= set(dir(deltauq))
    for name in deltauq.__all__:
        assert getattr(deltauq, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'AnchoredForest'"):
        _ = deltauq.AnchoredForest


def test_trees_predict_the_same_without_numba():
    program = """
import sys
if {hide}:
    sys.modules["numba"] = None
import numpy as np
from deltauq import AnchoredRegressor
from sklearn.ensemble import RandomForestRegressor
X = np.random.default_rng(0).normal(size=(50, 3))
model = AnchoredRegressor(RandomForestRegressor(3), n_anchors=7, random_state=0).fit(X, X[:, 0])
posterior = model.posterior(np.random.default_rng(1).normal(size=(40, 3)))
print(posterior.mean.tobytes().hex(), posterior.var.tobytes().hex())
"""
    assert run(program.replace("{hide}", "True")) == run(program.replace("{hide}", "False"))


def test_versions_of_installed_packages(capsys):
    deltauq.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Python {sys.version_info.major}.")
    assert lines[1] == f"deltauq {deltauq.__version__}"
    assert f"numpy {np.__version__}" in lines and not any("'" in line for line in lines)
