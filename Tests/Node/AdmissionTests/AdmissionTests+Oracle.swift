// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Testing

@testable import Admission

/// A sender cannot learn whether the node knows a device token without delivering to it: when a limit is reached, a
/// known and an unknown device token get the same refusal.
extension AdmissionTests {
    /// A submission by a sender that does not own the device token.
    private enum Probe: CaseIterable {
        case unsigned, signedByAnother, wronglySigned

        func submission(to device: Int, in harness: AdmissionHarness) throws -> (Envelope, SenderSignature?) {
            let envelope = try harness.envelope(for: device)
            let other = try harness.envelope(for: device)
            let thief = try Ed25519Key.numbered(2)
            switch self {
            case .unsigned: return (envelope, nil)
            case .signedByAnother: return (envelope, SenderSignature(of: envelope.digest, by: thief))
            case .wronglySigned: return (envelope, SenderSignature(of: other.digest, by: thief))
            }
        }
    }

    /// What the node knows of the device token.
    private static var standings: [(name: String, prepare: (AdmissionHarness) throws -> Void)] {
        [
            ("proven", { try $0.send(to: 1, .delivered()) }),
            ("bound", { try $0.send(to: 1, by: .numbered(1), .delivered()) }),
            ("dead", { try $0.send(to: 1, .gone(since: 5)) }),
            (
                "over its rate",
                { harness in
                    for _ in 0..<2 { try harness.send(to: 1, by: .numbered(1), .delivered()) }
                }
            ),
        ]
    }

    /// A limit that applies to all senders.
    private static var limits:
        [(name: String, settings: (inout AdmissionSettings) -> Void, exhaust: (AdmissionHarness) throws -> Void)]
    {
        [
            (
                "unproven budget used up", { $0.unproven = Rate(burst: 3, perMinute: 1) },
                { harness in
                    for device in 100..<110 { _ = try harness.submit(to: device, on: .tor(9)) }
                }
            ),
            (
                "app limit used up", { $0.app = Rate(burst: 4, perMinute: 1) },
                { harness in
                    for device in 100..<110 { _ = try harness.submit(to: device, on: .tor(9)) }
                }
            ),
            (
                "unproven budget and app limit used up",
                {
                    $0.unproven = Rate(burst: 3, perMinute: 1)
                    $0.app = Rate(burst: 4, perMinute: 1)
                },
                { harness in
                    for device in 100..<110 { _ = try harness.submit(to: device, on: .tor(9)) }
                    for _ in 0..<10 { _ = try harness.submit(to: 1, on: .tor(9)) }
                }
            ),
            (
                "proof of work",
                {
                    $0.puzzle = EffortControl.Settings(
                        mode: .always, minimum: $0.puzzle.minimum, maximum: $0.puzzle.maximum)
                },
                { _ in }
            ),
        ]
    }

    @Test(arguments: [0, 1, 2, 3], [0, 1, 2, 3])
    func `a known and an unknown device token get the same refusal`(_ limit: Int, _ kind: Int) throws {
        let (name, settings, exhaust) = Self.limits[limit]
        for probe in Probe.allCases {
            func refusal(_ device: Int) throws -> Refusal? {
                let harness = AdmissionHarness {
                    $0.senders = .optional
                    $0.device = Rate(burst: 2, perMinute: 1)
                }
                harness.connect()
                harness.connect(.tor(9))
                try Self.standings[kind].prepare(harness)
                settings(&harness.admission.settings)
                try exhaust(harness)
                let (envelope, signature) = try probe.submission(to: device, in: harness)
                return harness.submit(envelope, signature: signature).refusal
            }
            let (known, unknown) = (try refusal(1), try refusal(2))
            // A delivery tells more than any refusal.
            if known == nil { continue }
            #expect(known == unknown, "\(name), \(Self.standings[kind].name), \(probe)")
        }
    }
}
