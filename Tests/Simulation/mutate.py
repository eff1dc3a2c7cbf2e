#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts one bug at a time into a copy of the code, and runs the simulation, with seeds from 1 on, until a rule breaks.

  Tests/Simulation/mutate.py               all bugs, and first the code without one
  Tests/Simulation/mutate.py 3 17          those with these numbers; 0 is the code without a bug
  Tests/Simulation/mutate.py --list        their names
  Tests/Simulation/mutate.py --attacks ... the same for bugs by which a stranger harms others, with attackers' programs
  Tests/Simulation/mutate.py --cluster ... the same for bugs in what the nodes of a cluster share
  Tests/Simulation/mutate.py --chain ...   the same for bugs in nodes without credentials
  Tests/Simulation/mutate.py --minutes 3 1 gives up after 3 minutes

Prints a line for each bug, and exits with 1 if one was not found within MINUTES, or if the code without a bug breaks a
rule. Needs two hours for all.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 10

# What the bug does, the file, the text there, and what replaces it.
MUTATIONS = [
    (
        "the row of a delivered envelope stays",
        "Sources/Node/Delivery/DeliveryCore.swift",
        "            if let row = pending.custody.row {\n                actions.append(.erase(",
        "            if let row = pending.custody.row, outcome.kind != .delivered {\n                actions.append(.erase(",
    ),
    (
        "a parked row is not scheduled",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "            schedule.add(row, at: now.monotonic + delay)\n        }\n    }\n\n    /// Schedules one",
        "        }\n    }\n\n    /// Schedules one",
    ),
    (
        "rows that could not be read are not read again",
        "Sources/Node/Delivery/Spool/SpoolSchedule.swift",
        "            for row in rows { due.insert(row) }",
        "            _ = rows",
    ),
    (
        "an envelope of an earlier process is not delivered",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "            _ = pending.custody.stored(in: Custody.Row(id: row))\n            claimAndBegin(pending, now)\n        }\n",
        "            _ = pending.custody.stored(in: Custody.Row(id: row))\n        }\n",
    ),
    (
        "commits are not flushed",
        "Sources/Base/Store/StoreKind.swift",
        "case full = \"FULL\"",
        "case full = \"OFF\"",
    ),
    (
        "removals of a failed transaction are forgotten",
        "Sources/Node/Delivery/Spool/SpoolInbox.swift",
        "        waiting.finishes.insert(contentsOf: left, at: 0)\n",
        "",
    ),
    (
        "the replay window forgets deliveries",
        "Sources/Node/Delivery/ReplayWindow.swift",
        "        case .delivered, .gone: true",
        "        case .delivered: false\n        case .gone: true",
    ),
    (
        "the replay window is a tenth as long",
        "Sources/Node/Delivery/ReplayWindow.swift",
        "let end = Self.wholeMillisecond(now + length)",
        "let end = Self.wholeMillisecond(now + length / 10)",
    ),
    (
        "the replay window forgets everything at once",
        "Sources/Node/Delivery/ReplayWindow.swift",
        "while let first = remembered.first, first.until <= now { forgetOldest() }",
        "while let first = remembered.first, first.until >= now { forgetOldest() }",
    ),
    (
        "a stored envelope is given up after two unknown fates",
        "Sources/Node/Delivery/AttemptHistory.swift",
        "                guard bounds.isStored else { return .finish }\n                return later(",
        "                guard bounds.isStored, unknownFates < 2 else { return .finish }\n                return later(",
    ),
    (
        "a stored envelope counts as not stored",
        "Sources/Node/Delivery/DeliveryCore+Attempts.swift",
        "isStored: pending.custody.isForSpool,\n            age",
        "isStored: false,\n            age",
    ),
    (
        "the ttl counts as a hundredth",
        "Sources/Node/Delivery/AttemptHistory.swift",
        "if let left = bounds.timeLeft, delay >= left { return .expire }",
        "if let left = bounds.timeLeft, delay * 100 >= left { return .expire }",
    ),
    (
        "a held-back stored envelope ends",
        "Sources/Node/Delivery/AttemptHistory.swift",
        "            guard bounds.isStored else { return .finish }\n            return bounded(Self.spread",
        "            guard !bounds.isStored else { return .finish }\n            return bounded(Self.spread",
    ),
    (
        "the check of the ttl before an attempt is inverted",
        "Sources/Node/Delivery/DeliveryCore+Attempts.swift",
        "if pending.expiry.hasPassed(at: now.unix) { return .rejected(.ttlRanOut) }\n        guard devices",
        "if !pending.expiry.hasPassed(at: now.unix) { return .rejected(.ttlRanOut) }\n        guard devices",
    ),
    (
        "held rows are not released",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "        for row in lane.heldRows { schedule.add(row, at: now.monotonic) }\n        lane.heldRows = []\n        lane.probeRow = nil",
        "        lane.heldRows = []\n        lane.probeRow = nil",
    ),
    (
        "an answer does not release the place in the window",
        "Sources/Node/Delivery/DeliveryCore+Attempts.swift",
        "            released.append(attempt.route)\n",
        "",
    ),
    (
        "the breaker stays open a hundred times as long",
        "Sources/Node/Delivery/Breaker.swift",
        "openUntil = now + length * (1 + random / 5)",
        "openUntil = now + length * 100 * (1 + random / 5)",
    ),
    (
        "a graceful stop removes stored envelopes",
        "Sources/Node/Delivery/DeliveryCore+Attempts.swift",
        "        if pending.custody.row != nil {\n            park(pending, for: .zero, refusal, now)\n        } else if pending",
        "        if pending.custody.row != nil {\n            finish(pending, refusal, now)\n        } else if pending",
    ),
    (
        "an older envelope replaces a newer one",
        "Sources/Node/Delivery/CollapseOrder.swift",
        "newest[key].map { $0 > sequence } ?? false",
        "newest[key].map { $0 < sequence } ?? false",
    ),
    (
        "the budget for unproven tokens is not used up",
        "Sources/Node/Admission/Admission.swift",
        "        case .tnp: unproven.take(settings.unproven, now: now)\n",
        "        case .tnp: break\n",
    ),
    (
        "unproven tokens are not checked",
        "Sources/Node/Admission/Admission.swift",
        "if isUnproven || tokenRefusal != nil { try checkUnproven(terms, now) }",
        "if tokenRefusal != nil { try checkUnproven(terms, now) }",
    ),
    (
        "a proven token counts as dead",
        "Sources/Node/Admission/Admission.swift",
        "if standing == .dead { return .gone(since: record.since == 0 ? nil : record.since) }",
        "if standing == .proven { return .gone(since: record.since == 0 ? nil : record.since) }",
    ),
    (
        "the allowance of a device never refills",
        "Sources/Node/Admission/Admission.swift",
        "        guard wait > .zero else { return nil }\n        let allowance = record.allowance",
        "        guard wait >= .zero else { return nil }\n        let allowance = record.allowance",
    ),
    (
        "the provider token is not kept for a restart",
        "Sources/Node/Providers/APNs/APNsProviderToken.swift",
        "        keeping?.save(latest.token)\n",
        "",
    ),
    (
        "the provider token is renewed every 5 minutes",
        "Sources/Node/Providers/APNs/APNsProviderToken.swift",
        "package static let lifetime: Int64 = 50 * 60",
        "package static let lifetime: Int64 = 5 * 60",
    ),
    (
        "connections are not bounded",
        "Sources/Node/Ingress/ConnectionRegistry.swift",
        "guard count >= limits.connections || self[senderProtocol].present.count >= limits.perEndpoint else {",
        "guard count >= 10 * limits.connections else {",
    ),
    (
        "the first row of an earlier process is left out",
        "Sources/Node/Delivery/Spool/SpoolSchedule.swift",
        "for row in rows { due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: row, isUnread: true)) }",
        "for row in rows.dropFirst() { due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: row, isUnread: true)) }",
    ),
    (
        "a full spool never takes envelopes again",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "        schedule.shortage = nil\n        actions.append(.observe(.spoolShortage(nil)))",
        "        actions.append(.observe(.spoolShortage(nil)))",
    ),
    (
        "the apns-id changes with each attempt",
        "Sources/Wire/TNP/Envelope+Delivered.swift",
        "        let (high, low) = digest.leadingWords\n        withUnsafeTemporaryAllocation(byteCount: MessageID",
        "        let (high, low) = (digest.leadingWords.0, UInt64.random(in: 0...UInt64.max))\n        withUnsafeTemporaryAllocation(byteCount: MessageID",
    ),
    (
        "a final outcome is sent twice",
        "Sources/Node/Ingress/TNP/IngressConnection.swift",
        "        perform { session, effects in session.finished(request, outcome, now: stream.loop.now, &effects) }\n",
        "        perform { session, effects in session.finished(request, outcome, now: stream.loop.now, &effects) }\n"
        "        perform { session, effects in session.finished(request, outcome, now: stream.loop.now, &effects) }\n",
    ),
    (
        "a row that nobody needs any more stays",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "            if case .stored(let row) = result { removeNeedless(row, of: pending, removal) }\n",
        "            _ = removal\n",
    ),
    (
        "an envelope that is not answered soon is not stored",
        "Sources/Node/Delivery/Spool/DeliveryCore+Spool.swift",
        "while let pending = schedule.takeOverduePlan(at: now) { store(pending) }",
        "while let pending = schedule.takeOverduePlan(at: now) { _ = pending }",
    ),
    (
        "over HTTP, a new device token is refused",
        "Sources/Node/Ingress/HTTP/PhoneRequest.swift",
        "case .rotate(let handle): (type, named) = (.rotate, handle)",
        "case .rotate(let handle): (type, named) = (.forget, handle)",
    ),
    (
        "a provider token counts as unseen",
        "Sources/Node/Providers/APNs/APNsProviderToken.swift",
        "        issued.isSeen = true\n",
        "        issued.isSeen = false\n",
    ),
    (
        "no key holder replaces one that has ended",
        "Sources/Node/KeyHolder/KeyHolder.swift",
        "due.map { $0 <= now } ?? false",
        "due.map { $0 < $0 && $0 <= now } ?? false",
    ),
    (
        "a question to a key holder that has ended is never answered",
        "Sources/Node/KeyHolder/KeyHolder.swift",
        "            let bytes = note(answer, of: holder)\n            results",
        "            guard let bytes = note(answer, of: holder) else { return }\n            results",
    ),
    (
        "the supervisor counts key holders that have ended",
        "Sources/Node/KeyHolder/SupervisorState.swift",
        "guard let child = children.removeValue(forKey: process)",
        "guard let child = children[process]",
    ),
]

