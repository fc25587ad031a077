"""Tests that the script in docs/wires/tasks.md prints what the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.docs.documents import blocks, section, text

PRINTED_URL = "http://127.0.0.1:8080"
LIFE = section(text("docs/wires/tasks.md"), "The life of an order")


async def test_the_documented_script_prints_the_documented_answers(bridge_url: str, tmp_path: Path) -> None:
    (script,), (printed,) = blocks(LIFE, "sh"), blocks(LIFE, "json")
    assert PRINTED_URL in script
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", script.replace(PRINTED_URL, bridge_url), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    (task_id,) = set(re.findall(r'"task_id":([0-9]+)', output.decode()))
    assert output.decode().replace("}{", "}\n{") == re.sub("[0-9]{15}", task_id, printed).strip()
