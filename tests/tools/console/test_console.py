"""Tests the console in a real browser: what an operator sees and does there, and what it must never do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from selenium.webdriver.common.keys import Keys

from tests.tools.console.browser import DESK, PATIENCE_S, PHONE, Browser
from tests.tools.console.conftest import Stage, sign_in
from tests.waiting import pause

SCREENSHOTS = os.environ.get("DELAYBRIDGE_SCREENSHOTS")
STREAMED = ("Network.eventSourceMessageReceived", "Network.dataReceived")
PAGES = (
    "overview",
    "topics",
    "search",
    "send",
    "dead",
    "slots",
    "schedules",
    "subscriptions",
    "operations",
    "actions",
    "health",
)


async def on(browser: Browser, work: Callable[[], Any]) -> Any:
    """Drives the browser in a thread, as the test's event loop goes on."""
    return await asyncio.to_thread(work)


@pytest.fixture(autouse=True)
def nothing_leaves_and_nothing_complains(browser: Browser) -> Iterator[None]:
    yield
    assert browser.foreign_requests() == []
    assert browser.complaints() == []


def test_a_browser_at_the_root_signs_in_and_gets_a_session(stage: Stage, browser: Browser) -> None:
    browser.driver.get(stage.url)
    assert browser.driver.current_url == f"{stage.url}/console"
    browser.fill("token", f"dbt_{'0' * 12}_{'0' * 64}")
    browser.click("Sign in", "button")
    browser.sees("the token is unknown, expired or revoked")
    assert [line for line in browser.complaints() if "401" not in line] == []

    sign_in(browser, stage.operator, "on-call")

    browser.sees("Messages are on time")
    (cookie,) = browser.driver.get_cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
    assert stage.operator.rpartition("_")[2] not in cookie["value"]
    assert stage.operator not in str(browser.run("return [JSON.stringify(localStorage), document.cookie]"))


async def test_a_sent_message_is_found_moved_run_and_deleted(signed_in: Browser, topic: str) -> None:
    await on(signed_in, lambda: steer(signed_in, topic))


def steer(browser: Browser, topic: str) -> None:
    for message_id in ("m-1", "m-2"):
        browser.open("send")
        browser.fill("topic", topic)
        browser.fill("id", message_id)
        browser.fill("delay", "2h")
        browser.click("Send", "form button")
        browser.sees("Accepted")
    browser.open(f"search?topic={topic}")
    assert "waiting" in browser.row("m-2")
    browser.click("m-1")
    browser.sees('"hello": "world"')

    browser.click("Move")
    browser.fill("delay", "3h")
    browser.confirm("Move")
    browser.sees("in 2 h 59 min")

    browser.click("Run now")
    browser.confirm("Run now")
    browser.until(lambda: browser.find(".badge.ready"), "not ready")

    browser.open(f"message/{topic}/m-2")
    browser.click("Delete")
    browser.confirm("Delete")
    browser.find(".badge.deleted")


async def test_a_dead_letter_is_replayed(signed_in: Browser, stage: Stage, topic: str) -> None:
    await stage.kill(topic, "d-1", "card refused")

    def replay() -> None:
        signed_in.open(f"message/{topic}/d-1")
        signed_in.sees("card refused")
        signed_in.click("Replay")
        signed_in.confirm("Replay")
        signed_in.find(".badge.ready")
        assert "token" in signed_in.row("replayed")  # of the timeline

    await on(signed_in, replay)
    assert await stage.state(topic, "d-1") == "ready"


async def test_all_that_match_are_counted_before_they_are_deleted(signed_in: Browser, stage: Stage, topic: str) -> None:
    for number in range(3):
        await stage.send(topic, f"b-{number}", labels={"customer": "42"} if number else {})

    def delete() -> None:
        signed_in.open(f"search?topic={topic}&label=customer:42&state=waiting")
        signed_in.click("Delete all")
        signed_in.sees("2 messages match now")
        signed_in.confirm("Delete 2")
        signed_in.sees("2 of 2 done")

    await on(signed_in, delete)
    states = [await stage.state(topic, f"b-{number}") for number in range(3)]
    assert states == ["waiting", "deleted", "deleted"]


