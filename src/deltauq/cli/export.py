"""`deltauq export`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from deltauq.cli import options
from deltauq.cli.files import check_writable, os_errors_as_input_errors
from deltauq.utils.errors import InputError

app = options.new_app()


@app.command()
def export(
    model: Annotated[
        Path, typer.Argument(help="Model folder written by `deltauq fit`, or the file of a saved network.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="ONNX file or MLflow folder to write.")],
    format_: Annotated[
        Literal["onnx", "mlflow"],
        typer.Option("--format", help="onnx needs models of trees, boosting or linear models, or a network."),
    ] = "onnx",
    link: Annotated[
        Literal["sigmoid", "softmax"] | None,
        typer.Option(help="Of a network whose outputs are logits: export probabilities."),
    ] = None,
    trust: options.Trust = None,
    as_json: options.Json = False,
) -> None:
    """Write a model as an ONNX file or an MLflow model."""
    from deltauq.export import export_mlflow, export_onnx, load

    check_writable(out)
    if not model.exists():
        raise InputError(f"there is no model folder or file {model}")
    if link is not None and model.is_dir():
        raise InputError(f"--link is for networks, but {model} is a model folder")
    if format_ == "mlflow" and not model.is_dir():
        raise InputError(f"--format mlflow needs a model folder, but {model} is a file")
    with os_errors_as_input_errors(out):
        loaded = load(model, trust=trust or [])
        if format_ == "onnx":
            export_onnx(loaded, out, link=link)
        else:
            export_mlflow(loaded, out)
    if as_json:
        print(json.dumps({"model": str(model), "format": format_, "out": str(out.resolve())}))
    else:
        print(f"{'ONNX file' if format_ == 'onnx' else 'MLflow model'}: {out.resolve()}")
