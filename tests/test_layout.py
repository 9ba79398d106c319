"""Packages use only public modules and names of each other."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/deltauq", "experiments", "tests", "benchmarks", "docs")


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
    violations = []
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            file = path.relative_to(ROOT)
            package = package_of(file.parts[file.parts[0] == "src" :])
            tree = ast.parse(path.read_text(encoding="utf-8"))
            violations += [(str(file), name) for name in imports(tree) if is_private_elsewhere(name, package)]
    assert not violations


def public_names():
    """Return the packages with a list of public names, and these names with their package."""
    names = set()
    for path in (ROOT / "src/deltauq").rglob("__init__.py"):
        module = ".".join(path.parent.relative_to(ROOT / "src").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                names |= {module, *(f"{module}.{name}" for name in ast.literal_eval(node.value))}
    return names


def test_experiments_use_the_public_api():
    public = public_names()
    violations = []
    for path in (ROOT / "experiments").rglob("*.py"):
        used = imports(ast.parse(path.read_text(encoding="utf-8")))
        violations += [
            (path.name, name) for name in used if name.startswith("deltauq") and name not in public
        ]
    assert not violations


def test_files_named_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+(?:/\w+)*\.py)`", text)) - {"_name.py"}
    files = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in files)]