async def test_letters_of_one_reason_are_deleted_and_no_others(signed_in: Browser, stage: Stage, topic: str) -> None:
    for number, reason in enumerate(("err *", "err 1", "err 2")):
        await stage.kill(topic, f"e-{number}", reason)

    def delete() -> None:
        signed_in.open(f"dead?topic={topic}")
        signed_in.find("button.link", "err 2")
        signed_in.run(
            "[...document.querySelectorAll('tr')].find((row) => row.textContent.includes('err *'))"
            ".querySelector('button.danger').click()"
        )
        signed_in.sees("1 message matches now")
        signed_in.confirm("Delete 1")
        signed_in.sees("1 of 1 done")

    await on(signed_in, delete)
    assert [await stage.state(topic, f"e-{number}") for number in range(3)] == ["deleted", "dead", "dead"]


async def test_a_delete_of_everything_wants_a_word_and_ends_with_its_page(
    signed_in: Browser, stage: Stage, topic: str
) -> None:
    await stage.send(topic, "kept")

    def try_to_delete() -> None:
        signed_in.open("search?state=waiting")
        signed_in.click("Delete all")
        signed_in.sees("takes the messages of all topics")
        signed_in.run("document.querySelector('dialog button[type=submit]').click()")
        assert signed_in.run("return document.querySelector('dialog input[name=word]').validity.valueMissing")
        signed_in.open("topics")
        signed_in.until(lambda: not signed_in.run("return document.querySelector('dialog')"), "the dialog outlived it")

    await on(signed_in, try_to_delete)
    assert await stage.state(topic, "kept") == "waiting"


async def test_a_topic_shows_which_values_count(signed_in: Browser, stage: Stage, topic: str) -> None:
    await stage.send(topic, "v-1")

    def look() -> None:
        signed_in.open(f"topic/{topic}")
        signed_in.sees("from 1 s, times 2, up to 5 min, and up to 25 % longer (the bridge’s setting)")
        signed_in.sees("none (the bridge’s setting)")

    await on(signed_in, look)
    (await stage.client.put(f"/v1/topics/{topic}", json={"backoff": [0], "ttl": "1m"})).raise_for_status()

    def look_again() -> None:
        signed_in.sees("none: a failed message is ready at once")
        assert "ready at once (the bridge" not in signed_in.text()

    await on(signed_in, look_again)


async def test_a_topic_is_paused_and_resumed(signed_in: Browser, stage: Stage, topic: str) -> None:
    await stage.send(topic, "p-1")

    def pause() -> None:
        signed_in.open(f"topic/{topic}")
        signed_in.click("Pause")
        signed_in.confirm("Pause")
        signed_in.click("Resume")
        signed_in.confirm("Resume")
        signed_in.find("button", "Pause")
        link = signed_in.find("a", f"ready.{topic}").get_attribute("href")
        assert link is not None
        assert "/#/queues/" in link
        assert "@" not in link
        signed_in.open("actions")
        assert "on-call" in signed_in.row("resume")

    await on(signed_in, pause)


async def test_a_schedule_is_paused_resumed_triggered_and_removed(signed_in: Browser, stage: Stage, topic: str) -> None:
    wanted = {"cron": "0 3 1 1 *", "timezone": "Europe/Vienna", "topic": topic, "message": {"body": {"new": "year"}}}
    assert (await stage.client.put(f"/v1/schedules/{topic}", json=wanted)).status_code == 201

    def steer() -> None:
        signed_in.open("schedules")
        assert "Europe/Vienna" in signed_in.row(topic)
        signed_in.open(f"schedules/{topic}")
        signed_in.sees('{"new":"year"}')
        signed_in.click("Pause")
        signed_in.sees("It is paused.")
        signed_in.click("Resume")
        signed_in.find("button", "Pause")
        signed_in.click("Send now")
        signed_in.sees("Sent the message now.")
        signed_in.click("Remove")
        signed_in.confirm("Remove")
        signed_in.sees("Removed the schedule")
        signed_in.open("actions")
        assert "on-call" in signed_in.row("trigger_schedule")

    await on(signed_in, steer)
    sent = (await stage.client.get("/v1/messages", params={"topic": topic, "id_prefix": f"{topic}@"})).json()["items"]
    assert [message["body"] for message in sent] == [{"new": "year"}]


async def test_a_reader_sees_everything_and_changes_nothing(browser: Browser, stage: Stage, topic: str) -> None:
    await stage.send(topic, "r-1")

    def read() -> None:
        sign_in(browser, stage.reader, "reader")
        browser.sees("READ-ONLY" if "READ-ONLY" in browser.text() else "read-only")
        browser.open(f"message/{topic}/r-1")
        button = browser.find("button", "Delete")
        assert not button.is_enabled()
        assert button.get_attribute("title") == "This token does not have the scope send."
        browser.open("actions")
        browser.sees("This token does not have the scope admin.")

    await on(browser, read)
    assert await stage.state(topic, "r-1") == "waiting"


