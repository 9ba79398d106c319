"""An anchored network as an ONNX graph, by PyTorch's own exporter."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from deltauq.export.onnx_graph import EXTRA, OPSET, ROWS
from deltauq.utils.install import install_command

INPUT, OUTPUTS = "x", ("mean", "std")


def network_graph(net: Any, link: str | None, about: dict[str, str]) -> Any:
    """Return the ONNX model of a network: input `x`, outputs `mean` and `std`.

    Parameters
    ----------
    net : Anchored
    link : {"sigmoid", "softmax"} or None
    about : dict of str to str
        Written into the file.

    Returns
    -------
    model : onnx ModelProto
    """
    from deltauq.nn import evaluating

    try:
        import_module("onnxscript")
    except ImportError as error:
        raise ImportError(f"ONNX files of networks need onnxscript: {install_command(EXTRA)}.") from error
    device = net.anchors.device
    try:
        with evaluating(net), _silence():
            model = _named(_exported(net.cpu(), link))
    finally:
        net.to(device)
    import_module("onnx").helper.set_model_props(model, about)
    return model


def _exported(net: Any, link: str | None) -> Any:
    """Return the model with names of its own for inputs and outputs."""
    import torch

    from deltauq.nn.predictor import AnchorPredictor

    program = torch.onnx.export(
        AnchorPredictor(net, link),
        # A copy: what shares memory with a buffer is taken for that buffer.
        (net.anchors[:2].clone(),),
        input_names=[f"#{INPUT}"],
        output_names=[f"#{name}" for name in OUTPUTS],
        dynamic_shapes={"x": {0: torch.export.Dim(ROWS)}},
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


@contextmanager
def _silence() -> Iterator[None]:
    """Keep back what the exporter says of its own workings, and of packages that are not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _named(model: Any) -> Any:
    """Give inputs and outputs their names, and others to tensors that the exporter has called so itself."""
    names = (INPUT, *OUTPUTS)
    new = {name: f"inner {name}" for name in names} | {f"#{name}": name for name in names}
    graph = model.graph
    for node in graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [new.get(name, name) for name in tensors]
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)
    return model
