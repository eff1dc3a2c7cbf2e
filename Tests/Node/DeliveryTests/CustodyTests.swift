// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct CustodyTests {
    private func makeEnvelope() throws -> Envelope { try Draft().envelope() }

    @Test func `an envelope that arrives is in memory only`() throws {
        let custody = Custody(try makeEnvelope())
        #expect(custody.isInMemory && !custody.isLoaded && custody.use == .none)
        #expect(custody.row == nil && !custody.isForSpool)
    }

    @Test func `a row ends the plan, and is new once`() throws {
        var custody = Custody(try makeEnvelope())
        custody.plan()
        #expect(custody.isPlanned && custody.isForSpool)
        let isFirst = custody.stored(in: Custody.Row(id: 7, isOfThisProcess: true))
        let isAgain = custody.stored(in: Custody.Row(id: 7))
        #expect(isFirst && !isAgain)
        custody.cancelPlan()
        #expect(custody.row == 7 && custody.isOfThisProcess && !custody.isPlanned)
    }

    @Test func `a cancelled plan leaves nothing for the spool`() throws {
        var custody = Custody(try makeEnvelope())
        custody.plan()
        custody.cancelPlan()
        #expect(!custody.isForSpool && custody.row == nil)
    }

    @Test func `a row that nobody needs any more is removed when it is written`() throws {
        var custody = Custody(try makeEnvelope())
        custody.plan()
        custody.abandonWrite(Custody.Removal(outcome: .delivered(), keepUntil: 7))
        #expect(custody.isPlanned)
        custody.beginWrite()
        #expect(custody.isBeingWritten && custody.isForSpool && !custody.isPlanned)
        custody.abandonWrite(Custody.Removal(outcome: .delivered(), keepUntil: 7))
        // The first reason remains.
        custody.abandonWrite(Custody.Removal(outcome: .rejected(.ttlRanOut), keepUntil: nil))
        #expect(!custody.isForSpool)
        let removal = custody.writeEnded()
        #expect(removal?.outcome == .delivered() && removal?.keepUntil == 7)
        #expect(custody.writeEnded() == nil)
    }

    @Test func `a write whose row is needed leaves nothing to remove`() throws {
        var custody = Custody(try makeEnvelope())
        custody.plan()
        custody.beginWrite()
        #expect(custody.writeEnded() == nil && !custody.isForSpool)
    }

    @Test func `what counts in memory counts anew after the content was loaded`() throws {
        let envelope = try makeEnvelope()
        var custody = Custody(envelope)
        custody.use = .delivering
        _ = custody.stored(in: Custody.Row(id: 1))
        #expect(custody.use == .delivering)
        custody.leaveMemory()
        #expect(custody.envelope == nil && custody.use == .none && !custody.isLoaded && custody.row == 1)
        // Nothing in memory counts as delivered from there.
        custody.use = .delivering
        #expect(custody.use == .none)
        custody.load(envelope)
        #expect(custody.isInMemory && custody.isLoaded && custody.use == .none)
    }
}
