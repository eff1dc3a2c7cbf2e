# SPDX-License-Identifier: Apache-2.0
"""Sends requests like the node's to a server with a client of PyPI, and prints the measurement as a line of JSON.

    apns_clients.py aioapns|httpx HOST:PORT CA.pem KEY.p8 REQUESTS IN_FLIGHT BODY_LENGTH

Each request has a device token, an apns-id and an apns-collapse-id of its own. The interpreter's start does not count.
"""

import asyncio
import json
import resource
import ssl
import sys
import time

TOPIC, EXPIRY = "org.example.app", 1900000000


def aioapns_sender(host, port, context, key, length):
    import aioapns
    from aioapns.connection import APNsProductionClientProtocol

    APNsProductionClientProtocol.APNS_SERVER, APNsProductionClientProtocol.APNS_PORT = host, port
    client = aioapns.APNs(
        key=key, key_id="BENCHKEY01", team_id="BENCHTEAM1", topic=TOPIC, max_connections=1, ssl_context=context)
    message = {"text": "x" * (length - len(json.dumps({"text": ""})))}

    async def send(number):
        result = await client.send_notification(aioapns.NotificationRequest(
            device_token=f"{number:064x}", message=message, notification_id=f"00000000-0000-8000-0000-{number:012x}",
            time_to_live=EXPIRY - int(time.time()), priority="10", collapse_key=f"{number:032x}",
            push_type=aioapns.PushType.ALERT))
        return result.is_successful

    return send


def httpx_sender(host, port, context, key, length):
    import httpx
    from aioapns.connection import JWTAuthorizationHeaderProvider

    token = JWTAuthorizationHeaderProvider(key, "BENCHKEY01", "BENCHTEAM1").get_header()
    client = httpx.AsyncClient(
        http1=False, http2=True, verify=context, timeout=60, limits=httpx.Limits(max_connections=1))
    fixed = {
        "authorization": token, "apns-topic": TOPIC, "apns-push-type": "alert", "apns-expiration": str(EXPIRY),
        "apns-priority": "10"}
    body = b"x" * length

    async def send(number):
        response = await client.post(
            f"https://{host}:{port}/3/device/{number:064x}", content=body,
            headers={
                **fixed, "apns-id": f"00000000-0000-8000-0000-{number:012x}", "apns-collapse-id": f"{number:032x}"})
        return response.status_code == 200

    return send


SENDERS = {"aioapns": aioapns_sender, "httpx": httpx_sender}


async def run(client, server, authority, key_file, requests, in_flight, length):
    host, port = server.rsplit(":", 1)
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    with open(key_file, encoding="ascii") as file:
        send = SENDERS[client](host, int(port), context, file.read(), length)
    await send(0)
    numbers, latencies, failures = iter(range(1, requests + 1)), [], 0

    async def worker():
        nonlocal failures
        for number in numbers:
            begin = time.perf_counter()
            failures += not await send(number)
            latencies.append(time.perf_counter() - begin)

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    latencies.sort()
    print(json.dumps({
        "requests": requests, "seconds": seconds, "failures": failures, "others": [],
        "p50": latencies[len(latencies) // 2] * 1e6, "p99": latencies[len(latencies) * 99 // 100] * 1e6,
        "load": {"cpuSeconds": cpu, "peakKilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}}))
    sys.exit(failures > 0)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:5], *map(int, sys.argv[5:8])))
