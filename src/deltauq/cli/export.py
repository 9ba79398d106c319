"""`deltauq export`."""

import json
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from deltauq.cli.complaints import BadInput, check_writable, complaint_about, told_in_one_line


class FormatWord(StrEnum):
    """What `--format` may be."""

    onnx = "onnx"
    mlflow = "mlflow"


class LinkWord(StrEnum):
    """What `--link` may be."""

    sigmoid = "sigmoid"
    softmax = "softmax"


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    @app.command()
    def export(
        model: Annotated[
            Path, typer.Argument(help="A model folder of `deltauq fit`, or the file of a saved network.")
        ],
        out: Annotated[Path, typer.Option("--out", "-o", help="The ONNX file, or the MLflow folder.")],
        form: Annotated[
            FormatWord, typer.Option("--format", help="onnx takes forests, trees and networks.")
        ] = FormatWord.onnx,
        link: Annotated[
            LinkWord | None, typer.Option(help="Of a network: return probabilities behind this link.")
        ] = None,
        trust: Annotated[
            list[str] | None, typer.Option(help="A type of your own that the model may hold, by full name.")
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON.")] = False,
    ) -> None:
        """Write a model, anchors inside, for programs that know nothing of deltauq, or for MLflow."""
        run_export(model, out, form, None if link is None else link.value, trust or [])
        if as_json:
            print(json.dumps({"model": str(model), "format": form.value, "out": str(out.resolve())}))
        else:
            print(f"{'ONNX file' if form == FormatWord.onnx else 'MLflow model'}: {out.resolve()}")


def run_export(model: Path, out: Path, form: FormatWord, link: str | None, trust: list[str]) -> None:
    """Load a model and write it in another format.

    Parameters
    ----------
    model, out : Path
    form : FormatWord
    link : str or None
        For a network in ONNX.
    trust : list of str
        Further types that the model may hold.
    """
    from deltauq.export import export_mlflow, export_onnx, load

    check_writable(out)
    if link is not None and form == FormatWord.mlflow:
        raise BadInput("--link is for networks, which --format mlflow does not take")
    if link is not None and model.is_dir():
        raise BadInput(f"--link is for networks: {model} is a model folder, whose outputs are as predict's")
    if not model.exists():
        raise BadInput(f"there is no model folder {model}, nor a file of that name")
    with told_in_one_line(), complaint_about(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = load(model, trust=trust)
            if form == FormatWord.onnx:
                export_onnx(loaded, out, link=link)
            else:
                export_mlflow(loaded, out)
        except (ValueError, TypeError, FileNotFoundError, FileExistsError) as error:
            raise BadInput(str(error)) from error
