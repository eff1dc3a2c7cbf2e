// SPDX-License-Identifier: Apache-2.0

import Confinement
import Cryptography
import Glibc
import TestSupport
import Testing

@testable import KeyHolder

@Suite(.tags(.sockets)) struct LocalSocketTests {
    @Test func `frames of all sizes arrive`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: false)
        for size in [0, 1, 4, 1000, 60_000] {
            let frame = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
            try one.sendFrame(frame, within: .seconds(5))
            #expect(try other.receiveFrame(atMost: size, within: .seconds(5)) == frame)
        }
    }

    @Test func `after one request without an answer, those that wait for their turn fail at once`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: false)
        let holder = HolderConnection(
            one, HolderReport(copies: FileCopies(), credentials: []), answerTimeout: .milliseconds(20))
        let request = HolderRequest(credential: 0, question: Base64Bytes([1]))
        #expect(throws: HolderProblem.doesNotAnswer) { try holder.askBlocking(request).get() }
        // An answer that comes too late belongs to no request.
        try? other.sendFrame([7], within: .seconds(5))
        #expect(throws: HolderProblem.hasEnded) { try holder.askBlocking(request).get() }
    }

    @Test func `a frame that is too long, or never ends, is an error`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: false)
        try one.sendFrame([1, 2, 3], within: .seconds(5))
        #expect(throws: LocalSocket.Failure.malformed) { try other.receiveFrame(atMost: 2, within: .seconds(5)) }
        let (slow, reader) = try LocalSocket.pair(keepsMessages: false)
        #expect(throws: LocalSocket.Failure.timedOut) {
            try reader.receiveFrame(atMost: 10, within: .milliseconds(20))
        }
        try slow.send([0, 0, 0, 9, 1])
        #expect(throws: LocalSocket.Failure.timedOut) {
            try reader.receiveFrame(atMost: 10, within: .milliseconds(20))
        }
    }

    @Test func `a peer that reads nothing does not block for ever`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: false)
        #expect(throws: LocalSocket.Failure.timedOut) {
            try one.sendFrame([UInt8](repeating: 0, count: 8 << 20), within: .milliseconds(50))
        }
        _ = other
    }

    @Test func `a closed peer is noticed`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: false)
        #expect(!one.isClosed)
        do { _ = consume other }
        #expect(one.isClosed)
        #expect(throws: LocalSocket.Failure.closed) { try one.sendFrame([1], within: .seconds(1)) }
        #expect(throws: LocalSocket.Failure.closed) { try one.receiveFrame(atMost: 1, within: .seconds(1)) }
    }

    @Test func `a descriptor comes with a message`() throws {
        let (one, other) = try LocalSocket.pair(keepsMessages: true)
        let (passed, far) = try LocalSocket.pair(keepsMessages: true)
        #expect(try other.receive(atMost: 10) == nil)
        try one.send([1, 2], with: far.descriptor)
        try one.send([3])
        let first = try #require(try other.receive(atMost: 10, within: .seconds(1)))
        #expect(first.bytes == [1, 2])
        let copy = LocalSocket(owning: try #require(first.passed))
        try copy.send([9])
        #expect(try passed.receive(atMost: 10, within: .seconds(1))?.bytes == [9])
        let second = try #require(try other.receive(atMost: 10, within: .seconds(1)))
        #expect(second.bytes == [3] && second.passed == nil)
    }

    @Test func `reports of the supervisor survive, and other messages are none`() {
        #expect(
            Supervisor.Report([101, 0, 0, 1, 2] + Array("ptrace".utf8))
                == .refused(RefusedCall(name: "ptrace", thread: 258)))
        #expect(Supervisor.Report([102] + Array("by signal 9".utf8)) == .holderEnded("by signal 9"))
        for bytes: [UInt8] in [[], [101], [101, 0, 0, 0, 1], [1], [3, 0], [255]] {
            #expect(Supervisor.Report(bytes) == nil)
        }
    }
}
