# SPDX-License-Identifier: Apache-2.0
"""Opens a page in headless Chromium and prints its DOM, console messages and requests as JSON.

    browse.py URL [--no-script] [--dark] [--size WIDTHxHEIGHT] [--until EXPRESSION] [--screenshot FILE]

Speaks the DevTools protocol over two pipes (--remote-debugging-pipe), where each message ends with a NUL byte. The
browser has a temporary profile and resolves no host but 127.0.0.1.
"""

import argparse
import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 60
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]


class Browser:
    def __init__(self, directory):
        self.deadline = time.monotonic() + SECONDS
        self.last = 0
        self.rest = b""
        self.events = []
        commands, self.out = os.pipe()
        self.answers, replies = os.pipe()

        def move_pipes():
            # Duplicated above 4 first: they may be descriptors 3 and 4 already, in the wrong order.
            first, second = os.dup(commands), os.dup(replies)
            while first < 5 or second < 5:
                first, second = os.dup(first), os.dup(second)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={directory}", "about:blank"], preexec_fn=move_pipes,
            close_fds=False, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(replies)

    def receive(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0, self.deadline - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                sys.exit("the browser exited or did not answer in time")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def end(self):
        try:
            # Its session contains the browser and its helpers and nothing else.
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def console_and_requests(events):
    """Returns the console messages and the URLs that the page requested."""
    console, requests = [], []
    for event in events:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                console.append(json.dumps(parameters["args"]))
            case "Runtime.exceptionThrown":
                console.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                console.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                requests.append(parameters["request"]["url"])
    return console, requests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--no-script", action="store_true")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--size", default="1280x900")
    parser.add_argument("--until", default="true")
    parser.add_argument("--screenshot")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory(prefix="tocsin-chromium-", ignore_cleanup_errors=True) as directory:
        browser = Browser(directory)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

            def call(method, **parameters):
                return browser.call(method, session, **parameters)

            for domain in ["Page", "Runtime", "Log", "Network"]:
                call(f"{domain}.enable")
            call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            scheme = "dark" if options.dark else "light"
            call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            if options.no_script:
                call("Emulation.setScriptExecutionDisabled", value=True)
            call("Page.navigate", url=options.url)
            browser.wait("Page.loadEventFired")
            while not call("Runtime.evaluate", expression=options.until)["result"].get("value"):
                if time.monotonic() > browser.deadline - 5:
                    sys.exit(f"not true in time: {options.until}")
                time.sleep(0.1)
            html = call("Runtime.evaluate", expression="document.documentElement.outerHTML")["result"]["value"]
            overflow = call(
                "Runtime.evaluate", expression="document.documentElement.scrollWidth - innerWidth")["result"]["value"]
            if options.screenshot:
                picture = call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
                with open(options.screenshot, "wb") as file:
                    file.write(base64.b64decode(picture["data"]))
            console, requests = console_and_requests(browser.events)
        finally:
            browser.end()
    json.dump({"html": html, "console": console, "requests": requests, "overflow": overflow}, sys.stdout)


if __name__ == "__main__":
    main()
