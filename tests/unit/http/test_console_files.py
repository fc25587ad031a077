"""Tests that the console's page loads only files of the package, and that a policy for its content holds for each."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import httpx2

from bridge.http import console

FOLDER = Path(console.__file__).parent / "page"
MODULES = [path for path in FOLDER.rglob("*.js") if path.parent.name != "vendor"]
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


async def test_each_file_of_the_page_is_served_below_any_path(client: httpx2.AsyncClient) -> None:
    page = await client.get("/console")
    assert page.headers["content-security-policy"] == POLICY
    named = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(named) == 5
    assert all(urljoin("/later/console", name).startswith("/later/console/") for name in named)
    for name in named:
        file = await client.get(urljoin("/console", name))
        assert (file.status_code, file.headers["content-security-policy"]) == (200, POLICY)
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert file.headers["x-content-type-options"] == "nosniff"
    assert (await client.get("/console/")).headers["location"] == "../console"


async def test_each_module_imports_files_that_are_served(client: httpx2.AsyncClient) -> None:
    (main,) = re.findall(r'src="([^"]+)"', (await client.get("/console")).text)
    seen, left = set(), [urljoin("/console", main)]
    while left:
        url = left.pop()
        module = await client.get(url)
        assert module.status_code == 200, url
        assert module.headers["content-type"] == "text/javascript; charset=utf-8"
        seen.add(url)
        imported = {urljoin(url, name) for name in re.findall(r"from '(\.[^']+)'", module.text)}
        left += imported - seen - set(left)
    assert len(seen) == len(MODULES) + 2  # lit-html and uPlot


def test_no_module_has_what_the_policy_forbids() -> None:
    inline = re.compile(r"""\son\w+=["'$]|\sstyle=|<script|<style|unsafeHTML|innerHTML|eval\(""")
    assert [str(path) for path in MODULES if inline.search(path.read_text())] == []
    assert [str(path) for path in FOLDER.rglob("*.css") if "@import" in path.read_text()] == []


async def test_no_other_file_is_served(client: httpx2.AsyncClient) -> None:
    (main,) = re.findall(r'src="([^"]+)"', (await client.get("/console")).text)
    for name in ("index.html", "../mount.py", "pages/", "."):
        assert (await client.get(urljoin(f"/{main}", name))).status_code == 404, name
