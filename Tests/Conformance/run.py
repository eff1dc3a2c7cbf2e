#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays transcripts against a client of TNP/1. A transcript scripts one or more nodes and says what the client must do.

    Tests/Conformance/run.py [--only TEXT] [--jobs N] -- COMMAND ...

COMMAND starts the client's test hook (see Docs/clients.md, "Conformance kit"). Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import sys
import time
from hashlib import blake2b
from pathlib import Path

TYPES = {
    "HELLO": 1, "WELCOME": 2, "SUBMIT": 3, "RESULT": 4, "PING": 5, "PONG": 6, "PUZZLE": 7, "GOAWAY": 8,
}
NAMES = {number: name for name, number in TYPES.items()}
OUTCOMES = ["delivered", "queued", "rejected", "retry", "gone"]
MAXIMUM_FRAME = 64 * 1024
STEP_TIME = 8.0
"""Seconds that a step waits for the client unless it says otherwise."""

SEED = bytes(range(16))
DEVICE_TOKEN = "conformance-token-of-a-phone-that-is-an-android"


MAXIMUM_EFFORT = 2**32 - 1


class Mismatch(Exception):
    """The client did something else than the transcript says."""


class Luck(Mismatch):
    """The client has found a proof of :data:`MAXIMUM_EFFORT`, which takes luck: the transcript is played again."""


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">IB", len(payload) + 1, kind) + payload


def field(tag: int, value: bytes) -> bytes:
    return struct.pack(">BH", tag, len(value)) + value


def puzzle(step: dict) -> bytes:
    seed = bytes.fromhex(step["seed"]) if "seed" in step else SEED
    return seed + struct.pack(">II", step.get("effort", 0), step.get("lifetime", 3600))


def welcome(step: dict) -> bytes:
    routes = [route.encode() for route in step.get("routes", ["bisq/android"])]
    return (
        struct.pack(
            ">BHIHIQ", step.get("version", 1), step.get("features", 4), step.get("max_frame", 8192),
            step.get("max_in_flight", 64), step.get("idle_timeout", 600), 1_760_000_040_000,
        )
        + puzzle(step)
        + bytes([len(routes)])
        + b"".join(bytes([len(route)]) + route for route in routes)
    )


def result(step: dict, request: int) -> bytes:
    payload = struct.pack(
        ">IBHI", request, OUTCOMES.index(step["outcome"]), step.get("reason", 0), step.get("retry_after", 0)
    )
    if "provider_id" in step:
        payload += field(1, step["provider_id"].encode())
    if "text" in step:
        payload += field(2, step["text"].encode())
    return payload


