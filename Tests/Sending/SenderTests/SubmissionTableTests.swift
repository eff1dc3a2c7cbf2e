// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Sender

@Suite(.tags(.computing)) struct SubmissionTableTests {
    private typealias Place = SubmissionTable.Place

    /// Circuit 1 with the links 1 and 2, circuit 3 with the links 3 and 4.
    private var table: SubmissionTable {
        var table = SubmissionTable()
        table.open(1, links: [1, 2])
        table.open(3, links: [3, 4])
        return table
    }

    private func insert(on circuit: Int, _ table: inout SubmissionTable) -> UInt64 {
        let number = table.newNumber()
        table.insert(number, on: circuit)
        return number
    }

    @Test func `a link needs a connection while its circuit has a submission, wherever that is`() {
        var table = table
        #expect(!table.needs(1) && table.isIdle(1))
        let number = insert(on: 1, &table)
        table.place(number, at: Place(link: 2, request: 5))
        #expect(table.needs(1) && table.needs(2) && !table.isIdle(1))
        #expect(!table.needs(3) && table.isIdle(3))
        table.remove(number)
        #expect(!table.needs(1) && table.isIdle(1) && table.count == 0)
    }

    @Test func `a link stands for its node, until its circuit closes`() {
        var table = table
        #expect((1...4).map { table.position(of: $0)?.circuit } == [1, 1, 3, 3])
        #expect((1...4).map { table.position(of: $0)?.node } == [0, 1, 0, 1])
        table.close(1, links: [1, 2])
        #expect((1...4).map { table.position(of: $0)?.node } == [nil, nil, 0, 1])
        #expect(!table.needs(1) && !table.isIdle(1))
    }

    @Test func `an answer finds its submission by link and request, and only once`() {
        var table = table
        let first = insert(on: 1, &table)
        let second = insert(on: 3, &table)
        table.place(first, at: Place(link: 1, request: 1))
        table.place(second, at: Place(link: 3, request: 1))
        #expect(table.submission(at: Place(link: 1, request: 1)) == first)
        #expect(table.submission(at: Place(link: 3, request: 1)) == second)
        #expect(table.submission(at: Place(link: 1, request: 2)) == nil)
        table.remove(first)
        table.remove(first)
        #expect(table.submission(at: Place(link: 1, request: 1)) == nil)
        #expect(table.numbers == [second] && !table.contains(first) && !table.isIdle(3) && table.isIdle(1))
    }

    @Test func `a submission that moves is at no link, then at another one`() {
        var table = table
        let number = insert(on: 1, &table)
        #expect(table.unplaced(on: 1) == [number])
        table.place(number, at: Place(link: 1, request: 1))
        #expect(table.unplaced(on: 1) == [])
        table.displace(number)
        #expect(table.unplaced(on: 1) == [number] && table.place(of: number) == nil)
        #expect(table.submission(at: Place(link: 1, request: 1)) == nil)
        table.place(number, at: Place(link: 2, request: 9))
        #expect(table.place(of: number) == Place(link: 2, request: 9))
        table.displace(number)
        table.displace(number)
        #expect(table.count == 1 && table.circuit(of: number) == 1)
    }

    @Test func `the oldest submissions come first, those of a circuit apart`() {
        var table = table
        let numbers = (0..<20).map { insert(on: $0 % 2 == 0 ? 1 : 3, &table) }
        #expect(table.numbers == numbers)
        #expect(table.unplaced(on: 3) == numbers.enumerated().filter { $0.offset % 2 == 1 }.map(\.element))
    }
}