async def test_markup_in_a_body_is_text(signed_in: Browser, stage: Stage, topic: str) -> None:
    markup = "<img src=x onerror=\"window.ran = true; fetch('/ran')\"><script>window.ran = true</script>"
    await stage.send(topic, "x-1", body=markup, content_type="text/html", headers={"note": markup})
    await stage.kill(topic, "x-2", markup)

    def look() -> None:
        for page in (f"message/{topic}/x-1", f"message/{topic}/x-2", "dead", f"search?topic={topic}"):
            signed_in.open(page)
            signed_in.sees("onerror")
        assert signed_in.run("return window.ran") is None
        assert signed_in.run("return document.querySelector('img, main script')") is None

    await on(signed_in, look)


async def test_a_page_of_another_site_cannot_use_the_session(signed_in: Browser, stage: Stage, topic: str) -> None:
    (cookie,) = signed_in.driver.get_cookies()
    path = f"/v1/topics/{topic}/messages"
    async with httpx2.AsyncClient(base_url=stage.url, cookies={cookie["name"]: cookie["value"]}) as client:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": stage.url.replace("127.0.0.1", "localhost")},
            {"Origin": stage.url, "Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "none"},
            {},
        ):
            refused = await client.post(path, json={"body": 1}, headers=headers)
            assert (refused.status_code, refused.json()["type"][-12:]) == (403, "foreign-site"), headers
        assert (await client.post(path, json={"body": 1}, headers={"Origin": stage.url})).status_code == 201


async def test_each_page_is_accessible_in_both_schemes_and_fits_a_phone(
    signed_in: Browser, stage: Stage, topic: str
) -> None:
    await stage.send(topic, "a-1")
    await stage.kill(topic, "a-2", "no answer")
    pages = (*PAGES, f"topic/{topic}", f"message/{topic}/a-1")

    def judge() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for page in pages:
            signed_in.open(page)
            signed_in.find("main h1")
            signed_in.until(lambda: "Loading" not in signed_in.text(), f"{page} is loading")
            for scheme in ("light", "dark"):
                signed_in.prefer(scheme)
                if violations := signed_in.violations():
                    found[f"{page}, {scheme}"] = violations
            signed_in.resize(PHONE)
            if wide := signed_in.too_wide():
                found[f"{page}, phone"] = wide
            signed_in.resize(DESK)
        signed_in.prefer("light")
        return found

    assert await on(signed_in, judge) == {}


async def test_each_page_names_the_time_zone_of_its_moments(signed_in: Browser, stage: Stage, topic: str) -> None:
    await stage.send(topic, "z-1")

    def look() -> None:
        zone = signed_in.run("return Intl.DateTimeFormat().resolvedOptions().timeZone")
        for page in PAGES:
            signed_in.open(page)
            signed_in.find(f'nav a[aria-current="page"][href="#/{page}"]')
            signed_in.sees(f"Times are in {zone} (")
        for page, name in ((f"topic/{topic}", topic), (f"message/{topic}/z-1", "z-1")):
            signed_in.open(page)
            signed_in.find("main h1", name)
            signed_in.sees(f"Times are in {zone} (")

    await on(signed_in, look)


async def test_the_keyboard_alone_signs_in_finds_and_deletes(browser: Browser, stage: Stage, topic: str) -> None:
    await stage.send(topic, "k-1")

    def work() -> None:
        sign_in(browser, stage.operator, "on-call")
        browser.tab_to("Sign out")
        browser.press(Keys.ENTER)
        browser.find("[name=token]")
        browser.tab_to("token")
        browser.press(stage.operator, Keys.ENTER)
        browser.sees("on-call")
        browser.tab_to("Search")
        browser.press(Keys.ENTER)
        browser.find("main h1", "Search")
        browser.tab_to("topic")
        browser.press(topic, Keys.ENTER)
        browser.sees("k-1")
        browser.tab_to("k-1")
        browser.press(Keys.ENTER)
        browser.find("main h1", "k-1")
        browser.tab_to("Delete")
        browser.press(Keys.ENTER)
        browser.find("dialog[open] h2, h2", "Delete the message")
        browser.press(Keys.ESCAPE)
        browser.tab_to("Delete")
        browser.press(Keys.ENTER)
        browser.find("footer button", "Delete")
        browser.tab_to("Delete")
        browser.press(Keys.ENTER)
        browser.find(".badge.deleted")

    await on(browser, work)
    assert await stage.state(topic, "k-1") == "deleted"