# Bugs by which a stranger harms others; the first six are those of earlier versions (Docs/simulation.md).
ATTACKS = [
    (
        "an endpoint in other case is the same phone",
        "Sources/Wire/TNP/DeviceIdentity.swift",
        "case .endpoint: Self.capitalEscapes(deviceToken)",
        "case .endpoint: deviceToken.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }[...]",
    ),
    (
        "one 403 stops a push server",
        "Sources/Node/Delivery/RefusedSubscriptions.swift",
        "        guard isProven else { return false }\n",
        "        if isProven || phones.isEmpty { return true }\n",
    ),
    (
        "a site is blocked for its users' bad tokens",
        "Sources/Node/Admission/Admission+Connections.swift",
        "guard circuit.site == nil, known.abuseAccount",
        "guard known.abuseAccount",
    ),
    (
        "a REGISTER that changes nothing costs the others' budget",
        "Sources/Node/TocsinNode/Intake/Intake+Handles.swift",
        "                if !isRepeated { try shared.admission.admit(registration",
        "                do { try shared.admission.admit(registration",
    ),
    (
        "of a phone's unconfirmed handles the newest yields",
        "Sources/Node/Handles/HandleBounds.swift",
        "Self.maximumUnconfirmed ? handles.removeFirst() : nil",
        "Self.maximumUnconfirmed ? handles.removeLast() : nil",
    ),
    (
        "a dead registration is charged each time",
        "Sources/Node/Admission/Admission+Outcomes.swift",
        "            guard ticket.isUnproven, badTokens.refused(ticket.terms.token, with: outcome, at: now) else { return nil }\n",
        "            guard ticket.isUnproven else { return nil }\n",
    ),
    (
        "unsigned notifications ring bound phones",
        "Sources/Node/Admission/Admission.swift",
        "if settings.senders != .off, terms.signer == 0, bound != 0 { return .rejected(.senderKeyRequired) }",
        "",
    ),
    (
        "any key rings a bound phone",
        "Sources/Node/Admission/Admission.swift",
        "bound != terms.signer, bound != terms.predecessor {",
        "bound != terms.signer, bound != terms.predecessor, bound == 1 {",
    ),
    (
        "any key rings by a handle",
        "Sources/Node/Admission/HandleAccess.swift",
        "        senderKeys.isEmpty || key",
        "        true || key",
    ),
    (
        "a handle needs no signature",
        "Sources/Node/Admission/Admission.swift",
        "        case (_, nil) where isLimited: throw",
        "        case (.required, nil) where isLimited: throw",
    ),
    (
        "anybody may end a handle or move it",
        "Sources/Node/Handles/HandleEntry.swift",
        "        guard request.isSigned(by: record.owner) else { return .rejected(.notTheOwner) }\n",
        "",
    ),
    (
        "circuits share their allowances and blocks",
        "Sources/Node/TocsinNode/SenderConnections.swift",
        "as: .tor(circuit))",
        "as: .tor(circuit & 1))",
    ),
    (
        "one throttled phone trips the lane",
        "Sources/Node/Delivery/DeliveryCore+Attempts.swift",
        "        return lane.deviceThrottling.record(isThrottled: true) ? .failure : disposition.lane\n",
        "        return .trip\n",
    ),
    (
        "an Apple token in capitals is another phone",
        "Sources/Wire/TNP/DeviceIdentity.swift",
        "case .apple: Self.lowerCase(deviceToken)",
        "case .apple: deviceToken",
    ),
    (
        "device tokens are told apart by 13 bits",
        "Sources/Node/Admission/Admission.swift",
        "            phone.bytes.withUnsafeBytes { hash(UnsafeRawBufferPointer(name), $0, label: phone.kind.rawValue) }",
        "            phone.bytes.withUnsafeBytes { hash(UnsafeRawBufferPointer(name), $0, label: phone.kind.rawValue) & 8191 }",
    ),
    (
        "507 of a push server concerns the server",
        "Sources/Node/Providers/WebPush/WebPushAnswers.swift",
        "disposition: .unavailable(seconds: 60, minimum: 10).with(\\.lane, .success)),",
        "disposition: .unavailable(seconds: 60, minimum: 10)),",
    ),
]


