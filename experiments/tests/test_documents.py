"""The result tables of the documentation."""

import subprocess
import sys
from pathlib import Path

RENDER = Path(__file__).parents[2] / "docs" / "render.py"


def test_documents_agree_with_the_result_lines():
    done = subprocess.run([sys.executable, str(RENDER), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
