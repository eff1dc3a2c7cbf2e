// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct OutcomeDetailsTests {
    private func outcome(_ number: Int) -> Outcome {
        .delivered(id: "projects/p/messages/0:1500415314455276%\(number)")
    }

    @Test func `outcomes are kept until they are released, oldest first`() {
        var details = OutcomeDetails(maximumBytes: 1 << 20)
        let places = (0..<5000).map { details.append(outcome($0)) }
        for (number, place) in places.enumerated() { #expect(details[place] == outcome(number)) }
        details.release(before: places[2500])
        for number in 2500..<5000 { #expect(details[places[number]] == outcome(number)) }
        #expect(details[places[0]] == nil)
        details.removeAll()
        #expect(places.allSatisfy { details[$0] == nil })
        let next = details.append(outcome(1))
        #expect(details[next] == outcome(1))
    }

    @Test func `without room, a text is left out, or everything`() {
        var details = OutcomeDetails(maximumBytes: 1)
        var places: [OutcomeDetails.Place] = []
        let long = Outcome.rejected(.badDeviceToken, text: String(repeating: "x", count: 200))
        for _ in 0..<400 { places.append(details.append(long)) }
        let kept = places.map { details[$0] }
        #expect(kept.first == long && kept.last == .some(nil))
        #expect(kept.contains { $0 != nil && $0?.text == nil })
    }

    @Test func `nothing is kept nowhere`() {
        let details = OutcomeDetails(maximumBytes: 1 << 20)
        #expect(details[.none] == nil)
    }
}
