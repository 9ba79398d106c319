"""ONNX graphs, put together a node at a time."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from deltauq.utils.install import install_command

EXTRA = "export"
OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
"""Versions that runtimes of 2023 and later read; the last two are of the trees, and of the file itself."""
ML = "ai.onnx.ml"
ROWS = "n"


def require_onnx() -> ModuleType:
    """Return onnx, or say in one line what to install."""
    try:
        return import_module("onnx")
    except ImportError as error:
        raise ImportError(f"ONNX files need onnx: {install_command(EXTRA)}.") from error


class Graph:
    """A graph that grows: constants, inputs and nodes go in, and the names of tensors come out."""

    def __init__(self) -> None:
        self._onnx = require_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._names = 0

    def cast(self, tensor: str, dtype: Any) -> str:
        """Add a conversion to another dtype and return its name."""
        return self.node("Cast", tensor, to=self._kind(dtype))

    def input(self, name: str, dtype: Any, *shape: int) -> str:
        """Add an input of shape (n, *shape) and return its name."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, tensor: str, dtype: Any, *shape: int) -> None:
        """Call a tensor of shape (n, *shape) an output; underscores tell it from an input of that name."""
        while any(name == given.name for given in self._inputs):
            name += "_"
        self._nodes.append(self._onnx.helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, value: Any) -> str:
        """Add an array, whose dtype is kept, and return its name."""
        name = self._new_name()
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation with one output and return its name."""
        name = self._new_name()
        self._nodes.append(
            self._onnx.helper.make_node(operator, list(inputs), [name], domain=domain, **attributes)
        )
        return name

    def model(self, about: dict[str, str]) -> Any:
        """Return the model, checked, with a few words about it."""
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
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model)
        return model

    def _new_name(self) -> str:
        # With a sign that no column of a table begins with by chance.
        self._names += 1
        return f"#{self._names}"

    def _value(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._kind(dtype), [ROWS, *shape])

    def _kind(self, dtype: Any) -> int:
        if dtype is str:
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