# Bugs in what the nodes of a cluster share; those with "flood" are for seeds with --flood.
CLUSTER = [
    (
        "the engine does not respect the claim of a living node",
        "Sources/Node/Cluster/functions.lua",
        "  if redis.call('EXISTS', prefix .. other) == 1 then return redis.status_reply('elsewhere') end\n",
        "",
    ),
    (
        "the engine forgets outcomes",
        "Sources/Node/Cluster/functions.lua",
        "    redis.call('SET', keys.digest, 'f' .. outcome, 'PX', life)\n",
        "    redis.call('DEL', keys.digest)\n",
    ),
    (
        "a node's own provider token replaces one that is young",
        "Sources/Node/Cluster/functions.lua",
        "  if present and present.age < tonumber(arguments.minimum_interval) then return {present.sealed, present.age} end\n"
        "  local age = tonumber(arguments.age)\n"
        "  if present and present.age < age then return {present.sealed, present.age} end\n",
        "  local age = tonumber(arguments.age)\n",
    ),
    (
        "an older record of a handle replaces a newer one",
        "Sources/Node/Cluster/functions.lua",
        "    if own == '' or is_larger(sequence, own) then order = -1 elseif sequence ~= own then order = 1 end\n",
        "    if own == '' then order = -1 elseif sequence ~= own then order = 1 end\n",
    ),
    (
        "flood: the engine does not count unproven device tokens",
        "Sources/Node/Cluster/functions.lua",
        "  if record.standing ~= 1 then unproven.take() end\n",
        "",
    ),
    (
        "flood: a node alone has the whole budget",
        "Sources/Node/TocsinNode/Intake/IntakeState.swift",
        "admission.settings = decidesAlone ? settings.share(of: nodes) : settings",
        "admission.settings = settings",
    ),
]


