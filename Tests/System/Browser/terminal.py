#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a terminal and makes a picture of what it leaves on the screen.

    terminal.py PICTURE.png COMMAND [ARGUMENT ...]
"""

import html
import http.server
import os
import pty
import re
import subprocess
import sys
import threading

COLUMNS = 110
LINE_PIXELS = 20
STYLES = {"1": "font-weight:bold", "2": "opacity:.6", "32": "color:#5fd787"}


def screen(data):
    """The lines that stay on the screen, each as HTML; a carriage return starts a line over."""
    lines = []
    for line in data.decode(errors="replace").replace("\r\n", "\n").split("\n"):
        line = re.split(r"\r(?:\x1b\[K)?|\x1b\[K", line)[-1]
        parts = re.split(r"\x1b\[(\d+)m", line)
        text = html.escape(parts[0])
        for style, part in zip(parts[1::2], parts[2::2]):
            part = html.escape(part)
            text += f'<span style="{STYLES[style]}">{part}</span>' if style in STYLES and part else part
        lines.append(text)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def page(command, lines):
    prompt = f'<span style="opacity:.6">$</span> {html.escape(" ".join(command))}'
    body = "\n".join([prompt] + lines)
    style = f"margin:0;padding:16px 20px;background:#1b1d23;color:#e4e4e4;font:14px/{LINE_PIXELS}px 'DejaVu Sans Mono',monospace"
    return f'<!doctype html><meta charset="utf-8"><body style="{style}"><pre style="margin:0;font:inherit">{body}</pre>'


def main():
    picture, command = sys.argv[1], sys.argv[2:]
    data = bytearray()

    def read(descriptor):
        chunk = os.read(descriptor, 65536)
        data.extend(chunk)
        return b"\0" if not chunk else chunk

    os.environ["COLUMNS"] = str(COLUMNS)
    status = pty.spawn(command, read)
    if status:
        sys.exit(f"{command[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    lines = screen(bytes(data))
    shown = [os.path.basename(command[0])] + command[1:]
    content = page(shown, lines).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    width = 40 + 9 * max(len(re.sub("<[^>]*>", "", html.unescape(line))) for line in lines)
    height = 32 + LINE_PIXELS * (len(lines) + 1)
    browse = os.path.join(os.path.dirname(os.path.abspath(__file__)), "browse.py")
    subprocess.run(
        [sys.executable, browse, f"http://127.0.0.1:{server.server_port}/", "--no-script", "--size", f"{width}x{height}",
         "--screenshot", picture], check=True, stdout=subprocess.DEVNULL)


main()