class Submit:
    """A SUBMIT that the client sent."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.request = int.from_bytes(payload[:4], "big")
        self.fields: dict[int, bytes] = {}
        position, last = 4, -1
        while position < len(payload):
            tag, length = struct.unpack_from(">BH", payload, position)
            if tag <= last:
                raise Mismatch("SUBMIT has fields out of order")
            last = tag
            self.fields[tag] = payload[position + 3 : position + 3 + length]
            position += 3 + length

    @property
    def identifier(self) -> int:
        """The number of the submission in the transcript: the first two bytes of its ciphertext."""
        return int.from_bytes(self.fields[4][:2], "big")

    @property
    def digest(self) -> bytes:
        hashed = blake2b(b"tnp1-envelope", digest_size=32)
        for tag in (0x0A, 1, 2, 3, 4):
            part = self.fields.get(tag, b"")
            hashed.update(struct.pack(">H", len(part)) + part)
        return hashed.digest()

    def has_proof(self, seed: bytes, effort: int) -> bool:
        proof = self.fields.get(0x10, b"")
        if len(proof) != 16 or proof[:4] != seed[:4]:
            return False
        given = int.from_bytes(proof[4:8], "big")
        if given == 0:
            return False
        text = b"tnp1-puzzle" + seed + self.digest + proof[4:]
        value = int.from_bytes(blake2b(text, digest_size=32).digest()[:8], "big")
        return given >= effort and value <= (2**64 - 1) // given


class Connection:
    """One connection of a scripted node."""

    def __init__(self, run: Run, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.run = run
        self.reader = reader
        self.writer = writer
        self.requests: dict[int, int] = {}
        self.seed, self.effort = SEED, 0

    async def frame(self, limit: float) -> tuple[str, bytes]:
        try:
            async with asyncio.timeout(limit):
                head = await self.reader.readexactly(5)
        except asyncio.TimeoutError:
            raise Mismatch(f"the client sent nothing within {limit:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Mismatch("the client closed the connection") from None
        length, kind = struct.unpack(">IB", head)
        if not 0 < length <= MAXIMUM_FRAME:
            raise Mismatch(f"the client sent a frame of {length} bytes")
        try:
            async with asyncio.timeout(STEP_TIME):
                return NAMES.get(kind, str(kind)), await self.reader.readexactly(length - 1)
        except asyncio.TimeoutError:
            raise Mismatch("the client sent a part of a frame") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Mismatch("the client closed the connection") from None

    async def play(self, steps: list[dict]) -> None:
        for step in steps:
            try:
                await self.perform(step)
            except Mismatch as mismatch:
                raise type(mismatch)(f"at {json.dumps(step)}: {mismatch}") from None

    async def perform(self, step: dict) -> None:
        limit = step.get("within", STEP_TIME)
        if "expect" in step:
            await self.expect(step, limit)
        elif "send" in step:
            self.send(step)
        elif "raw" in step:
            self.writer.write(bytes.fromhex(step["raw"]) * step.get("times", 1))
        elif "drip" in step:
            for byte in bytes.fromhex(step["drip"]):
                if self.reader.at_eof():
                    return
                self.writer.write(bytes([byte]))
                await asyncio.sleep(step["every"])
        elif "pause" in step:
            await asyncio.sleep(step["pause"])
        elif "signal" in step:
            self.run.signal(step["signal"]).set()
        elif "quiet" in step:
            await self.quiet(step["quiet"])
        elif "serve" in step:
            await self.serve(step)
        elif "closed" in step:
            await self.closed(limit)
        elif "reset" in step:
            self.writer.transport.abort()
        elif "close" in step:
            self.writer.close()
        else:
            raise Mismatch("the transcript has an unknown step")
        if not self.writer.is_closing():
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()

    async def expect(self, step: dict, limit: float) -> None:
        name, payload = await self.frame(limit)
        if name != step["expect"]:
            raise Mismatch(f"the client sent {name}")
        if name == "SUBMIT":
            self.check(Submit(payload), step)
        elif name == "HELLO" and payload != b"TNP\x01\x01\x00":
            raise Mismatch("HELLO is not the one of version 1 with an empty agent")
        elif name == "PONG" and payload != bytes.fromhex(step["opaque"]):
            raise Mismatch("PONG has other bytes than PING")

    def check(self, submit: Submit, step: dict) -> None:
        number = submit.identifier
        if "id" in step and number != step["id"]:
            raise Mismatch(f"the client sent submission {number}")
        if submit.request in self.requests:
            raise Mismatch("the request number is in use on this connection")
        self.requests[submit.request] = number
        envelope = {tag: value for tag, value in submit.fields.items() if tag != 0x10}
        if self.run.seen.setdefault(number, envelope) != envelope:
            raise Mismatch(f"submission {number} was sent again with other bytes")
        if step.get("proof") is True and not submit.has_proof(self.seed, self.effort):
            raise Mismatch("the proof of work is missing or wrong")
        if step.get("proof") is False and 0x10 in submit.fields:
            raise Mismatch("there is a proof of work")
        for tag, value in step.get("fields", {}).items():
            found = submit.fields.get(int(tag, 16))
            if (found.hex() if found is not None else None) != value:
                raise Mismatch(f"field {tag} differs")

    def send(self, step: dict) -> None:
        name = step["send"]
        if name in ("WELCOME", "PUZZLE"):
            self.effort = step.get("effort", 0)
            self.seed = bytes.fromhex(step["seed"]) if "seed" in step else SEED
            payload = welcome(step) if name == "WELCOME" else puzzle(step)
        elif name == "RESULT":
            request = step.get("request")
            if request is None:
                request = next(r for r, number in reversed(self.requests.items()) if number == step["id"])
            payload = result(step, request)
            if step["outcome"] != "queued" and not step.get("keeps"):
                self.requests.pop(request, None)
        elif name == "GOAWAY":
            payload = struct.pack(">HI", step["code"], step.get("retry_after", 0)) + step.get("text", "").encode()
        elif name in ("PING", "PONG"):
            payload = bytes.fromhex(step["opaque"])
        else:
            raise Mismatch("the transcript sends an unknown frame")
        self.writer.write(frame(TYPES[name], payload))

    async def quiet(self, seconds: float) -> None:
        try:
            name, payload = await self.frame(seconds)
        except Mismatch as mismatch:
            if "sent nothing" in str(mismatch):
                return
            raise
        if name != "SUBMIT":
            raise Mismatch(f"the client sent {name}")
        submit = Submit(payload)
        is_luck = self.effort == MAXIMUM_EFFORT and submit.has_proof(self.seed, self.effort)
        raise (Luck if is_luck else Mismatch)(f"the client sent SUBMIT {submit.identifier}")

    async def serve(self, step: dict) -> None:
        """Answers all submissions alike, until the client closes the connection or ``times`` are answered."""
        for _ in range(step.get("times", 1_000_000)):
            try:
                name, payload = await self.frame(step.get("within", 3600))
            except Mismatch as mismatch:
                if "closed" in str(mismatch):
                    return
                raise
            if name == "SUBMIT":
                submit = Submit(payload)
                self.check(submit, {})
                if len(self.requests) > step.get("most", 65535):
                    raise Mismatch(f"more than {step['most']} submissions are in flight")
                await asyncio.sleep(step.get("after", 0))
                self.send({"send": "RESULT", "request": submit.request, "outcome": step["serve"]} | step.get("with", {}))
            elif name == "PING":
                self.writer.write(frame(TYPES["PONG"], payload))

    async def closed(self, limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                while await self.reader.read(65536):
                    pass
        except asyncio.TimeoutError:
            raise Mismatch(f"the client did not close the connection within {limit:g} s") from None
        except ConnectionError:
            pass


def held_port(port: int = 0) -> socket.socket:
    """A socket that holds a port and refuses connections until it listens. A port that nobody holds soon belongs to a
    node of another transcript, which would get this client's connections."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held


