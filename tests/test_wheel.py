"""The wheel, built and installed into an environment of its own."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from sklearn.datasets import load_diabetes

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# Packages of all extras except cli and report.
OTHER_EXTRAS = (
    *("lightning_fabric", "numba", "safetensors", "torch", "botorch", "ngboost", "quantile_forest", "PIL"),
    *("pandas", "pyarrow", "skops", "onnx", "onnxruntime", "onnxscript", "mlflow", "fsspec", "ray"),
)

pytestmark = pytest.mark.slow


def check_output(command, folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    check_output([*PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", folder, ROOT], folder)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory):
    """The programs of a new environment with the wheel; it finds the dependencies in this environment."""
    folder = tmp_path_factory.mktemp("environment")
    check_output([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    check_output([*PIP, "--python", programs / "python", "install", "--no-deps", "--no-index", wheel], folder)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(check_output([programs / "python", "-c", ask], folder).strip())
    # A path in a .pth file is searched last, and .pth files inside it, such as that of an editable
    # installation of this checkout, are ignored.
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(paths))
    return programs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the tables train.csv and test.csv."""
    folder = tmp_path_factory.mktemp("work")
    frame = load_diabetes(as_frame=True).frame
    frame[:200].to_csv(folder / "train.csv", index=False)
    frame[200:].to_csv(folder / "test.csv", index=False)
    return folder


def test_files_in_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"deltauq"}
    assert not [name for name in names if "experiment" in name]
    expected = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    expected |= {f"deltauq/plots/templates/page.{suffix}" for suffix in ("html", "css", "js")}
    assert expected <= set(names)


def test_checkout_is_not_imported(bin_folder, folder):
    ask = "import deltauq, importlib.util; print(deltauq.__file__, importlib.util.find_spec('experiments'))"
    file, experiments = check_output([bin_folder / "python", "-c", ask], folder).split()
    assert Path(file).is_relative_to(bin_folder.parent) and experiments == "None"


def test_demo_with_the_cli_and_report_extras_only(bin_folder, folder):
    program = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OTHER_EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
sys.argv = ["deltauq", "demo"]
from deltauq.cli import main
main()
"""
    assert "Page: " in check_output([bin_folder / "python", "-c", program], folder)
    assert (folder / "deltauq-demo.html").read_text(encoding="utf-8").count('class="plot"') == 4


def test_commands(bin_folder, folder):
    def deltauq(*arguments):
        return check_output([bin_folder / "deltauq", *arguments], folder)

    options = ("--target", "target", "--model", "tree")
    result = json.loads(deltauq("assess", "train.csv", *options, "--html", "assess.html", "--json"))
    assert Path(result["page"]).samefile(folder / "assess.html")
    assert "training rows" in deltauq("fit", "train.csv", *options, "-o", "model")
    assert "242 rows" in deltauq("predict", "model", "test.csv", "-o", "predictions.csv")
    assert len((folder / "predictions.csv").read_text().splitlines()) == 243
    assert "median absolute error" in deltauq("evaluate", "model", "test.csv", "--html", "evaluate.html")
    assert (folder / "evaluate.html").stat().st_size > 1e6
    deltauq("export", "model", "-o", "model.onnx")
    assert (folder / "model.onnx").stat().st_size > 1e3
