// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@Suite(.tags(.computing)) struct OutcomeTests {
    private static let uuid = "2c1f8fff-a63e-8266-8d0f-40179f2de369"

    @Test func `each property keeps its value while others change`() {
        var outcome = Outcome(.delivered)
        for id in [Self.uuid, "projects/p/messages/1", "", Self.uuid.uppercased(), nil] {
            for text in ["a sentence", nil] {
                for since in [1_700_000_000_000, 0, nil] as [UInt64?] {
                    outcome.providerID = id
                    outcome.text = text
                    outcome.goneSince = since
                    #expect(outcome.providerID == id && outcome.text == text && outcome.goneSince == since)
                    let made = Outcome(.delivered, providerID: id, text: text, goneSince: since)
                    #expect(outcome == made)
                    #expect(outcome.hasDetails == (text != nil || since != nil))
                }
            }
        }
        #expect(outcome == Outcome(.delivered))
    }

    @Test func `a copy keeps its values when the original changes`() {
        var outcome = Outcome(.gone, reason: .unregistered, providerID: "m/1", text: "gone", goneSince: 1)
        let copy = outcome
        outcome.text = "other"
        outcome.providerID = Self.uuid
        outcome.goneSince = nil
        #expect(copy == Outcome(.gone, reason: .unregistered, providerID: "m/1", text: "gone", goneSince: 1))
        #expect(copy != outcome)
    }

    @Test func `outcomes that differ in one property are not equal`() {
        let one = Outcome(.retry, reason: .nodeBusy)
        var unknown = one
        unknown.isTokenUnknown = true
        for other in [
            Outcome(.rejected, reason: .nodeBusy), Outcome(.retry), Outcome(.retry, reason: .nodeBusy, retryAfter: 1),
            Outcome(.retry, reason: .nodeBusy, providerID: Self.uuid),
            Outcome(.retry, reason: .nodeBusy, providerID: "m/1"), Outcome(.retry, reason: .nodeBusy, text: ""),
            Outcome(.retry, reason: .nodeBusy, goneSince: 0), Outcome(.retry, reason: .nodeBusy, left: 0),
            Outcome(.retry, reason: .nodeBusy, fullIn: 0), unknown,
        ] { #expect(other != one) }
    }
}
