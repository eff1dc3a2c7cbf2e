#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A push server that speaks HTTP/1.1 over TLS, with independent implementations of encryption (http-ece) and VAPID
(py-vapid). Prints the address and the receiver's keys, then a line of JSON for each request.

push_server.py DIRECTORY    writes its own certificate, for localhost, to push.pem there
"""
import base64
import http.server
import json
import ssl
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02

from common import base64url, public_key, write_certificate

SECRET = b"0123456789abcdef"
receiver = ec.generate_private_key(ec.SECP256R1())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = {
            "path": self.path, "ttl": self.headers["TTL"], "urgency": self.headers["Urgency"],
            "topic": self.headers["Topic"], "encoding": self.headers["Content-Encoding"],
            "host": self.headers["Host"], "port": self.client_address[1]}
        try:
            if self.headers["Content-Encoding"] == "aes128gcm":
                body = http_ece.decrypt(body, private_key=receiver, auth_secret=SECRET, version="aes128gcm")
            answer["text"] = body.decode()
            answer["vapid"] = bool(Vapid02.verify(self.headers["Authorization"]))
            token = dict(part.split("=", 1) for part in self.headers["Authorization"].split(" ", 1)[1].split(","))["t"]
            claims = token.split(".")[1]
            answer["claims"] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            status = int(self.path.rsplit("/", 1)[1])
        except Exception as error:
            answer["error"] = repr(error)
            status = 400
        print(json.dumps(answer), flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status == 429:
            self.send_header("Retry-After", "7")
        if status == 307:
            self.send_header("Location", "https://localhost/elsewhere")
        self.end_headers()

    def log_message(self, *arguments):
        pass


certificate = f"{sys.argv[1]}/push.pem"
write_certificate(certificate)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, certificate + ".key")
context.set_alpn_protocols(["http/1.1"])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(json.dumps({"port": server.server_port, "p256dh": base64url(public_key(receiver)), "auth": base64url(SECRET)}), flush=True)
server.serve_forever()
