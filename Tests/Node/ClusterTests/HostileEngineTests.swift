// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TNP
import TestSupport
import Testing
import Time

@testable import Admission
@testable import Cluster
@testable import Redis

/// An engine that answers with any numbers ends no node.
@Suite(.tags(.computing)) struct HostileEngineTests {
    private static let numbers: [Int64] = [
        .min, .min + 1, -1_000_000_000_000, -1, 0, 1, 255, 256, 65_535, 65_536, 1 << 31, 1 << 32, 1 << 53, .max - 1,
        .max,
    ]
    private static let texts =
        numbers.map { "\($0)" } + ["18446744073709551615", "18446744073709551616", "1e9", "", "x"]

    private static func text(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }

    /// Every reply to a claim, with each number in each place.
    private static let replies: [RedisReply] = {
        var replies: [RedisReply] = []
        for number in numbers {
            for what in ["node", "unproven", "x"] {
                replies.append(.array([text("over"), text(what), .integer(number)]))
            }
            for used in texts { replies.append(.array([text("device"), .integer(number), text(used)])) }
        }
        for value in texts {
            replies.append(.array([text("dead"), text(value)]))
            for place in 0..<6 {
                var numbers = ["1", "0", "20000", "0", "0", "0"]
                numbers[place] = value
                replies.append(.array([text("claimed"), text(numbers.joined(separator: " "))]))
            }
        }
        return replies
    }()

    private func moment(_ seconds: Int64) -> ClockReading {
        ClockReading(
            monotonic: MonotonicTime(nanoseconds: UInt64(seconds) * 1_000_000_000), unix: 1_700_000_000 + seconds)
    }

    @Test func `any answer to a claim is applied or refused`() throws {
        var (applied, claimed) = (0, 0)
        for (index, reply) in Self.replies.enumerated() {
            guard let answer = ClaimAnswer(reply) else { continue }
            applied += 1
            var admission = Admission(
                AdmissionSettings(), hash: KeyedHash(key: SecretBytes([UInt8](repeating: 1, count: 16))),
                seed: [UInt8](repeating: 2, count: 16), now: moment(1).monotonic)
            let envelope = try Envelope(
                magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
                ciphertext: [UInt8](repeating: 1, count: 16)[...], format: .pipe)
            let terms = admission.terms(
                of: Submission(request: 1, envelope: envelope), paid: 0, app: "bisq", on: .tor(1), through: .tnp)
            switch answer {
            case .claimed(let record, let used):
                claimed += 1
                let ticket = try admission.admitted(terms, record, used: used, at: moment(2))
                _ = admission.addingAllowance(to: .delivered(), of: ticket, at: moment(3).monotonic)
                _ = admission.finish(ticket, with: .delivered(), contact: .contacted, at: moment(3))
            case .refused(let reason):
                let outcome = admission.refusal(of: terms, reason, at: moment(2)).outcome
                #expect(outcome != nil, "\(index)")
            case .final, .elsewhere, .ivReused, .resumed: break
            }
            _ = admission.record(for: terms, on: moment(4).day)
            // The node goes on by what it has learned, also for a long time.
            for seconds in [5, 86_400, 400 * 86_400] {
                _ = try? admission.admit(terms, at: moment(Int64(seconds)))
                _ = admission.tick(queue: 0, at: moment(Int64(seconds))) { [UInt8](repeating: 3, count: 16) }
            }
            while let changes = admission.takeChanges(atMost: 10) { #expect(changes.records.count <= 10) }
        }
        #expect(applied > 100)
        // Each of the six numbers has some that fit.
        #expect(claimed > 30)
    }

    @Test(arguments: [
        "", "1", "1 0 20000 0 0", "1 0 20000 0 0 0 0", "1 0 20000 0 0 0 ", " 1 0 20000 0 0 0", "1  0 20000 0 0 0",
        "-1 0 20000 0 0 0", "256 0 20000 0 0 0", "1 0 65536 0 0 0", "1 18446744073709551616 20000 0 0 0",
    ])
    func `a record is six numbers in their ranges`(_ text: String) {
        #expect(SharedRecord.decode(Array(text.utf8)) == nil)
        #expect(ClaimAnswer(.array([Self.text("claimed"), Self.text(text)])) == nil)
    }

    @Test func `any membership is decoded or refused`() {
        var decoded = 0
        for time in Self.texts {
            for absence in Self.texts {
                let member = RedisReply.array([Self.text("node"), Self.text("session 1"), Self.text(absence)])
                let integer = Int64(absence).map { RedisReply.integer($0) } ?? Self.text(absence)
                for about in [member, .array([Self.text("node"), Self.text("session 1"), integer])] {
                    let reply = RedisReply.array([
                        Self.text(time), .array([about]), Self.text("node session"), integer, Self.text("epoch"),
                    ])
                    if Membership(reply) != nil { decoded += 1 }
                }
            }
        }
        #expect(decoded > 0)
    }
}
