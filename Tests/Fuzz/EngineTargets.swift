// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Handles
import TNP
import Time

@testable import Admission
@testable import Cluster
@testable import KeyHolder
@testable import Redis

/// What a hostile engine says: each reply as the answer to whatever it could answer, and what the node then does.
func readEngine(_ input: inout FuzzInput) {
    let reader = ReplyReader()
    var state = EngineState(session: "00", now: MonotonicTime(nanoseconds: 1_000_000_000_000))
    var actions: [EngineState.Action] = []
    state.connected(epoch: [1], &actions)
    var admission = Admission(
        AdmissionSettings(),
        hash: KeyedHash(key: SecretBytes([UInt8](repeating: 1, count: 32))),
        seed: [UInt8](repeating: 2, count: Puzzle.seedLength), now: MonotonicTime(nanoseconds: 1_000_000_000_000))
    var previous: RedisReply?
    for (number, piece) in input.pieces().enumerated() {
        let now = MonotonicTime(nanoseconds: 1_000_000_000_000 + UInt64(number) * 1_000_000_000)
        do {
            try reader.append(piece.span.bytes)
            while let reply = try reader.next() {
                state.heartbeatSent(now: now, wall: 1_800_000_000_000)
                state.replied(.success(reply), now: now, &actions)
                _ = SealedHandle(reply, of: [])
                _ = NamedPrimary(address: previous ?? reply, facts: reply)
                if let answer = ClaimAnswer(reply) { decide(answer, &admission, now) }
                previous = reply
            }
        } catch { return }
    }
    precondition(state.status.members.count <= ReplyReader.maximumArrayLength, "more nodes than a reply may name")
}

/// Admission takes the engine's decision about a submission, and then decides about another one alone.
private func decide(_ answer: ClaimAnswer, _ admission: inout Admission, _ now: MonotonicTime) {
    let clock = ClockReading(monotonic: now, unix: 1_800_000_000)
    guard
        let envelope = try? Envelope(
            magic: .android, deviceToken: Array("token".utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
            ciphertext: [UInt8](repeating: 1, count: 32)[...], format: .pipe)
    else { preconditionFailure("the envelope is invalid") }
    let submission = Submission(request: 1, envelope: envelope, acceptQueued: false)
    var terms = admission.terms(of: submission, paid: 0, app: "bisq", on: .tor(1), through: .tnp)
    guard (try? admission.checkNode(&terms, at: now)) != nil else { return }
    switch answer {
    case .claimed(let record, let used):
        guard let ticket = try? admission.admitted(terms, record, used: used, at: clock) else { return }
        _ = admission.finish(ticket, with: Outcome(.delivered), contact: .contacted, at: clock)
        _ = admission.addingAllowance(to: Outcome(.delivered), of: ticket, at: now)
    case .refused(let refusal): use(admission.refusal(of: terms, refusal, at: clock))
    case .resumed, .final, .elsewhere, .ivReused: admission.refundNode(&terms, at: now)
    }
    let next = admission.terms(of: submission, paid: 0, app: "bisq", on: .tor(1), through: .tnp)
    do throws(Refusal) { _ = try admission.admit(next, at: clock) } catch { use(error) }
}

/// A refusal reaches the sender as a frame.
private func use(_ refusal: Refusal) {
    guard let outcome = refusal.outcome else { return }
    var bytes: [UInt8] = []
    bytes.append(SubmissionResult(request: 1, outcome: outcome))
    var decoder = FrameDecoder(maximumLength: 1 << 20)
    decoder.append(bytes.span.bytes)
    guard let frame = try? decoder.next(), (try? Message(frame)) != nil else {
        preconditionFailure("a refusal is no frame")
    }
}

/// What the processes beside the node say to each other: none trusts another one's bytes.
func readProcesses(_ input: inout FuzzInput) {
    let kind = input.byte()
    let bytes = input.all()
    switch kind & 3 {
    case 0:
        if let command = SupervisorCommand(bytes) { precondition(SupervisorCommand(command.bytes) == command) }
        if let report = Supervisor.Report(bytes) {
            precondition(Supervisor.Report(report.bytes)?.bytes == report.bytes)
        }
    case 1:
        if let request = ResolverRequest(decoding: bytes) {
            precondition(ResolverRequest(decoding: request.encoded)?.encoded == request.encoded)
        }
    case 2:
        if let answer = ResolverAnswer(decoding: bytes) {
            precondition(ResolverAnswer(decoding: answer.encoded) == answer)
        }
    default:
        _ = try? HolderReport(json: bytes)
        _ = try? HolderRequest(json: bytes)
    }
}
