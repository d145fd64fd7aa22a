"""Every Python and shell block in the README and in docs/ runs as printed, and prints what is said."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, all_blocks, blocks_of, is_test, named, put_modules

SERVERS = {  # how the pages write them; a real one takes its place here
    "postgresql://postgres@localhost/app": "own_postgres_url",
    "postgres@localhost/shop_test": "own_test_database",
    "nats://localhost:4222": "own_nats_url",
    "redis://localhost:6379/0": "own_redis_url",
    "http://127.0.0.1:8080": "own_server_url",
}
OF_THE_TIMER_SERVICE = {"nats://localhost:4222": "timer_service_url"}

FIXTURE_LOOPS = "asyncio_default_fixture_loop_scope=function"
"""What pytest-asyncio wants to be told; without it, it warns."""

pytestmark = pytest.mark.timeout(240)


def scripts_and_tests() -> list[Block]:
    """The blocks that are run by themselves: on a page with tests or sessions, these use its modules."""
    blocks = all_blocks("python")
    using = {block.page for block in [*filter(is_test, blocks), *all_blocks("sh")]}
    return [block for block in blocks if is_test(block) or not (block.page in using and named(block))]


@pytest.mark.parametrize("block", scripts_and_tests(), ids=lambda block: block.name)
def test_each_python_example_runs_and_prints_what_the_page_says(
    block: Block, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    written = on_real_servers(block, request)
    # By the real clock, a machine that stands still for a second merges the beats of that second, as it should.
    tries = 3 if ".run()" in block.text else 1
    for number in range(tries):
        folder = tmp_path / str(number)
        folder.mkdir()
        if is_test(block):
            put_modules(block.page, folder, written)
        printed = run(block, written(block.text), folder)
        if block.prints is None or matches(printed, block.prints):
            return
    pytest.fail(f"it printed:\n{printed}\nthe page says:\n{block.prints}")


@pytest.mark.parametrize("block", all_blocks("sh"), ids=lambda block: block.name)
def test_each_shell_session_runs_and_prints_what_the_page_says(
    block: Block, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    written = on_real_servers(block, request)
    put_modules(block.page, tmp_path, written)
    for crontab in blocks_of(block.page, "crontab"):
        (tmp_path / "crontab.txt").write_text(crontab.text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    of_django = request.getfixturevalue("postgres_variables") if block.page.name == "django.md" else {}
    printed = done_in(tmp_path, ["sh", "-e", "-c", written(block.text)], PATH=path, COLUMNS="160", **of_django)
    assert block.prints is not None
    assert matches(printed, block.prints), f"it printed:\n{printed}\nthe page says:\n{block.prints}"


def on_real_servers(block: Block, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Puts the addresses of real servers in the places of those that a block, or a module of its page, names."""
    servers = OF_THE_TIMER_SERVICE if block.page.name == "timer-service.md" else SERVERS
    text = "".join([block.text, *(module.text for module in blocks_of(block.page, "python") if named(module))])
    real = {written: str(request.getfixturevalue(fixture)) for written, fixture in servers.items() if written in text}

    def written(code: str) -> str:
        for address, own in real.items():
            code = code.replace(address, own)
        return code

    return written


def test_the_readme_has_one_example_of_about_twenty_lines() -> None:
    [example] = blocks_of(ROOT / "README.md", "python")
    assert 15 <= sum(bool(line.strip()) for line in example.text.splitlines()) <= 25
    assert example.prints


def test_every_example_in_the_guide_says_what_it_prints() -> None:
    silent = [
        block.name
        for block in blocks_of(ROOT / "docs/guide.md", "python")
        if block.prints is None and "def test_" not in block.text and not named(block)
    ]
    assert not silent


def run(block: Block, code: str, folder: Path) -> str:
    """A block with tests in it is run by pytest, any other as a script."""
    program = folder / (named(block) or "test_example.py")
    program.write_text(code, encoding="utf-8")
    if not is_test(block):
        return done_in(folder, [sys.executable, "-W", "error", str(program)])
    asyncio_mode = (
        ["-o", "asyncio_mode=auto", "-o", FIXTURE_LOOPS] if "async def test_" in code else ["-p", "no:asyncio"]
    )
    pytest_alone = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *asyncio_mode]
    return done_in(folder, [sys.executable, "-W", "error", *pytest_alone, str(program)])


def done_in(folder: Path, command: list[str], **variables: str) -> str:
    """What a command prints that ends well, in a folder and surroundings of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DULY_", "PYTEST_"))}
    done = subprocess.run(
        command, cwd=folder, env=clean | variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def matches(printed: str, said: str) -> bool:
    """``…`` on the page stands for anything within a line; spaces at the end of a line are nothing."""
    pattern = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", _trimmed(said)))
    return re.fullmatch(pattern, _trimmed(printed)) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
