# SPDX-License-Identifier: Apache-2.0
"""Opens Docs/examples/browser in headless Chromium, pairs it, and delivers a text as the browser's push service would.
Prints as JSON what the page says to a wrong key, the pairing token, and what it shows.

    push_page.py ENDPOINT P256DH AUTH KEY TEXT [NODE PORT]

With NODE, the web address of a node, the page is served at PORT and registers a handle. Also prints whether the page is wider
than a phone of 375 px.

A browser without the internet waits for its push service for ever: the page is given a subscription of these values.
"""

import functools
import http.server
import json
import sys
import tempfile
import threading
import time

from browse import Browser


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def main(endpoint, p256dh, auth, key, text, node="", port="0"):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", int(port)), functools.partial(Files, directory="Docs/examples/browser"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory(prefix="tocsin-chromium-", ignore_cleanup_errors=True) as directory:
        browser = Browser(directory)
        try:
            browser.call("Browser.grantPermissions", origin=origin, permissions=["notifications"])
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ["Page", "Runtime", "ServiceWorker"]:
                browser.call(f"{domain}.enable", session)

            def evaluate(expression):
                answer = browser.call(
                    "Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
                if "exceptionDetails" in answer:
                    sys.exit(f"{expression}: {answer['exceptionDetails']}")
                return answer["result"].get("value")

            def until(expression):
                while not evaluate(expression):
                    if time.monotonic() > browser.deadline - 5:
                        sys.exit(f"not true in time: {expression}; the page says: {evaluate('state.textContent')}")
                    time.sleep(0.1)

            browser.call(
                "Emulation.setDeviceMetricsOverride", session, width=375, height=700, deviceScaleFactor=1, mobile=True)
            browser.call("Page.navigate", session, url=f"{origin}/")
            browser.wait("Page.loadEventFired")
            evaluate("window.element = id => document.getElementById(id)")
            evaluate("navigator.serviceWorker.ready.then(() => true)")
            evaluate("element('key').value = 'no key'; element('pair').click()")
            until("element('state').textContent.startsWith('Not done')")
            refusal = evaluate("element('state').textContent")
            subscription = json.dumps({"endpoint": endpoint, "keys": {"p256dh": p256dh, "auth": auth}})
            evaluate(
                "PushManager.prototype.subscribe = async options => { window.options = options;"
                f" return {{toJSON: () => ({subscription})}}; }};"
                f" element('node').value = {json.dumps(node)};"
                f" element('key').value = {json.dumps(key)}; element('pair').click()")
            until("!element('token').hidden")
            if node:
                # The handle follows another endpoint; another one is ended.
                calls = ("const {handle} = JSON.parse(localStorage.getItem('pairing'));"
                         f"const node = {json.dumps(node)}, endpoint = {json.dumps(endpoint)};"
                         "const other = await handles.register(node, endpoint + '/other');"
                         "await handles.change(node, handle, endpoint);"
                         "return other !== handle && await handles.end(node, other) === other;")
                if not evaluate(f"import('./handle.js').then(async handles => {{ {calls} }})"):
                    sys.exit("the second handle was not ended")
            registrations = [
                registration for event in browser.events
                if event.get("method") == "ServiceWorker.workerRegistrationUpdated"
                for registration in event["params"]["registrations"]]
            browser.call(
                "ServiceWorker.deliverPushMessage", session, origin=origin,
                registrationId=registrations[-1]["registrationId"], data=text)
            until("element('notifications').children.length > 0")
            json.dump({
                "refusal": refusal, "token": evaluate("element('token').value"),
                "key": evaluate("window.options.applicationServerKey"),
                "isTooWide": evaluate("document.documentElement.scrollWidth > 375"),
                "shown": evaluate("element('notifications').textContent"),
                "notified": evaluate(
                    "navigator.serviceWorker.ready.then(worker => worker.getNotifications())"
                    ".then(all => all.map(one => one.title + '/' + one.body))"),
            }, sys.stdout)
        finally:
            browser.end()


main(*sys.argv[1:])