async def test_a_hidden_tab_asks_nothing(signed_in: Browser, stage: Stage) -> None:
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    hide += "document.dispatchEvent(new Event('visibilitychange'))"

    def hidden() -> None:
        signed_in.open("topics")
        signed_in.find("main h1", "Topics")
        signed_in.run(hide, True)
        signed_in.sees("paused")
        signed_in.network_events()

    def shown() -> list[str]:
        asked = [event["method"] for event in signed_in.network_events()]
        signed_in.run(hide, False)
        signed_in.until(lambda: "paused" not in signed_in.find(".status").text, "still paused")
        return [method for method in asked if method in {"Network.requestWillBeSent", *STREAMED}]

    async def news_twice() -> None:
        samples: set[str] = set()
        while len(samples) < 3:
            samples.add((await stage.client.get("/v1/overview")).json()["at"])
            await pause()

    await on(signed_in, hidden)
    await news_twice()
    await on(signed_in, signed_in.network_events)  # the answers to what was asked before
    await news_twice()
    assert await on(signed_in, shown) == []


_ANSWER = """
const [isLeft, end] = arguments;
const {fetch} = window;
const leaving = new AbortController();
window.fetch = async (...asked) => {
  const answer = await fetch(...asked);
  leaving.abort();  // ends the stream too
  return isLeft ? answer : new Response(new ReadableStream({start: (body) => body.error(new Error('lost'))}));
};
import(new URL('api.js', document.querySelector('script[type=module]').src))
  .then(({get}) => get('console/live', leaving))
  .then((answer) => JSON.stringify(answer), (failure) => failure.name + ': ' + failure.message)
  .then(end)
  .finally(() => { window.fetch = fetch; });
"""


@pytest.mark.parametrize(("left", "said"), [(True, "AbortError: "), (False, "Error: the browser got no answer")])
async def test_an_answer_whose_body_breaks_off_is_none(signed_in: Browser, *, left: bool, said: str) -> None:
    signed_in.driver.set_script_timeout(PATIENCE_S)
    got = await on(signed_in, lambda: signed_in.driver.execute_async_script(_ANSWER, left))
    assert got.startswith(said)


@pytest.mark.skipif(SCREENSHOTS is None, reason="only DELAYBRIDGE_SCREENSHOTS=folder makes pictures for the docs")
async def test_pictures_for_the_docs(signed_in: Browser, stage: Stage) -> None:
    folder = Path(str(SCREENSHOTS))
    await fill(stage)
    pictures = {
        "overview": ("overview", DESK, "light"),
        "search": ("search?topic=orders&state=waiting", DESK, "light"),
        "message": ("message/payments/pay-0", DESK, "dark"),
        "phone": ("overview", PHONE, "dark"),
    }

    def shoot() -> None:
        for name, (page, size, scheme) in pictures.items():
            signed_in.resize(size)
            signed_in.prefer(scheme)
            signed_in.open(page)
            signed_in.driver.refresh()  # drops what the page before has said
            signed_in.find("main h1")
            signed_in.until(lambda: "Loading" not in signed_in.text(), f"{page} is loading")
            if page == "overview":
                signed_in.find(".plot canvas")
                signed_in.find(".tile", "2,70")
            signed_in.driver.save_screenshot(str(folder / f"console-{name}.png"))
        signed_in.resize(DESK)
        signed_in.prefer("light")

    await on(signed_in, shoot)


async def fill(stage: Stage) -> None:
    """Sends messages for the pictures."""
    for topic, longest_ms in (("orders", 3_600_000), ("reminders", 86_400_000), ("invoices", 60_000)):
        messages = [{"body": {"n": n}, "delay": (n * 97_919 + 20_000) % longest_ms + 20_000} for n in range(900)]
        sent = await stage.client.post(f"/v1/topics/{topic}/messages/batch", json={"messages": messages})
        assert sent.status_code == 200, sent.text
    for number, reason in enumerate(("card refused", "card refused", "the bank did not answer")):
        await stage.kill("payments", f"pay-{number}", reason)
