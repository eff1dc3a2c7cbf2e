// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct ReplyListTests {
    private func makeList(_ accepting: [Bool]) -> ReplyList {
        var list = ReplyList()
        for (number, accepts) in accepting.enumerated() {
            list.append(Reply(number: UInt64(number), acceptsQueued: accepts))
        }
        return list
    }

    private func numbers(_ list: ReplyList) -> [UInt64] {
        var numbers: [UInt64] = []
        list.forEach { numbers.append($0.number) }
        return numbers
    }

    @Test func `the submissions keep their order`() {
        let list = makeList([true, false, true])
        #expect(numbers(list) == [0, 1, 2] && list.count == 3 && list.first?.number == 0)
    }

    @Test func `those that do not accept QUEUED are refused, and later ones get the same`() {
        var list = makeList([true, false, true, false])
        var refused: [UInt64] = []
        let refusal = Outcome.retry(.providerThrottles, after: 5000)
        let hasLostFirst = list.rejectUnqueued(with: refusal) { refused.append($0.number) }
        #expect(refused == [1, 3] && numbers(list) == [0, 2] && !hasLostFirst)
        #expect(list.lastRefusal == refusal)
    }

    @Test func `the loss of the first one is told once`() {
        var list = makeList([false, true])
        let isLost = list.rejectUnqueued(with: .retry(.nodeBusy, after: 1)) { _ in }
        let isLostAgain = list.rejectUnqueued(with: .retry(.nodeBusy, after: 1)) { _ in }
        #expect(isLost && !isLostAgain && list.first == nil && numbers(list) == [1])
    }

    @Test func `from 16 on, resends that nobody waits for are removed, never the first`() {
        var list = makeList(Array(repeating: true, count: 15))
        var removed = 0
        list.purge(keeping: { _ in false }, remove: { _ in removed += 1 })
        #expect(removed == 0)
        list.append(Reply(number: 15, acceptsQueued: true))
        list.purge(keeping: { $0.number == 9 }, remove: { _ in removed += 1 })
        #expect(removed == 14 && numbers(list) == [0, 9])
    }

    @Test func `there is room for 256`() {
        #expect(makeList(Array(repeating: true, count: 255)).hasRoom)
        #expect(!makeList(Array(repeating: true, count: 256)).hasRoom)
    }
}
