import os
import shutil

import pytest

from tests.cli.conftest import lite, on, shell, spawn

__all__ = ["lite", "on", "shell", "spawn"]


@pytest.fixture(scope="session")
def debian() -> None:
    if shutil.which("apt-get") is None and not os.environ.get("CI"):
        pytest.skip("Prometheus comes from a package of Debian, and apt-get is not to be found")
