"""ONNX graphs: a builder of inputs, constants, nodes and outputs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from deltauq.utils.install import import_optional

EXTRA = "export"
OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
"""Versions of the operators, of those for trees, and of the file; supported by runtimes since 2023."""
ML = "ai.onnx.ml"
ROWS = "n"


def require_onnx() -> ModuleType:
    """Return onnx, or raise an error that says what to install."""
    return import_optional("onnx", "ONNX files need onnx", EXTRA)


class Graph:
    """Builds a graph: constants, inputs and nodes are added, and the names of their tensors returned."""

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._n_names = 0

    def cast(self, tensor: str, dtype: Any) -> str:
        """Add a conversion to another dtype."""
        return self.node("Cast", tensor, to=self._kind(dtype))

    def input(self, name: str, dtype: Any, *shape: int) -> str:
        """Add an input of shape (n, *shape)."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, tensor: str, dtype: Any, *shape: int) -> None:
        """Add an output of shape (n, *shape); underscores are appended to the name of an input."""
        while any(name == value.name for value in self._inputs):
            name += "_"
        self._nodes.append(self._onnx.helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, value: Any) -> str:
        """Add an array, with its dtype."""
        name = self._new_name()
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add an operation with one output. Inputs are names of tensors, and numbers, lists or arrays."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = self._new_name()
        make = self._onnx.helper.make_node
        self._nodes.append(make(operator, names, [name], domain=domain, **attributes))
        return name

    def tensor(self, values: np.ndarray) -> Any:
        """Return an array as the attribute of a node."""
        return self._onnx.numpy_helper.from_array(values)

    def model(self, metadata: dict[str, str]) -> Any:
        """Return the checked model."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "deltauq", self._inputs, self._outputs, initializer=self._constants
        )
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            producer_name="deltauq",
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)],
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        return model

    def _new_name(self) -> str:
        # Names of columns rarely begin with "#".
        self._n_names += 1
        return f"#{self._n_names}"

    def _value(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._kind(dtype), [ROWS, *shape])

    def _kind(self, dtype: Any) -> int:
        if dtype is str:
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
