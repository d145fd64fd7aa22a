"""The recipe for Django under a real gunicorn: each worker process opens duly.sync after the fork."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.blocks import ROOT, put_modules

PAGE = ROOT / "docs/recipes/django.md"


@pytest.fixture
def site(tmp_path: Path, postgres_variables: dict[str, str]) -> Iterator[httpx.Client]:
    """A client of the shop, which two processes of gunicorn serve on a socket file."""
    put_modules(PAGE, tmp_path, lambda code: code)
    surroundings = os.environ | postgres_variables
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=tmp_path, env=surroundings, check=True)
    socket = tmp_path / "shop.sock"
    gunicorn = [sys.executable, "-m", "gunicorn", "--bind", f"unix:{socket}", "--worker-tmp-dir", str(tmp_path)]
    with subprocess.Popen(gunicorn, cwd=tmp_path, env=surroundings, stderr=subprocess.PIPE, text=True) as server:
        try:
            until = time.monotonic() + 60
            while not socket.exists():
                assert server.poll() is None, server.stderr and server.stderr.read()
                assert time.monotonic() < until
                time.sleep(0.05)
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://shop") as client:
                yield client
        finally:
            server.terminate()
            assert server.stderr is not None
            told = server.stderr.read()
        assert server.wait(60) == 0
        assert "Traceback" not in told, told


def test_each_process_sets_reminders_in_transactions_and_reads_them_outside(site: httpx.Client) -> None:
    for number in range(1, 11):
        assert site.post("/orders", data={"item": "a kite"}).json() == {"order": number}
        assert site.get(f"/orders/{number}/reminder").json()["status"] == "PENDING"
    assert site.post("/orders/1/pay").json() == {"reminder": "cancelled"}
    assert site.get("/orders/1/reminder").json()["status"] == "CANCELLED"
