"""Drives a headless Chromium, and judges what it shows, loads and logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE_S = 30.0
DESK, PHONE = (1280, 900), (390, 844)
_AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--lang=en-GB",
)
_FOCUS = "const e = document.activeElement; return [e.innerText.trim(), e.name, e.ariaLabel]"
_SERIOUS = {"serious", "critical"}


def programs() -> tuple[str, str]:
    """The paths of Chromium and its driver. Without them the test is skipped, and says what is missing."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in found:
        pytest.skip("Chromium or its driver is missing, so nothing opens the console: apt-get install chromium-driver")
    chromium, driver = found
    assert chromium is not None
    assert driver is not None
    return chromium, driver


class Browser:
    """One tab. Texts are those that a person sees."""

    def __init__(self, url: str) -> None:
        chromium, driver = programs()
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in _ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.url = url
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.resize(DESK)

    def close(self) -> None:
        self.driver.quit()

    def resize(self, size: tuple[int, int]) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Prefers `light` or `dark`, and no motion: axe-core would see colours on their way."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        listed = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    def open(self, page: str) -> None:
        """Opens a page of the console, such as `topics` or `message/orders/o-1`."""
        self.driver.get(f"{self.url}/console#/{page}")

    def run(self, script: str, *given: object) -> Any:
        return self.driver.execute_script(script, *given)

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """Waits until `look` returns something true, and returns that. A page may draw again meanwhile."""
        wait = WebDriverWait(self.driver, PATIENCE_S, 0.05, [StaleElementReferenceException])
        return wait.until(lambda _: look(), f"{what}; the page shows: {self.text()[:2_000]}")

    def text(self) -> str:
        shown: str = self.run("return document.body.innerText")
        return shown

    def sees(self, text: str) -> None:
        """Waits until the page shows the text."""
        self.until(lambda: text in self.text(), f"no {text!r}")

    def find(self, css: str, text: str = "") -> WebElement:
        """The first element that is shown and contains the text. In an open dialog, if there is one."""

        def look() -> WebElement | None:
            dialogs = self.driver.find_elements(By.CSS_SELECTOR, "dialog[open]")
            found = (dialogs[0] if dialogs else self.driver).find_elements(By.CSS_SELECTOR, css)
            return next((one for one in found if text in one.text and one.is_displayed()), None)

        element: WebElement = self.until(look, f"no {css} with {text!r}")
        return element

    def click(self, text: str, css: str = "button, a") -> None:
        # The page may draw between the search and the click.
        def attempt() -> bool:
            self.find(css, text).click()
            return True

        self.until(attempt, f"nothing to click with {text!r}")

    def fill(self, name: str, text: str) -> None:
        field = self.find(f"[name={name}]")
        field.clear()
        field.send_keys(text)

    def confirm(self, action: str) -> None:
        """Presses a button of the open dialog, and waits until the dialog is gone."""
        self.click(action, "dialog[open] button, button")
        self.until(lambda: not self.driver.find_elements(By.CSS_SELECTOR, "dialog[open]"), "the dialog is open")

    def row(self, text: str) -> str:
        """The text of the table row that contains this text."""
        return self.find("tbody tr", text).text

    def press(self, *keys: str) -> None:
        """Presses keys, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def tab_to(self, text: str) -> None:
        """Presses the tabulator until the element with the focus has this text, name or label."""
        for _ in range(80):
            self.press(Keys.TAB)
            if text in self.run(_FOCUS):
                return
        raise AssertionError(f"the tabulator never reaches {text!r}; the page shows: {self.text()[:2_000]}")

    def violations(self) -> list[str]:
        """Runs axe-core. Returns the serious and critical violations of WCAG 2.1 AA and of good practice."""
        if not self.run("return Boolean(window.axe)"):
            self.run(_AXE)
        script = "const end = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(end)"
        self.driver.set_script_timeout(PATIENCE_S)
        found = self.driver.execute_async_script(script)["violations"]
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
            for one in found
            if one["impact"] in _SERIOUS
            for node in one["nodes"]
        ]

    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        width: int = self.run("return document.documentElement.scrollWidth - window.innerWidth")
        return max(0, width)

    def complaints(self) -> list[str]:
        """What the console of the browser has logged since the last call: errors, among them CSP violations."""
        return [entry["message"] for entry in self._log("browser") if entry["level"] in {"SEVERE", "WARNING"}]

    def foreign_requests(self) -> list[str]:
        """The requests to any other host since the last call."""
        sent = [event for event in self.network_events() if event["method"] == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in sent]
        host = urlsplit(self.url).netloc
        return [url for url in urls if urlsplit(url).scheme != "data" and urlsplit(url).netloc != host]

    def network_events(self) -> list[dict[str, Any]]:
        """The events of Chromium's domain Network since the last call."""
        return [json.loads(entry["message"])["message"] for entry in self._log("performance")]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries
