"""Tests the TypeScript client: its style, the package, and its calls of a running bridge."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.clients.node import needs_node, run
from tests.clients.typescript.schema import PACKAGE
from tests.docs.documents import blocks
from tests.integration.own import Own, own_bridge

README = PACKAGE / "README.md"


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    needs_node(PACKAGE)


@pytest.fixture(scope="module")
def compiled() -> Path:
    """The folder of the compiled modules and tests. Fails if they, or the examples of the README, have a wrong type."""
    shutil.rmtree(PACKAGE / "build", ignore_errors=True)
    examples = {PACKAGE / "test" / f"readme_{n}.ts": code for n, code in enumerate(blocks(README.read_text(), "ts"))}
    assert len(examples) == 2
    try:
        for file, code in examples.items():
            file.write_text(code)
        run("npx", "tsc", folder=PACKAGE)
    finally:
        for file in examples:
            file.unlink()
    return PACKAGE / "build"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that may call http receivers on loopback."""
    allowed = {"BRIDGE_PUSH_ALLOW": "http://127.0.0.1"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "typescript", **allowed) as own:
        yield own


def test_a_checkout_can_be_installed(tmp_path: Path) -> None:
    shutil.rmtree(PACKAGE / "build", ignore_errors=True)
    run("npm", "install", "--no-audit", "--no-fund", str(PACKAGE), folder=tmp_path)

    program = 'import("delaybridge-client").then(({ Client }) => console.log(typeof Client))'
    assert run("node", "--eval", program, folder=tmp_path).strip() == "function"


def test_the_style_is_right() -> None:
    run("npx", "biome", "ci", "--error-on-warnings", folder=PACKAGE)


def test_the_package_has_the_compiled_modules_with_their_types(compiled: Path) -> None:
    (packed,) = json.loads(run("npm", "pack", "--json", "--dry-run", "--ignore-scripts", folder=PACKAGE))

    names = {module.stem for module in (PACKAGE / "src").glob("*.ts")}
    modules = {f"build/src/{name}{end}" for name in names for end in (".js", ".d.ts")}
    assert {file["path"] for file in packed["files"]} == {"LICENSE", "README.md", "package.json"} | modules


@pytest.mark.timeout(300)
def test_its_calls_do_what_they_say(own: Own, compiled: Path) -> None:
    tests = sorted(str(file.relative_to(PACKAGE)) for file in (compiled / "test").glob("*.test.js"))
    url = {"DELAYBRIDGE_URL": own.bridge.url}
    run("node", "--test", "--test-reporter=spec", *tests, folder=PACKAGE, environment=url)