class Node:
    """A scripted node's port."""

    def __init__(self) -> None:
        self.socket = held_port()
        self.port: int = self.socket.getsockname()[1]
        self.server: asyncio.Server | None = None
        self.waiting: list[socket.socket] = []

    async def listen(self, accepted) -> None:
        self.server = await asyncio.start_server(accepted, sock=self.socket)

    def swallow(self) -> None:
        """Lets connection attempts wait for ever, as those to a machine without power: the queue of the port is full."""
        self.socket.listen(0)
        for _ in range(3):
            attempt = socket.socket()
            attempt.setblocking(False)
            attempt.connect_ex(self.socket.getsockname())
            self.waiting.append(attempt)

    def stop_listening(self) -> None:
        """Refuses connections from now on. Those that are open stay open."""
        if self.server:
            self.server.close()
            self.server = None
            self.socket = held_port(self.port)

    def close(self) -> None:
        if self.server:
            self.server.close()
        for attempt in self.waiting:
            attempt.close()
        self.socket.close()


class Run:
    """One transcript against one client."""

    def __init__(self, transcript: dict, command: list[str]) -> None:
        self.transcript = transcript
        self.command = command
        self.seen: dict[int, dict[int, bytes]] = {}
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.signals: dict[str, asyncio.Event] = {}
        self.unfinished = 0

    async def play(self) -> None:
        nodes: list[Node] = []
        tasks: list[asyncio.Task[None]] = []
        for script in self.transcript["nodes"]:
            node = Node()
            nodes.append(node)
            if script.get("swallows", False):
                node.swallow()
            elif script.get("listens", True):
                await node.listen(self.accepting(script, node, tasks))
        addresses = [f"127.0.0.1:{node.port}" for node in nodes]
        hook = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20
        )
        try:
            async with asyncio.timeout(self.transcript.get("within", 20)):
                await self.converse(hook, addresses)
                # Scripts that the client has not played to their end are failures.
                while self.unfinished and not self.failure.done():
                    await asyncio.sleep(0.02)
                await self.nothing_more(hook)
        except asyncio.TimeoutError:
            if not self.failure.done():
                raise Mismatch("the transcript did not end in time") from None
        finally:
            if hook.returncode is None:
                hook.kill()
            await hook.wait()
            for task in tasks:
                task.cancel()
            for node in nodes:
                node.close()
        if self.failure.done():
            self.failure.result()

    def accepting(self, script: dict, node: Node, tasks: list[asyncio.Task[None]]):
        """The handler of a node's connections: each plays the next one of the script."""
        connections = list(script.get("connections", []))
        self.unfinished += len(connections)

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())  # type: ignore[arg-type]
            if not connections:
                if not script.get("ignores_more"):
                    self.fail(Mismatch("the client opened more connections than the transcript has"))
                writer.close()
                return
            steps = connections.pop(0)
            if script.get("stops") and not connections:
                node.stop_listening()
            try:
                await Connection(self, reader, writer).play(steps)
                self.unfinished -= 1
            except Mismatch as mismatch:
                self.fail(mismatch)
            except (struct.error, KeyError, IndexError, StopIteration) as error:
                self.fail(Mismatch(f"the client sent a malformed frame ({type(error).__name__})"))
            except ConnectionError:
                self.fail(Mismatch("the client closed the connection"))
            finally:
                writer.close()

        return accepted

    def signal(self, name: str) -> asyncio.Event:
        """By which a node's script lets the client's commands go on."""
        return self.signals.setdefault(name, asyncio.Event())

    def fail(self, mismatch: Mismatch) -> None:
        if not self.failure.done():
            self.failure.set_exception(mismatch)

    async def converse(self, hook: asyncio.subprocess.Process, addresses: list[str]) -> None:
        """Gives the client its commands and compares what it reports."""
        assert hook.stdin and hook.stdout
        options = {"nodes": addresses, "work_limit": 5, "connect_timeout": 5} | self.transcript.get("options", {})
        self.write(hook, options)
        expected = {entry["id"]: entry for entry in self.transcript["expect"]}
        commands = asyncio.create_task(self.commands(hook))
        try:
            while expected:
                line = asyncio.create_task(hook.stdout.readline())
                await asyncio.wait({line, self.failure}, return_when=asyncio.FIRST_COMPLETED)
                if not line.done():
                    line.cancel()
                    return
                if not line.result():
                    raise Mismatch("the client's hook ended")
                report = json.loads(line.result())
                wanted = expected.pop(report["id"], None)
                if wanted is None:
                    raise Mismatch(f"unexpected: {json.dumps(report)}")
                for key, value in wanted.items():
                    found = report.get(key)
                    if key == "says":
                        found = value if value in str(report.get("text", "")) else report.get("text")
                    if found != value:
                        raise Mismatch(f"submission {report['id']}: {key} is {found!r}, not {value!r}")
        finally:
            await asyncio.wait({commands}, timeout=0 if expected else None)
            commands.cancel()

    async def nothing_more(self, hook: asyncio.subprocess.Process) -> None:
        """The client must not report an outcome twice."""
        assert hook.stdout
        with contextlib.suppress(asyncio.TimeoutError):
            line = await asyncio.wait_for(hook.stdout.readline(), 0.3)
            if line:
                raise Mismatch(f"unexpected: {line.decode().strip()}")

    async def commands(self, hook: asyncio.subprocess.Process) -> None:
        for command in self.transcript["client"]:
            if "pause" in command:
                await asyncio.sleep(command["pause"])
            elif "await" in command:
                await self.signal(command["await"]).wait()
            elif "submit" in command:
                numbers = command["submit"]
                for number in numbers if isinstance(numbers, list) else range(numbers, command.get("to", numbers) + 1):
                    self.write(hook, self.submission(number, command))
            else:
                self.write(hook, command)

    @staticmethod
    def submission(number: int, command: dict) -> dict:
        """An envelope of which the ciphertext names the number."""
        length = command.get("length", 32)
        envelope = {
            "submit": number, "magic": "android", "device_token": DEVICE_TOKEN, "format": "pipe",
            "iv": (b"%016d" % number).hex(),
            "ciphertext": (number.to_bytes(2, "big") + bytes(length - 2)).hex(), "timeout": 15,
        }
        return envelope | {key: value for key, value in command.items() if key not in ("submit", "to", "length")}

    @staticmethod
    def write(hook: asyncio.subprocess.Process, command: dict) -> None:
        assert hook.stdin
        with contextlib.suppress(ConnectionError):
            hook.stdin.write(json.dumps(command).encode() + b"\n")


