"""Tests that `/docs` and its files come from the bridge alone."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import httpx2

MEDIA_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "png": "image/png"}


async def test_the_page_names_no_other_host(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "//" not in page.text
    assert '"validatorUrl": null' in page.text  # or the browser asks validator.swagger.io about the document


async def test_the_bridge_serves_each_file_of_the_page(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    named = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert {name.rpartition(".")[2] for name in named} == MEDIA_TYPES.keys()
    for name in named:
        file = await client.get(urljoin("/docs", name))
        assert (file.status_code, file.headers["content-type"]) == (200, MEDIA_TYPES[name.rpartition(".")[2]])
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
    (document,) = re.findall(r"url: '([^']+)'", page.text)
    assert (await client.get(urljoin("/docs", document))).json()["openapi"]


async def test_the_page_works_below_a_path_of_a_proxy(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    named = re.findall(r"""(?:href="|src="|url: ')([^"']+)""", page.text)
    assert len(named) == 4
    assert all(urljoin("/later/docs", name).startswith("/later/") for name in named)


async def test_the_style_sheet_loads_nothing(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    (link,) = re.findall(r'href="([^"]+\.css)"', page.text)
    style = (await client.get(urljoin("/docs", link))).text
    assert "@import" not in style
    assert set(re.findall(r"url\(\W?(\w+:?)", style)) == {"data:"}


async def test_the_licences_in_the_script_can_be_read(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    (link,) = re.findall(r'src="([^"]+)"', page.text)
    script = await client.get(urljoin("/docs", link), headers={"Range": "bytes=0-99"})
    (licences,) = re.findall(r"see (\S+) ", script.text)
    assert "MIT" in (await client.get(urljoin(f"/{link}", licences))).text


async def test_no_other_file_is_served(client: httpx2.AsyncClient) -> None:
    page = await client.get("/docs")
    (link,) = re.findall(r'src="([^"]+)"', page.text)
    for name in (".", "package.json", "../5.0.0/swagger-ui.css"):
        answer = await client.get(urljoin(f"/{link}", name))
        assert (answer.status_code, answer.json()["title"]) == (404, "No such path"), name
