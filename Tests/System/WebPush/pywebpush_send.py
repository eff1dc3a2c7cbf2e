#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a text by Web Push with pywebpush, over HTTP/2 with curl. Prints the server's status.

pywebpush_send.py DIRECTORY ENDPOINT P256DH AUTH KEY_FILE TEXT    DIRECTORY has the certificate authority, ca.pem
"""
import os
import shlex
import subprocess
import sys

from pywebpush import webpush

directory, endpoint, p256dh, auth, key_file, text = sys.argv[1:]
key_file = os.path.abspath(key_file)
os.chdir(directory)
command = webpush(
    {"endpoint": endpoint, "keys": {"p256dh": p256dh, "auth": auth}}, text, vapid_private_key=key_file,
    vapid_claims={"sub": "mailto:operator@example.org"}, ttl=60, curl=True)
options = [
    "--http2", "--cacert", "ca.pem", "--silent", "--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]
# The command has line ends for a shell.
words = shlex.split(command.replace("\\", ""))
print(subprocess.run(words + options, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode())
