// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Testing

@testable import Admission

/// Nobody learns without ringing it whether the node serves a phone: where a limit is reached, a device token that the node
/// knows and one that it has never seen get the same answer.
extension AdmissionTests {
    /// What is sent to a phone by somebody who is not its owner.
    private enum Probe: CaseIterable {
        case unsigned, signedByAnother, wronglySigned

        func submission(to device: Int, in house: AdmissionHarness) throws -> (Envelope, SenderSignature?) {
            let envelope = try house.envelope(for: device)
            let other = try house.envelope(for: device)
            let thief = try Ed25519Key.numbered(2)
            switch self {
            case .unsigned: return (envelope, nil)
            case .signedByAnother: return (envelope, SenderSignature(of: envelope.digest, by: thief))
            case .wronglySigned: return (envelope, SenderSignature(of: other.digest, by: thief))
            }
        }
    }

    /// What the node knows of the phone.
    private static var known: [(name: String, prepare: (AdmissionHarness) throws -> Void)] {
        [
            ("proven", { try $0.send(to: 1, .delivered()) }),
            ("bound", { try $0.send(to: 1, by: .numbered(1), .delivered()) }),
            ("dead", { try $0.send(to: 1, .gone(since: 5)) }),
            (
                "over its rate",
                { house in
                    for _ in 0..<2 { try house.send(to: 1, by: .numbered(1), .delivered()) }
                }
            ),
        ]
    }

    /// What stands in the way of everybody.
    private static var obstacles:
        [(name: String, settings: (inout AdmissionSettings) -> Void, erect: (AdmissionHarness) throws -> Void)]
    {
        [
            (
                "no unproven left", { $0.unproven = Rate(burst: 3, perMinute: 1) },
                { house in
                    for device in 100..<110 { _ = try house.submit(to: device, on: .tor(9)) }
                }
            ),
            (
                "no room at the app", { $0.app = Rate(burst: 4, perMinute: 1) },
                { house in
                    for device in 100..<110 { _ = try house.submit(to: device, on: .tor(9)) }
                }
            ),
            (
                "no unproven left and no room at the app",
                {
                    $0.unproven = Rate(burst: 3, perMinute: 1)
                    $0.app = Rate(burst: 4, perMinute: 1)
                },
                { house in
                    for device in 100..<110 { _ = try house.submit(to: device, on: .tor(9)) }
                    for _ in 0..<10 { _ = try house.submit(to: 1, on: .tor(9)) }
                }
            ),
            (
                "proof of work",
                {
                    $0.puzzle = EffortControl.Settings(mode: .always, least: $0.puzzle.minimum, most: $0.puzzle.maximum)
                },
                { _ in }
            ),
        ]
    }

    @Test(arguments: [0, 1, 2, 3], [0, 1, 2, 3])
    func `a known and an unknown device token get the same refusal`(_ obstacle: Int, _ kind: Int) throws {
        let (name, settings, erect) = Self.obstacles[obstacle]
        for probe in Probe.allCases {
            func refusal(_ device: Int) throws -> Refusal? {
                let house = AdmissionHarness {
                    $0.senders = .optional
                    $0.device = Rate(burst: 2, perMinute: 1)
                }
                house.connect()
                house.connect(.tor(9))
                try Self.known[kind].prepare(house)
                settings(&house.admission.settings)
                try erect(house)
                let (envelope, signature) = try probe.submission(to: device, in: house)
                return house.submit(envelope, signature: signature).refusal
            }
            let (known, unknown) = (try refusal(1), try refusal(2))
            // What rings the phone tells more than any refusal.
            if known == nil { continue }
            #expect(known == unknown, "\(name), \(Self.known[kind].name), \(probe)")
        }
    }
}
