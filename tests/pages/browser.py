"""A browser for the tests of pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)

WAIT_S = 60
WHOLE = "return document.URL === arguments[0] && document.readyState === 'complete'"

# Elements that reach out of the window to the right, but for those that scroll by themselves.
OUTSIDE = """
const found = [];
for (const element of document.body.querySelectorAll("*")) {
  if (element.closest(".scroll") && !element.matches(".scroll")) continue;
  if (element.closest(".skip")) continue;
  const box = element.getBoundingClientRect();
  if (box.width && box.right > document.documentElement.clientWidth + 0.5)
    found.push(element.outerHTML.slice(0, 120));
}
return found;
"""


class Browser:
    """A headless browser with an empty profile."""

    def __init__(self, profile: Path, program: str, driver: str) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.opened = ""

    def open(self, path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Open a page from its file in a window of this size."""
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)
        self.opened = path.as_uri()
        self.driver.get(self.opened)
        self._wait()

    def _wait(self) -> None:
        """Until the page is there whole: on a busy machine `get` may return before."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, WAIT_S).until(lambda _: self.script(WHOLE, self.opened))

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def command(self, name: str, **values: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, values)

    def script(self, text: str, *values: Any) -> Any:
        return self.driver.execute_script(text, *values)

    def all(self, selector: str) -> list[Any]:
        """The elements that a selector of CSS finds."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def outside(self) -> list[str]:
        """Return the elements that do not fit the window's width."""
        problems: list[str] = self.script(OUTSIDE)
        width, window = self.script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        return (
            problems if width <= window else [*problems, f"the page is {width} wide, of {window}"]
        )

    def screenshot(self, path: Path, width: int, height: int) -> None:
        """A picture of the page from its top on."""
        self.resize(width, height)
        self.driver.save_screenshot(str(path))

    def forget(self) -> None:
        """Forget what was logged."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")

    def complaints(self) -> list[str]:
        """Return the messages of the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the requests of pages, except for themselves and embedded data."""
        events = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        asked = [
            str(event["params"]["request"]["url"])
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            # The browser's own first tab asks for parts of the browser.
            and not event["params"]["documentURL"].startswith("chrome")
        ]
        return [
            url for url in asked if url.split("#")[0] != self.opened and not url.startswith("data:")
        ]

    def quit(self) -> None:
        self.driver.quit()