# Bugs in what nodes without credentials do.
CHAIN = [
    (
        "an answer about one device token opens the breaker",
        "Sources/Node/Providers/Upstream/UpstreamAnswers.swift",
        "disposition: .deviceThrottled(seconds: 60)),",
        "disposition: .quotaExceeded),",
    ),
    (
        "an attempt that a lost connection has interrupted is not placed again",
        "Sources/Node/Providers/Upstream/UpstreamProvider.swift",
        "                move(attempt, request, from: link)\n            }\n        case .slow",
        "                circuits.submissions.displace(attempt)\n            }\n        case .slow",
    ),
    (
        "the hops are not counted",
        "Sources/Node/Providers/Upstream/UpstreamEnvelopeBuilder.swift",
        "outgoing.hops = envelope.hops + 1",
        "outgoing.hops = envelope.hops",
    ),
    (
        "the standby is never used",
        "Sources/Node/Providers/Upstream/UpstreamProvider.swift",
        "excluding: attempts[attempt]?.tried ?? [], now: now)",
        "excluding: Set(circuit.links.indices.dropFirst()), now: now)",
    ),
    (
        "GONE of the upstream node is DELIVERED",
        "Sources/Node/Providers/Upstream/UpstreamAnswers.swift",
        "Row(kind: .gone, reason: .unregistered, disposition: .gone),",
        "Row(kind: .gone, reason: .unregistered, disposition: .delivered),",
    ),
    (
        "an attempt without an answer has no end",
        "Sources/Node/Providers/Upstream/UpstreamProvider.swift",
        "popOverdue(now: now) { timeOut(attempt) }",
        "popOverdue(now: now) { _ = attempt }",
    ),
]


