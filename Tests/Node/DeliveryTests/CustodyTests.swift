// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct CustodyTests {
    private func makeEnvelope() throws -> Envelope { try Draft().envelope() }

    @Test func `an envelope that arrives is in memory only`() throws {
        let custody = Custody(try makeEnvelope())
        #expect(custody.isInMemory && !custody.isLoaded && !custody.isDelivering)
        #expect(custody.row == nil && !custody.hasReservation)
    }

    @Test func `a row ends the reservation, and is new once`() throws {
        var custody = Custody(try makeEnvelope())
        custody.reserve()
        #expect(custody.hasReservation)
        let isFirst = custody.stored(in: Custody.Row(id: 7, isOfThisProcess: true))
        let isAgain = custody.stored(in: Custody.Row(id: 7))
        let isCancelled = custody.cancelReservation()
        #expect(isFirst && !isAgain && !isCancelled)
        #expect(custody.row == 7 && custody.isOfThisProcess && !custody.hasReservation)
    }

    @Test func `a reservation is cancelled once`() throws {
        var custody = Custody(try makeEnvelope())
        custody.reserve()
        let (first, second) = (custody.cancelReservation(), custody.cancelReservation())
        #expect(first && !second && custody.row == nil)
    }

    @Test func `what counts in memory counts anew after the content was loaded`() throws {
        let envelope = try makeEnvelope()
        var custody = Custody(envelope)
        custody.beganDelivery()
        _ = custody.stored(in: Custody.Row(id: 1))
        #expect(custody.isDelivering)
        custody.leaveMemory()
        #expect(custody.envelope == nil && !custody.isDelivering && !custody.isLoaded && custody.row == 1)
        // Nothing in memory counts as delivered from there.
        custody.beganDelivery()
        #expect(!custody.isDelivering)
        custody.load(envelope)
        #expect(custody.isInMemory && custody.isLoaded && !custody.isDelivering)
    }
}
