#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets, each from its kept corpus.

  Tests/Fuzz/fuzz.py --seconds 20                all targets, for 20 seconds each
  Tests/Fuzz/fuzz.py --seconds 600 http2 proxy   these targets
  Tests/Fuzz/fuzz.py --seconds 600 --keep        adds what was found to the kept corpora, and minimises them
  Tests/Fuzz/fuzz.py --seconds 600 --fast        without AddressSanitizer
  Tests/Fuzz/fuzz.py --kept                      the kept inputs only, once each
  Tests/Fuzz/fuzz.py --coverage                  the lines that each kept corpus runs, of the target's files

A kept corpus is a file in Tests/Fuzz/Corpus with an input a line, in Base64. An input that breaks a target is left in
the current directory. Exits with 1 then.
"""

import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".build-fuzz/release/tocsin-fuzz"
FAST_PROGRAM = ROOT / ".build-fuzz-fast/release/tocsin-fuzz"
COVERED_PROGRAM = ROOT / ".build-fuzz-coverage/release/tocsin-fuzz"
CORPUS = ROOT / "Tests/Fuzz/Corpus"
VECTORS = ROOT / "Tests/Conformance/vectors/tnp1.json"
# Each target and the files that read its input.
TARGETS = {
    "encodings": ["Base/Cryptography/Base64.swift", "Base/Cryptography/Hex.swift"],
    "engine": ["Wire/Redis/ReplyReader.swift", "Node/Cluster/ClaimCalls.swift", "Node/Cluster/EngineState.swift",
               "Node/Cluster/Member.swift", "Node/Cluster/PrimaryChoice.swift", "Node/Admission/Admission+Cluster.swift"],
    "processes": ["Node/KeyHolder/HolderMessage.swift", "Node/KeyHolder/ResolverMessage.swift", "Node/KeyHolder/SupervisorMessage.swift"],
    "owners": ["Node/Handles/HandleEntry.swift", "Node/Handles/HandleKeys.swift", "Wire/TNP/HandleRequest.swift"],
    "archive": ["Node/Archive/ArchiveDecoder.swift"],
    "frames": ["Wire/TNP"],
    "ingress": ["Node/Ingress/TNP/IngressSession.swift"],
    "client": ["Sending/Sender/SenderSession.swift"],
    "http": ["Wire/HTTP1/ChunkCheck.swift", "Wire/HTTP1/HTTPSession.swift", "Wire/HTTP1/LineCheck.swift",
             "Wire/HTTP1/ParserCall.swift", "Wire/HTTP1/RequestDecoder.swift", "Wire/HTTP1/RequestParts.swift",
             "Node/Ingress/HTTP/AppResolver.swift", "Node/Ingress/HTTP/PercentEncoding.swift", "Node/Ingress/HTTP/APIQuery.swift",
             "Node/Ingress/HTTP/APIRequest.swift", "Node/Ingress/HTTP/PhoneRequest.swift", "Node/Ingress/HTTP/SealedText.swift"],
    "answers": ["Node/Providers/APNs/APNsAnswers.swift", "Node/Providers/FCM/FCMAnswers.swift", "Node/Providers/Upstream/UpstreamAnswers.swift"],
    "http2": ["Wire/HTTP2"],
    "proxy": ["Base/EventLoop/HTTPConnect.swift", "Base/EventLoop/Proxy.swift", "Base/EventLoop/SOCKS5.swift",
              "Base/EventLoop/StreamReader.swift"],
    "tor": ["Node/Tor/ControlFilter.swift", "Node/Tor/CookieAuthentication.swift", "Node/Tor/DescriptorUploads.swift", "Node/Tor/LineSplitter.swift",
            "Node/Tor/OnionKey.swift", "Node/Tor/TorEvent.swift", "Node/Tor/TorLogLine.swift", "Node/Tor/TorVersion.swift"],
    "control": ["Node/Tor/TorControl.swift"],
    "spool": ["Node/Delivery/Spool/Outcome+Spooled.swift", "Node/Delivery/Spool/SpooledEnvelope.swift", "Node/Handles/HandleKeys.swift"],
    "pairing": ["Base/EventLoop/Endpoint.swift", "Wire/TNP/Handle.swift", "Wire/TNP/PairingToken.swift", "Base/Cryptography/OnionAddress.swift"],
    "phone": ["Sending/TocsinPhone"],
    "endpoint": ["Wire/TNP/PushEndpoint.swift", "Node/Providers/WebPush/PushServerPolicy.swift"],
    "responses": ["Wire/HTTP1/ResponseDecoder.swift", "Node/Providers/WebPush/WebPushAnswers.swift"],
    "toml": ["Node/NodeConfiguration", "Node/Settings", "Node/Providers/APNs/APNsDelivery.swift", "Node/Providers/FCM/FCMDelivery.swift",
             "Node/Providers/Upstream/UpstreamDelivery.swift", "Node/Providers/WebPush/WebPushDelivery.swift"],
}
LONGEST_INPUT = 8192
# Seconds: TOMLKit leaks some 800 bytes for each text that it refuses, and a process has 3000 MB.
LONGEST_PROCESS = 100

HTTP = [
    b"GET /relay?isAndroid=true&token=746f6b656e&msg=4269737120&snd=1 HTTP/1.1\r\nHost: n\r\n\r\n",
    b"GET /s/site.secret/relay?isAndroid=false&isProduction=true&token=00&msg=41 HTTP/1.1\r\nHost: n\r\n\r\n",
    b"POST /v1/fcm/device/token HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n"
    b'{"encrypted":"QUJDRA==","isUrgent":true,"x":1}',
    b"POST /v1/handle/handle:" + b"0" * 64 + b" HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
]
PHONE = [
    b'{"seed":"' + b"0a" * 16 + b'","effort":5,"lifetime":60,"onion":"' + b"00" * 32 + b'"}', b'{"handle":"' + b"ab" * 32 + b'"}',
    b'{"outcome":"RETRY","reason":203,"retryAfterMillis":4000000000,"text":"x"}',
]
ANSWERS = [
    (200, b""), (400, b'{"reason":"BadDeviceToken"}'), (403, b'{"reason":"ExpiredProviderToken"}'),
    (410, b'{"reason":"Unregistered","timestamp":1454948015990}'), (429, b'{"reason":"TooManyRequests"}'),
    (200, b'{"name":"projects/p/messages/0:1%a"}'), (200, b'{"access_token":"ya29.a","expires_in":3599,"token_type":"Bearer"}'),
    (404, b'{"error":{"code":404,"status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/'
          b'google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}'),
]
TEXTS = [
    b"android|descriptor|01234567890123456789012345678901|" + b"t" * 160,
    b"iOS|iPhone|01234567890123456789012345678901|" + b"ab" * 32,
    b"handle:" + b"0f" * 32, b"127.0.0.1:7077", b"unix:/run/tor/ctl", b"[::1]:443",
    b"2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion",
]
ENGINE = [
    b"+claimed\r\n", b"+elsewhere\r\n+iv\r\n+key_required\r\n+key_mismatch\r\n+proof\r\n+circuit\r\n", b"-ERR no\r\n$-1\r\n:5\r\n",
    b"*2\r\n$7\r\nclaimed\r\n$33\r\n1 1800000000000 20833 0 0 1000000\r\n",
    b"*2\r\n$7\r\nclaimed\r\n$30\r\n2 0 0 77 9 9223372036854775807\r\n",
    b"*2\r\n$5\r\nfinal\r\n$4\r\nabcd\r\n", b"*3\r\n$4\r\nover\r\n$8\r\nunproven\r\n:9223372036854775807\r\n",
    b"*3\r\n$4\r\nover\r\n$3\r\napp\r\n:-5\r\n", b"*3\r\n$6\r\ndevice\r\n:100\r\n$20\r\n-9223372036854775808\r\n",
    b"*2\r\n$4\r\ndead\r\n$13\r\n1800000000000\r\n",
    b"*5\r\n$16\r\n1800000000000000\r\n*1\r\n*3\r\n$4\r\nnode\r\n:5\r\n$8\r\n00 1.1.0\r\n$0\r\n\r\n:1\r\n$1\r\n\x01\r\n",
    b"*4\r\n$1\r\n5\r\n$4\r\nabcd\r\n:1\r\n:1800000000\r\n", b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n",
    b"*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n",
]
PROCESSES = [
    b"\0\1", b"\0\2\1", b"\0\3", b"\0\x65\0\0\0\7ioctl", b"\0\x66by signal 9", b"\0\x67with status 1", b"\1\0\0\0\0\0\0\0\1push.example",
    b"\2\0\0\0\0\0\0\0\1\4\x7f\0\0\1", b"\2\0\0\0\0\0\0\0\1\6" + bytes(15) + b"\1\0\0\0\0", b"\2\0\0\0\0\0\0\0\1\0no", b"\2\0\0\0\0\0\0\0\1\1no",
    b'\3{"credential":0,"question":"QUJD"}', b'\3{"copies":{"files":{}},"credentials":[]}',
]
# An owner registers a phone, rotates to another, and forgets; a stranger sends each again, and with another byte.
OWNERS = [
    b"\x00\x05\x06\x00\x11\x00\x06\x03\x00\x02\x00\x07\x03\x00\x03\x01", b"\x00\x01\x08\x02\x0b\x00\x03\x04\x00\x00\x10\x01\x04\x00\x00\x60\x80",
    b"\x00\x01\x00\x02\x12\x00\x03\x13\x00\x25\xff\x00\x04\x03\x00\x06\x00\x45\xff\x01\x00\x09",
]
ARCHIVES = [
    b"\0\0\x0dstanding.key" + bytes(7) + b"\3abc\0\0", b"\5\0\x20tor/onion/hs_ed25519_secret_key." + bytes(7) + b"\x02ab\0\0",
    b"\3\0\x0a../../file" + bytes(8), b"\0\0\x09spool.key" + b"\xff" * 8 + b"abc", b"\0\0\x11import.part/a.txt" + bytes(8), b"\0\1\0" + b"a" * 300,
]
ENCODINGS = [
    b"QUJD", b"QUI=", b"QQ==", b"QR==", b"QUJ=", b"QQ=", b"Q===", b"====", b"+/+/", b"-_-_", b"QU\x80D", b"QU D", b"0f1A", b"0f1", b"0g",
    bytes(range(256)), b"QUJD" * 64, b"aF" * 100,
]
ENDPOINTS = [
    b"https://a.example/x?y=1", b"https://push.example:8443/", b"http://" + b"a" * 56 + b".onion:80/~x", b"https://0x7f.1/",
    b"https://user@a.example/", b"https://[::1]/x", b"https://xn--a.example/", b"https://a.example./", b"https://a/#x",
]
RESPONSES = [
    b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.0 429 Slow down\r\nRetry-After: 120\r\n\r\nbody until the end",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
]
TOR = [
    b"PROTOCOLINFO 1\r\nAUTHCHALLENGE SAFECOOKIE 00\r\nAUTHENTICATE 0f\r\nGETINFO process/pid\r\nSETCONF SocksPort=1\r\n"
    b"GETINFO status/bootstrap-phase\nSETEVENTS STATUS_CLIENT HS_DESC WARN ERR\r\n",
    b"650 HS_DESC UPLOAD 2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid UNKNOWN $ABC~r xyz HSDIR_INDEX=1\r\n",
    b'650 STATUS_CLIENT NOTICE BOOTSTRAP PROGRESS=80 TAG=ap_conn SUMMARY="Connecting"\r\n',
    b'250-PROTOCOLINFO 1\r\n250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE="/run/tor/cookie"\r\n250 OK\r\n',
    b"250 AUTHCHALLENGE SERVERHASH=" + b"0" * 64 + b" SERVERNONCE=" + b"1" * 64 + b"\r\n",
    b"Nov 23 01:02:03.000 [warn] Could not bind to 127.0.0.1:9050: Address already in use.\n",
    b"Tor version 0.4.8.10.\n",
]
CONTROLS = [
    b"250-PROTOCOLINFO 1\r\n250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"/dev/null\"\r\n250 OK\r\n",
    b"250-AUTH METHODS=NULL\r\n250 OK\r\n", b"650 NOTICE x\r\n250+info=\r\nline\r\n.\r\n250 OK\r\n", b"551 no\r\n",
]
PROXIES = [
    b"\0\0HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n", b"\0\0HTTP/1.0 407 Proxy Authentication Required\r\n\r\n",
    b"\1\0\5\0\5\0\0\1\x7f\0\0\1\0\x50", b"\2\0\5\2\1\0\5\0\0\3\4host\0\x50", b"\2\1\5\2\1\0\5\5\0\4" + b"\0" * 18,
]


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


SETTINGS = frame(4, 0, 0, struct.pack(">HI", 3, 100)) + frame(4, 1, 0)
HTTP2 = [
    SETTINGS + frame(1, 5, 1, b"\x88"), SETTINGS + frame(1, 4, 1, b"\x88") + frame(0, 1, 1, b"{}"),
    SETTINGS + frame(3, 0, 1, struct.pack(">I", 7)), SETTINGS + frame(7, 0, 0, struct.pack(">II", 0, 0)),
    SETTINGS + frame(6, 0, 0, b"01234567") + frame(8, 0, 0, struct.pack(">I", 1000)) + frame(1, 5, 3, b"\x8d"),
]

HANDLE_RECORD = b"".join(struct.pack(">H", len(part)) + part for part in [
    b"\1", struct.pack(">Q", 7), b"\2" * 32, b"\3" * 32, b"iOS", b"ab" * 32, b"app", b"\4" * 32])


def seeds(target):
    """Inputs that reach far into a target."""
    vectors = json.loads(VECTORS.read_text())
    streams = [bytes.fromhex(vector["bytes"]) for kind in ("messages", "rejected", "refused") for vector in vectors[kind]]
    short = [stream for stream in streams if len(stream) < 4000]

    def operation(stream):
        return b"\0" + struct.pack(">H", len(stream)) + stream

    hello = next(stream for stream in streams if stream[4:5] == b"\1")
    welcome = next(stream for stream in streams if stream[4:5] == b"\2")
    if target == "frames":
        return [bytes([size]) + stream for stream in streams for size in (0, 7)]
    if target == "ingress":
        return [bytes([option]) + operation(hello) + operation(stream) + b"\5\4\xff" for stream in short for option in (0, 14)]
    if target == "client":
        return [b"\1\2" + operation(welcome) + b"\2" + operation(stream) for stream in short]
    if target == "answers":
        bodies = ANSWERS + [(200, stream) for stream in short]
        return [bytes([status >> 2, status & 3]) + b"\x02" + b"30" + b"\0\0\0" + body for status, body in bodies]
    if target == "toml":
        return [file.read_bytes() for file in [*(ROOT / "Docs/examples").glob("*.toml"), ROOT / "Packaging/tocsin.toml"]]
    if target == "spool":
        versioned = [b"\1" + stream for stream in short]
        envelopes = [b"\1" + bytes([kind]) + struct.pack(">qH", 1_800_000_000, 3) + b"app" + bytes(32 * (kind >> 6)) + stream
                     for stream in short for kind in (0, 1, 0x18, 0x41)]
        return versioned + envelopes + [HANDLE_RECORD]
    requests = [bytes.fromhex(vector["bytes"]) for vector in vectors["handle_signatures"]]
    if target == "http":
        methods = {0x10: b"POST /v1/handles", 0x12: b"PUT /v1/handles/" + b"ab" * 32, 0x13: b"DELETE /v1/handles/" + b"50" * 32}
        handles = [methods[request[4]] + b" HTTP/1.1\r\nHost: n\r\nContent-Type: application/octet-stream\r\nContent-Length: "
                   + str(len(request) - 9).encode() + b"\r\n\r\n" + request[9:] for request in requests]
        return [b"\0" + text for text in HTTP + handles]
    if target == "phone":
        sealed = [vector["delivered"].encode() for vector in vectors["sealing"]]
        sealed += [bytes.fromhex(vector["ciphertext"]) for vector in vectors["web_push"]]
        texts = TEXTS + sealed + [vector["text"].encode() for vector in vectors["notifications"]] + PHONE
        return [b"\0" + text for text in texts] + [b"\1" + stream for stream in short]
    return {
        "pairing": TEXTS, "tor": TOR, "control": [b"\0" + text for text in CONTROLS], "proxy": PROXIES,
        "http2": [b"\0" + text for text in HTTP2], "endpoint": ENDPOINTS, "encodings": ENCODINGS, "engine": [bytes([size]) + reply for reply in ENGINE for size in (0, 7)],
        "processes": PROCESSES, "owners": OWNERS, "archive": ARCHIVES,
        "responses": [bytes([size]) + text for text in RESPONSES for size in (0, 7)],
    }[target]


def kept(target):
    file = CORPUS / f"{target}.txt"
    return [base64.b64decode(line) for line in file.read_text().split()] if file.exists() else []


def write(directory, inputs):
    directory.mkdir(parents=True)
    for data in inputs:
        (directory / blake2b(data, digest_size=8).hexdigest()).write_bytes(data)


def fuzz(program, target, scratch, *arguments, limit=600, **variables):
    """Runs a target, for `limit` seconds at most. Returns its exit code and what it printed."""
    # Leaks are left out: the TOML library and OpenSSL keep some bytes of each failure. Short call stacks of each
    # allocation make a target faster. Swift's own report of a crash does not work under AddressSanitizer, and may hang.
    environment = {
        **os.environ, "FUZZ_TARGET": target, "SWIFT_DETERMINISTIC_HASHING": "1", "SWIFT_BACKTRACE": "enable=no",
        "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=3:quarantine_size_mb=16", **variables}
    # To a file: a process of a crash that hangs would keep a pipe open.
    output = scratch / f"{target}.log"
    with output.open("w") as file:
        process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = f"no end after {limit} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, output.read_text(errors="replace")


def run(program, target, seconds, keep, scratch):
    corpus = scratch / target
    write(corpus, kept(target) + [seed for seed in seeds(target) if len(seed) <= LONGEST_INPUT])
    executions, left, code = 0, seconds, 0
    while left > 0 and code == 0:
        part = min(left, LONGEST_PROCESS)
        left -= part
        code, printed = fuzz(
            program, target, scratch, f"-max_total_time={part}", f"-max_len={LONGEST_INPUT}", "-timeout=20", "-rss_limit_mb=3000",
            "-print_final_stats=1", f"-artifact_prefix={target}-", str(corpus), limit=part + 120)
        counted = re.search(r"number_of_executed_units: (\d+)", printed)
        executions += int(counted[1]) if counted else 0
    coverage = re.findall(r"cov: (\d+)", printed)
    line = f"{target:8} {executions:12,} executions, {coverage[-1] if coverage else 0:>5} edges"
    if code != 0:
        found = re.search(r"Test unit written to (\S+)", printed)
        again = f"\nagain: FUZZ_TARGET={target} {program} {found[1]}" if found else ""
        return f"{line}, FAILED ({code})\n{printed[-3000:]}{again}", False
    if keep:
        minimal = scratch / f"{target}-minimal"
        minimal.mkdir()
        code, printed = fuzz(program, target, scratch, "-merge=1", str(minimal), str(corpus))
        if code != 0 or not any(minimal.iterdir()):
            return f"{line}, cannot minimise ({code}):\n{printed[-2000:]}", False
        inputs = sorted((file.read_bytes() for file in minimal.iterdir()), key=lambda data: (len(data), data))
        CORPUS.mkdir(exist_ok=True)
        (CORPUS / f"{target}.txt").write_text("".join(base64.b64encode(data).decode() + "\n" for data in inputs))
        line += f", {len(inputs)} inputs kept"
    return line, True


def replay(program, target, scratch):
    """Runs the kept inputs and the seeds, and nothing random."""
    corpus = scratch / target
    write(corpus, kept(target) + [seed for seed in seeds(target) if len(seed) <= LONGEST_INPUT])
    code, printed = fuzz(program, target, scratch, "-runs=0", "-timeout=20", "-rss_limit_mb=3000", str(corpus))
    line = f"{target:8} {len(list(corpus.iterdir())):6,} kept inputs"
    return (line, True) if code == 0 else (f"{line}, FAILED ({code})\n{printed[-3000:]}", False)


def coverage(target, scratch):
    """The share of the lines of the target's files that its kept corpus runs."""
    tools = Path(shutil.which("swift")).resolve().parent
    corpus, raw, profile = scratch / target, scratch / f"{target}.profraw", scratch / f"{target}.profdata"
    write(corpus, kept(target))
    code, printed = fuzz(COVERED_PROGRAM, target, scratch, "-runs=0", str(corpus), LLVM_PROFILE_FILE=str(raw))
    if code != 0:
        return f"{target:8} FAILED ({code})\n{printed[-3000:]}", False
    subprocess.run([tools / "llvm-profdata", "merge", raw, "-o", profile], check=True)
    report = subprocess.run(
        [tools / "llvm-cov", "export", "-summary-only", COVERED_PROGRAM, f"-instr-profile={profile}",
         *[ROOT / "Sources" / file for file in TARGETS[target]]], check=True, capture_output=True, text=True)
    lines = json.loads(report.stdout)["data"][0]["totals"]["lines"]
    return f"{target:8} {lines['percent']:3.0f} % of {lines['count']:5,} lines", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"of {' '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time")
    parser.add_argument("--keep", action="store_true", help="add what was found to the kept corpora")
    parser.add_argument("--kept", action="store_true", help="run the kept inputs only, once each")
    parser.add_argument("--fast", action="store_true", help="run the program without AddressSanitizer")
    parser.add_argument("--coverage", action="store_true", help="run the kept corpora only, and count lines")
    options = parser.parse_args()
    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {' '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        def result(target):
            if options.coverage:
                return coverage(target, Path(scratch))
            program = FAST_PROGRAM if options.fast else PROGRAM
            if options.kept:
                return replay(program, target, Path(scratch))
            return run(program, target, options.seconds, options.keep, Path(scratch))

        results = pool.map(result, options.targets)
        passed = True
        for line, good in results:
            print(line, flush=True)
            passed = passed and good
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
