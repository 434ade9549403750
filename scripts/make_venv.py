"""Make the virtual environment: the locked packages, and Barnabas itself in place."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(target: Path) -> None:
    """Make `target`, or bring it up to the lock file."""
    if sys.version_info < (3, 11):  # noqa: UP036 - told here, in words, before pip tells it in its own
        sys.exit(f"Barnabas needs Python 3.11 or later; this is {sys.version.split()[0]}")
    if not (target / "bin" / "python").exists():
        venv.create(target, with_pip=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", str(ROOT / "requirements-dev.lock")], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
