"""What tests of ONNX files share."""

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def session_of(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(path, **inputs):
    """Return the outputs of a file by name."""
    session = session_of(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def metadata_of(path):
    return session_of(path).get_modelmeta().custom_metadata_map


def inputs_of(model, frame):
    """Return the inputs of the graph of a table model, as documented by `export_onnx`."""
    X = model.schema.read(frame)
    return {
        column.name: X[[column.name]].to_numpy(dtype=object if column.kind == "category" else np.float64)
        for column in model.schema.columns
    }


def assert_near(actual, expected, unit=1.0):
    """Assert that all values differ by about a millionth, relative to themselves or to a unit."""
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6 * unit)


def assert_nearly_all_near(actual, expected, unit=1.0):
    """Assert the same for 99 % of the values: rounded means may reach other leaves of `Difficulty`."""
    near = np.isclose(actual, expected, rtol=1e-6, atol=1e-6 * unit)
    assert near.mean() >= 0.99, f"{np.count_nonzero(~near)} of {near.size} values differ"
    np.testing.assert_allclose(actual, expected, rtol=0.1, atol=unit)
