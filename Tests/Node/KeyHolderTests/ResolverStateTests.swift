// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing
import Time

@testable import KeyHolder

@Suite(.tags(.computing)) struct ResolverStateTests {
    private typealias Action = ResolverState<Int>.Action
    private var state = ResolverState<Int>()
    private let now = MonotonicTime(nanoseconds: 1_000_000_000)
    private let late = NameAnswer.failure("no answer in time", isUnknown: false)

    private mutating func lookUp(_ host: String, files: Int = 1, after seconds: Int = 0) -> [Action] {
        state.lookUp(host, files: files, at: now + .seconds(seconds)).1
    }

    private mutating func secondPassed(files: Int = 1, after seconds: Int) -> [Action] {
        state.secondPassed(files: files, at: now + .seconds(seconds))
    }

    @Test mutating func `the first lookup starts a resolver, and later ones ask it`() {
        #expect(lookUp("a") == [.start])
        #expect(state.started() == [.send(1, host: "a")])
        #expect(lookUp("b") == [.send(2, host: "b")])
        let answer = state.answered(1, late)
        #expect(answer == [.answer(1, late)])
        let again = state.answered(1, late)
        #expect(again.isEmpty)
    }

    @Test mutating func `changed files start another resolver, which gets all that waits`() {
        _ = lookUp("a")
        #expect(secondPassed(files: 1, after: 1).isEmpty)
        #expect(secondPassed(files: 2, after: 2) == [.start])
        #expect(lookUp("b", files: 3, after: 3) == [.start])
        #expect(state.started() == [.send(1, host: "a"), .send(2, host: "b")])
    }

    @Test mutating func `a lookup ends after its time, and a resolver that hangs is replaced`() {
        _ = lookUp("a")
        _ = lookUp("b", after: 30)
        #expect(secondPassed(after: 59).isEmpty)
        #expect(secondPassed(after: 60) == [.answer(1, late), .start])
        #expect(state.started() == [.send(2, host: "b")])
        // With the last one, the resolver ends, and the next name starts another one.
        #expect(secondPassed(after: 90) == [.answer(2, late), .end])
        #expect(secondPassed(files: 2, after: 91).isEmpty)
        #expect(lookUp("c", after: 92) == [.start])
    }

    @Test mutating func `when a resolver ends, what waits fails`() {
        _ = lookUp("a")
        _ = lookUp("b")
        let ended = NameAnswer.failure("gone", isUnknown: false)
        let actions = state.ended("gone")
        #expect(actions == [.answer(1, ended), .answer(2, ended)])
        #expect(lookUp("c") == [.start])
    }

    @Test mutating func `files that change all the time cost no resolver that works`() {
        for change in 1...8 { #expect(lookUp("a", files: change) == [.start]) }
        #expect(lookUp("b", files: 9) == [.send(9, host: "b")])
        #expect(lookUp("c", files: 9, after: 10) == [.start])
    }

    @Test mutating func `a resolver that always ends is started no more often than the supervisor allows`() {
        for _ in 1...8 {
            #expect(lookUp("a") == [.start])
            _ = state.ended("gone")
        }
        #expect(lookUp("b") == [.answer(9, .failure("the node's resolver ends too often", isUnknown: false))])
        #expect(lookUp("c", after: 10) == [.start])
    }
}
