#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `tocsin resolver` and the system's getent for names, with name servers that fail in several ways.

Runs in a network and a mount namespace of its own: name-service.py PROGRAM DIRECTORY. Prints for each set-up its name, what
the resolver answers, and what getent does, separated by tabs.
"""
import os
import socket
import struct
import subprocess
import sys
import threading

PROGRAM, DIRECTORY = sys.argv[1:]
# Keeps descriptor 3 free for the resolver's connection.
os.dup2(0, 3)


def run(*command):
    subprocess.run(command, check=True)


def name_server(address, family=socket.AF_INET, answers=None):
    """Serves at port 53 over UDP and TCP. `answers` maps a name to an IPv4 address, `servfail` or `too long`; other names do
    not exist. None for a server that is silent."""
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.bind(address)
    streams = socket.socket(family, socket.SOCK_STREAM)
    streams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    streams.bind(address)
    streams.listen()

    def answer(question, is_stream):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
            at += question[at] + 1
        kind, = struct.unpack(">H", question[at + 1:at + 3])
        name = ".".join(labels)
        found = next((value for suffix, value in answers.items() if name.endswith(suffix)), None)
        flags, records = 0x8180, b""
        if found == "servfail":
            flags |= 2
        elif found is None:
            flags |= 3
        elif found.startswith("too long") and not is_stream:
            flags |= 0x0200
        elif kind == 1 and found != "no address":
            records = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(found.split()[-1])
        head = question[:2] + struct.pack(">HHHHH", flags, 1, 1 if records else 0, 0, 0)
        return head + question[12:at + 5] + records

    def serve_datagrams():
        while True:
            question, sender = datagrams.recvfrom(1500)
            if answers is not None:
                datagrams.sendto(answer(question, False), sender)

    def serve_streams():
        while True:
            stream, _ = streams.accept()
            with stream:
                while len(size := stream.recv(2, socket.MSG_WAITALL)) == 2:
                    question = stream.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL)
                    if question and answers is not None:
                        reply = answer(question, True)
                        stream.sendall(struct.pack(">H", len(reply)) + reply)

    for work in (serve_datagrams, serve_streams):
        threading.Thread(target=work, daemon=True).start()


def write(name, text):
    """Replaces a file of /etc by rename, as resolvconf and editors do."""
    with open(f"/etc/{name}.new", "w") as file:
        file.write(text)
    os.rename(f"/etc/{name}.new", f"/etc/{name}")


def ask_resolver(name):
    """What a resolver answers that starts now."""
    ours, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    # The resolver finds its connection at descriptor 3.
    os.dup2(others.fileno(), 3)
    others.close()
    child = subprocess.Popen([PROGRAM, "resolver"], pass_fds=[3])
    os.dup2(0, 3)
    ours.send(struct.pack(">Q", 7) + name.encode())
    reply = ours.recv(4096)
    ours.close()
    assert child.wait(30) == 0 and reply[:8] == struct.pack(">Q", 7), reply
    rest, found = reply[8:], []
    while rest:
        kind, rest = rest[0], rest[1:]
        if kind < 2:
            return ("failure " if kind == 0 else "unknown ") + rest.decode()
        size = 4 if kind == 4 else 20
        found.append(socket.inet_ntop(socket.AF_INET if kind == 4 else socket.AF_INET6, rest[:min(size, 16)]))
        rest = rest[size:]
    return " ".join(found)


def ask_system(name):
    lines = subprocess.run(["getent", "hosts", name], capture_output=True, text=True).stdout.splitlines()
    return " ".join(dict.fromkeys(line.split()[0] for line in lines))


run("ip", "link", "set", "lo", "up")
HAS_IPV6 = os.path.isdir("/proc/sys/net/ipv6")
if HAS_IPV6:
    run("ip", "address", "add", "fe80::7/64", "dev", "lo", "scope", "link", "nodad")
run("cp", "-a", "/etc", f"{DIRECTORY}/etc")
run("mount", "--bind", f"{DIRECTORY}/etc", "/etc")
write("nsswitch.conf", "hosts: files dns\n")
write("hosts", "192.0.2.1 in-the-file.example\n")

GOOD = {"empty.example": "no address", "fails.example": "servfail", "long.example": "too long 192.0.2.3", "good.example": "192.0.2.2"}
name_server(("127.0.0.2", 53), answers=GOOD)
name_server(("127.0.0.3", 53))
if HAS_IPV6:
    name_server(("fe80::7", 53, 0, socket.if_nametoindex("lo")), socket.AF_INET6, GOOD)

SETUPS = [
    ("hosts file", "", "in-the-file.example"),
    ("name server", "nameserver 127.0.0.2\n", "push.good.example"),
    ("silent first name server", "nameserver 127.0.0.3\nnameserver 127.0.0.2\noptions timeout:1\n", "push.good.example"),
    ("closed first name server", "nameserver 127.0.0.4\nnameserver 127.0.0.2\n", "push.good.example"),
    ("scoped name server", "nameserver fe80::7%lo\n", "push.good.example"),
    ("failing search domain", "nameserver 127.0.0.2\nsearch fails.example\noptions ndots:5\n", "push.good.example"),
    ("second search domain", "nameserver 127.0.0.2\nsearch nothing.example good.example\n", "push"),
    ("answer over TCP", "nameserver 127.0.0.2\n", "push.long.example"),
    ("unknown name", "nameserver 127.0.0.2\n", "nobody.example"),
    ("name without an address", "nameserver 127.0.0.2\n", "push.empty.example"),
    ("failing name", "nameserver 127.0.0.2\n", "push.fails.example"),
]
for title, settings, name in SETUPS:
    if "fe80" in settings and not HAS_IPV6:
        continue
    write("resolv.conf", settings)
    print(title, ask_resolver(name), ask_system(name), sep="\t")
