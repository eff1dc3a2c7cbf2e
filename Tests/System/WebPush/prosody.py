#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A phone whose push server is Prosody with mod_unified_push, as with Conversations: XMPP from Prosody to the phone.
Prints the push endpoint and the receiver's keys, then a line of JSON for each message, decrypted by http-ece. An app to
which a message with the text UNREGISTER comes unregisters.

prosody.py DIRECTORY    for the files of the server; writes the certificate push.pem there
"""
import base64
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import http_ece
import slixmpp
from cryptography.hazmat.primitives.asymmetric import ec
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import StanzaPath
from slixmpp.xmlstream import ElementBase, register_stanza_plugin
from slixmpp.stanza import Iq

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from common import base64url, public_key, write_certificate

NAMESPACE = "http://gultsch.de/xmpp/drafts/unified-push"
SECRET = os.urandom(16)
PR_SET_PDEATHSIG = 1
CONFIGURATION = """
run_as_root = true
pidfile = "{directory}/prosody.pid"
data_path = "{directory}"
plugin_paths = {{ "/usr/lib/prosody/modules" }}
modules_enabled = {{ "saslauth"; "disco"; "http"; "unified_push"; "iq" }}
modules_disabled = {{ "s2s"; "tls" }}
authentication = "anonymous"
allow_anonymous_s2s = false
c2s_require_encryption = false
c2s_ports = {{ {xmpp} }}
c2s_interfaces = {{ "127.0.0.1" }}
http_ports = {{ {http} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{ {https} }}
https_interfaces = {{ "127.0.0.1" }}
https_ssl = {{ certificate = "{directory}/push.pem"; key = "{directory}/push.pem.key" }}
http_external_url = "https://localhost:{https}/"
http_default_host = "localhost"
unified_push_backend = "jwt"
unified_push_secret = "{secret}"
log = {{ {{ levels = {{ min = "warn" }}; to = "file"; filename = "{directory}/prosody.log" }} }}
VirtualHost "localhost"
"""


class Push(ElementBase):
    name = plugin_attrib = "push"
    namespace = NAMESPACE
    interfaces = {"application", "instance"}


class Register(ElementBase):
    name = plugin_attrib = "register"
    namespace = NAMESPACE
    interfaces = {"application", "instance"}


class Registered(ElementBase):
    name = plugin_attrib = "registered"
    namespace = NAMESPACE
    interfaces = {"endpoint", "expiration"}


for stanza in (Push, Register, Registered):
    register_stanza_plugin(Iq, stanza)


class Phone(slixmpp.ClientXMPP):
    """The distributor on a phone, with one app."""

    def __init__(self, ports):
        super().__init__("localhost", "")
        self.ports = ports
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.is_registered = True
        self.add_event_handler("session_start", self.register_app)
        self.register_handler(Callback("push", StanzaPath("iq@type=set/push"), self.receive))

    async def register_app(self, _):
        request = self.Iq(stype="set", sto="localhost")
        for part in ("application", "instance"):
            request["register"][part] = base64.b64encode(os.urandom(32)).decode()
        answer = await request.send()
        print(json.dumps({
            "port": self.ports["https"], "httpPort": self.ports["http"], "endpoint": answer["registered"]["endpoint"],
            "p256dh": base64url(public_key(self.key)), "auth": base64url(SECRET)}), flush=True)

    def receive(self, request):
        if not self.is_registered:
            answer = request.reply()
            answer.error()
            answer["error"]["condition"] = "item-not-found"
            return answer.send()
        text = http_ece.decrypt(
            base64.b64decode(request["push"].xml.text), private_key=self.key, auth_secret=SECRET,
            version="aes128gcm").decode()
        self.is_registered = "UNREGISTER" not in text
        print(json.dumps({"text": text}), flush=True)
        request.reply().send()


def main(directory, *numbers):
    ports = dict(zip(("xmpp", "http", "https"), map(int, numbers), strict=True))
    write_certificate(f"{directory}/push.pem")
    configuration = pathlib.Path(directory, "prosody.cfg.lua")
    configuration.write_text(CONFIGURATION.format(directory=directory, secret=os.urandom(16).hex(), **ports))
    # The server ends with this program, however that ends.
    subprocess.Popen(
        ["prosody", "--config", str(configuration), "-F"], stdout=subprocess.DEVNULL,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", ports["xmpp"])) == 0:
                break
        time.sleep(0.05)
    phone = Phone(ports)
    phone.connect(("127.0.0.1", ports["xmpp"]), disable_starttls=True, force_starttls=False)
    phone.process(forever=True)


main(*sys.argv[1:])