def check():
    """Every text must occur once, so that the list stays true when the code changes."""
    for name, file, old, _ in MUTATIONS + ATTACKS + CLUSTER + CHAIN:
        found = (ROOT / file).read_text().count(old)
        if found != 1:
            sys.exit(f"{file} contains the text of '{name}' {found} times, not once: update the list in {__file__}")


def build(copy):
    """The program, or None with the compiler's message."""
    result = subprocess.run(
        ["swift", "build", "-c", "release", "--product", "tocsin-bench"], cwd=copy, capture_output=True, text=True)
    errors = [line for line in result.stdout.splitlines() if "error:" in line]
    return (copy / ".build/release/tocsin-bench", None) if result.returncode == 0 else (None, errors[:1] or result.stdout[-500:])


def main(arguments):
    if "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return 0
    check()
    attacks, cluster, chain = "--attacks" in arguments, "--cluster" in arguments, "--chain" in arguments
    minutes = MINUTES
    if "--minutes" in arguments:
        place = arguments.index("--minutes")
        minutes = float(arguments[place + 1])
        del arguments[place:place + 2]
    mutations = ATTACKS if attacks else CLUSTER if cluster else CHAIN if chain else MUTATIONS
    if "--list" in arguments:
        for number, mutation in enumerate(mutations, 1):
            print(f"{number:2} {mutation[0]}")
        return 0
    chosen = [int(argument) for argument in arguments if argument.isdigit()] or range(len(mutations) + 1)
    copy = Path(tempfile.gettempdir()) / "tocsin-mutations"
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in tracked.stdout.splitlines():
        if (ROOT / file).is_file():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, copy / file)
    wrong = 0
    for number in chosen:
        name, file, old, new = mutations[number - 1] if number > 0 else ("no bug", mutations[0][1], "", "")
        path = copy / file
        text = path.read_text()
        path.write_text(text.replace(old, new) if number > 0 else text)
        program, error = build(copy)
        path.write_text(text)
        if program is None:
            sys.exit(f"{number}: {name}: does not compile: {error}")
        began = time.monotonic()
        options = ["--attacks"] if attacks else ["--nodes", "3", "--days", "0.1"] if cluster else ["--chain", "--days", "0.25"] if chain else []
        if name.startswith("flood:"):
            options += ["--flood"]
        result = subprocess.run(
            [program, "simulate-many", *options, "--minutes", str(minutes), "--from", "1",
             "--shrink-minutes", "0.5" if attacks else "0"],
            capture_output=True, text=True)
        seconds = time.monotonic() - began
        failure = re.search(r"^seed (\d+): (?!it ended with exit code)(.*)", result.stderr, re.MULTILINE)
        if failure:
            print(f"{number:2} | {name} | {failure[1]} | {seconds:.0f} s | {failure[2]}", flush=True)
        else:
            print(f"{number:2} | {name} | not found | {seconds:.0f} s |", flush=True)
        wrong += (failure is None) == (number > 0)
    shutil.rmtree(copy)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
