// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import tocsin

@Suite(.tags(.sockets)) struct OutcomeTextTests {
    @Test func `a rejection of the sender key is explained`() {
        let other = OutcomeText(.rejected(.senderKeyMismatch)).reason
        #expect(other.contains("(reason 206)"))
        #expect(other.contains("this phone was paired anew elsewhere"))
        let needed = OutcomeText(.rejected(.senderKeyRequired)).reason
        #expect(needed.contains("(reason 205)"))
        #expect(needed.contains("--no-key"))
        #expect(OutcomeText(.rejected(.ivReused, text: "no")).reason == "no (reason 208)")
    }

    @Test func `a success needs no reason`() {
        #expect(OutcomeText(.delivered()).reason == "the push service has accepted it")
        #expect(OutcomeText(Outcome(.queued)).reason == "the node keeps it until it is delivered")
        #expect(OutcomeText(Outcome(.gone)).reason == "no reason given")
    }

    @Test func `the allowance is shown if it is used up or was insufficient`() {
        var outcome = Outcome.delivered()
        #expect(OutcomeText(outcome).allowance == nil)
        outcome.left = 1
        outcome.fullIn = 1500
        #expect(OutcomeText(outcome).allowance == nil)
        outcome.left = 0
        #expect(OutcomeText(outcome).allowance == "notifications left for this phone now: 0; full allowance in 2 s")
        outcome = .retry(.deviceTokenOverRate, after: 1)
        #expect(OutcomeText(outcome).allowance == nil)
        outcome.left = 3
        #expect(OutcomeText(outcome).allowance == "notifications left for this phone now: 3")
    }

    @Test func `the retry time is rounded up to whole seconds`() {
        #expect(OutcomeText(.retry(.nodeBusy, after: 0)).retryTime == "later")
        #expect(OutcomeText(.retry(.nodeBusy, after: 1)).retryTime == "in 1 s")
        #expect(OutcomeText(.retry(.nodeBusy, after: 2001)).retryTime == "in 3 s")
        #expect(OutcomeText(.retry(.nodeBusy, after: .max)).retryTime == "in 4294968 s")
    }
}
