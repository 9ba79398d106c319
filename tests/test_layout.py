"""Packages use only public modules and names of each other."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/deltauq", "experiments", "tests", "benchmarks", "docs")
EXCEPTIONS = {
    ("benchmarks/bench_trees.py", "deltauq.estimators._packed_trees"),
    ("docs/pictures.py", "deltauq.plots._colours"),
    ("docs/reference.py", "deltauq.cli.main._build_app"),
    ("experiments/sequential.py", "deltauq.bo._propose.are_new"),
    ("experiments/sequential.py", "deltauq.bo._propose.like"),
    ("experiments/sequential.py", "deltauq.bo._surrogate.Surrogate"),
    ("src/deltauq/assessment/anchoring.py", "deltauq.estimators._bases.count_trees"),
    ("src/deltauq/assessment/anchoring.py", "deltauq.estimators._bases.max_pairs"),
    ("src/deltauq/assessment/anchoring.py", "deltauq.estimators._bases.trains_by_epochs"),
    ("src/deltauq/assessment/anchoring.py", "deltauq.estimators._pairing.count_train_anchors"),
    ("src/deltauq/assessment/jobs.py", "deltauq.estimators._validation.validated"),
    ("src/deltauq/assessment/run.py", "deltauq.estimators._bases.tags_of"),
    ("src/deltauq/assessment/run.py", "deltauq.estimators._validation.validated"),
    ("src/deltauq/export/onnx_trees.py", "deltauq.estimators._packed_trees.packable"),
    ("tests/cli/test_broken_inputs.py", "deltauq.tables.folder._digest"),
}
"""Violations that are still to be removed."""


def package_of(parts):
    """Return the package that a module path belongs to: tests belong to the package that they test."""
    inside = parts[0] in ("deltauq", "tests") and len(parts) > 1
    return parts[1].removesuffix(".py") if inside else parts[0]


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private_elsewhere(name, package):
    parts = name.split(".")
    private = any(part.startswith("_") and not part.startswith("__") for part in parts[1:])
    ours = parts[0] in ("deltauq", "experiments") and name != "deltauq._version.__version__"
    return ours and private and package_of(parts) != package


def test_no_package_imports_private_names_of_another():
    violations = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            file = path.relative_to(ROOT)
            package = package_of(file.parts[file.parts[0] == "src" :])
            tree = ast.parse(path.read_text(encoding="utf-8"))
            violations |= {
                (file.as_posix(), name) for name in imports(tree) if is_private_elsewhere(name, package)
            }
    assert violations <= EXCEPTIONS