async def run_all(transcripts: list[Path], command: list[str], jobs: int) -> int:
    failures = 0
    slots = asyncio.Semaphore(jobs)

    async def run(path: Path) -> None:
        nonlocal failures
        async with slots:
            started = time.monotonic()
            try:
                with contextlib.suppress(Luck):
                    await Run(json.loads(path.read_text()), command).play()
                    return print(f"ok    {path.stem}  {time.monotonic() - started:.1f} s", flush=True)
                await Run(json.loads(path.read_text()), command).play()
                text, mark = " (a proof was found by luck at first)", "ok  "
            except (Mismatch, KeyError, ValueError, StopIteration) as error:
                text, mark = f"\n       {type(error).__name__}: {error}", "FAIL"
                failures += 1
            print(f"{mark}  {path.stem}  {time.monotonic() - started:.1f} s{text}", flush=True)

    await asyncio.gather(*(run(path) for path in transcripts))
    print(f"{len(transcripts) - failures} of {len(transcripts)} transcripts passed")
    return 1 if failures or not transcripts else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="play the transcripts whose name contains this")
    parser.add_argument("--jobs", type=int, default=16, help="how many to play at a time")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="starts the client's test hook")
    options = parser.parse_args()
    folder = Path(__file__).parent / "transcripts"
    transcripts = sorted(path for path in folder.glob("*.json") if options.only in path.stem)
    return asyncio.run(run_all(transcripts, options.command, options.jobs))


if __name__ == "__main__":
    sys.exit(main())
