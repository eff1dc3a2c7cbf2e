# SPDX-License-Identifier: Apache-2.0
"""The test hook for Tests/Conformance/run.py: takes commands as lines of JSON and reports each outcome as a line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tocsin_client import Envelope, Format, Magic, PairingToken, RejectionError, SubmissionError, TocsinClient
from tocsin_client import errors

ERRORS = {
    errors.NodeUnreachable: "unreachable",
    errors.ProxyUnreachable: "proxy_unreachable",
    errors.NoResult: "no_result",
    errors.NoWelcome: "no_welcome",
    errors.ConnectionRefusedForGood: "refused",
    errors.QueueFull: "queue_full",
    errors.ClientClosed: "closed",
}


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def submit(client: TocsinClient, command: dict[str, Any]) -> None:
    identifier = command["submit"]
    try:
        envelope = Envelope(
            Magic(command["magic"]), command["device_token"], bytes.fromhex(command["iv"]),
            bytes.fromhex(command["ciphertext"]), Format(command["format"]), app=command.get("app", ""),
        )
        pairing = command.get("pairing")
        outcome = await client.submit(
            envelope, signature=PairingToken(pairing).sign(envelope) if pairing else None, timeout=command["timeout"],
            accept_queued=command.get("accept_queued", False),
            returns_when_queued=command.get("returns_when_queued", False),
        )
        report(
            id=identifier, outcome=outcome.kind.name.lower(), reason=outcome.reason, retry_after=outcome.retry_after,
            text=outcome.text, provider_id=outcome.provider_id,
        )
    except RejectionError as error:
        report(id=identifier, error="rejected", reason=error.reason)
    except SubmissionError as error:
        report(id=identifier, error=ERRORS[type(error)], text=str(error))
    except asyncio.CancelledError:
        report(id=identifier, error="cancelled")


async def main() -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    options = json.loads(await reader.readline())
    client = TocsinClient(
        options["nodes"], socks=options.get("socks"), work_limit=options["work_limit"],
        patience=options.get("patience", 600.0), connect_timeout=options["connect_timeout"], is_isolated=options.get("is_isolated", True),
    )
    tasks: dict[int, asyncio.Task[None]] = {}
    while line := await reader.readline():
        command = json.loads(line)
        if "submit" in command:
            tasks[command["submit"]] = asyncio.create_task(submit(client, command))
        elif "cancel" in command:
            tasks[command["cancel"]].cancel()
        elif "close" in command:
            await client.close()


asyncio.run(main())
