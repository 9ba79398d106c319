"""An anchored network as an ONNX graph, by PyTorch's own exporter."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import Any

from deltauq.io.onnx_graph import INSTALL, OPSET, ROWS

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
    import torch

    from deltauq.nn.predictor import AnchorPredictor

    try:
        import_module("onnxscript")
    except ImportError as error:
        raise ImportError(f"ONNX files of networks need onnxscript: {INSTALL}.") from error
    device = net.anchors.device
    predictor = AnchorPredictor(net.cpu(), link)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        # Of its own workings, and of operators of packages that are not installed.
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                predictor,
                # A copy: what shares memory with a buffer is taken for that buffer.
                (net.anchors[:2].clone(),),
                input_names=[f"#{INPUT}"],
                output_names=[f"#{name}" for name in OUTPUTS],
                dynamic_shapes={"x": {0: torch.export.Dim(ROWS)}},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    finally:
        logger.setLevel(level)
        net.to(device)
    assert program is not None
    model = _named(program.model_proto)
    import_module("onnx").helper.set_model_props(model, about)
    return model


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
