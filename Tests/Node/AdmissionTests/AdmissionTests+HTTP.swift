// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import TestSupport
import Testing

@testable import Admission

/// The HTTP endpoint, whose senders cannot provide proof of work.
@Suite(.tags(.computing)) struct HTTPAdmissionTests {
    private func prove(_ harness: AdmissionHarness, _ devices: Range<Int>) throws {
        for device in devices { try harness.send(to: device, .delivered()) }
    }

    @Test func `the HTTP endpoint requires no proof of work`() throws {
        let harness = AdmissionHarness {
            $0.puzzle = EffortControl.Settings(mode: .always, minimum: 256, maximum: 1024)
        }
        #expect(try harness.submit(to: 1).reason == .proofRequired)
        #expect(try harness.submit(to: 1, through: .http).isAdmitted)
    }

    @Test func `the HTTP endpoint has a rate limit of its own, which does not affect TNP`() throws {
        let harness = AdmissionHarness { $0.http = Rate(burst: 3, perMinute: 60) }
        for device in 0..<3 { #expect(try harness.submit(to: device, through: .http).isAdmitted) }
        let refused = try harness.submit(to: 3, through: .http)
        #expect(refused.reason == .nodeBusy)
        #expect(refused.retryAfter > 0 && refused.retryAfter <= 1000)
        #expect(try harness.submit(to: 3).isAdmitted)
        harness.pass(.seconds(1))
        #expect(try harness.submit(to: 4, through: .http).isAdmitted)
    }

    @Test func `HTTP has its own limit for unproven device tokens, which proven ones do not use`() throws {
        let harness = AdmissionHarness {
            $0.httpUnproven = Rate(burst: 2, perMinute: 1)
            $0.unproven = Rate(burst: 2, perMinute: 1)
        }
        try prove(harness, 0..<1)
        harness.pass(.seconds(3600))
        for device in 10..<12 { #expect(try harness.submit(to: device, through: .http).isAdmitted) }
        #expect(try harness.submit(to: 12, through: .http).reason == .tooManyUnproven)
        #expect(try harness.submit(to: 0, through: .http).isAdmitted)
        // The limit for unproven device tokens of TNP is unused.
        for device in 20..<22 { #expect(try harness.submit(to: device).isAdmitted) }
        #expect(try harness.submit(to: 22).reason == .tooManyUnproven)
    }

    @Test func `an HTTP flood does not raise the proof-of-work effort`() throws {
        let harness = AdmissionHarness {
            $0.http = Rate(burst: 2, perMinute: 1)
            $0.httpUnproven = Rate(burst: 1, perMinute: 1)
            $0.puzzle = EffortControl.Settings(mode: .adaptive, minimum: 256, maximum: 1 << 20)
        }
        for second in 0..<30 {
            for device in 0..<50 { _ = try harness.submit(to: second * 50 + device, through: .http) }
            harness.tick()
        }
        #expect(harness.admission.efforts.all == 0)
        #expect(harness.admission.efforts.unproven == 0)
    }

    @Test(arguments: [ProviderContact.notContacted, .noCapacity])
    func `a submission that reached no push service is refunded to the HTTP limits`(_ contact: ProviderContact) throws {
        let harness = AdmissionHarness {
            $0.http = Rate(burst: 1, perMinute: 1)
            $0.httpUnproven = Rate(burst: 1, perMinute: 1)
        }
        for device in 0..<5 {
            let answer = try harness.submit(to: device, through: .http)
            #expect(answer.isAdmitted)
            harness.conclude(answer, .retry(.nodeBusy, after: 1), contact)
        }
        let contacted = try harness.submit(to: 5, through: .http)
        harness.conclude(contacted, .retry(.providerUnreachable, after: 1), .contacted)
        #expect(try !harness.submit(to: 6, through: .http).isAdmitted)
    }

    @Test func `the device, circuit, app and node limits also apply to HTTP`() throws {
        let harness = AdmissionHarness { $0.device = Rate(burst: 1, perMinute: 1) }
        #expect(try harness.submit(to: 1, through: .http).isAdmitted)
        #expect(try harness.submit(to: 1, through: .http).reason == .deviceTokenOverRate)
        #expect(try harness.submit(to: 1).reason == .deviceTokenOverRate)
        let small = Rate(burst: 1, perMinute: 1)
        for limit in [\AdmissionSettings.app, \.node] {
            let harness = AdmissionHarness { $0[keyPath: limit] = small }
            #expect(try harness.submit(to: 1).isAdmitted)
            #expect(try harness.submit(to: 2, through: .http).reason == .nodeBusy)
        }
        let own = AdmissionHarness { $0.circuit = small }
        own.connect()
        #expect(try own.submit(to: 1, through: .http).isAdmitted)
        #expect(try own.submit(to: 2, through: .http).reason == .connectionOverRate)
    }

    @Test func `HTTP cannot deliver to a device token that is bound to a sender key`() throws {
        let harness = AdmissionHarness()
        try harness.send(to: 1, by: .numbered(1), .delivered())
        #expect(try harness.submit(to: 1, through: .http).reason == .senderKeyRequired)
    }
}
