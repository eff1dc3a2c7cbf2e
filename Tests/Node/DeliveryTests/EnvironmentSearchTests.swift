// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct EnvironmentSearchTests {
    private func doesSwitch(
        _ search: inout EnvironmentSearch, after effect: Disposition.TokenEffect, from magic: Magic,
        isServed: Bool = true
    ) -> Bool {
        search.switches(after: effect, from: magic) { _ in isServed }
    }

    @Test(arguments: [(Magic.iOS, Magic.iOSDev), (.iOSDev, .iOS)])
    func `a token that is unknown in one environment is tried once in the other`(_ magic: Magic, _ other: Magic) {
        var search = EnvironmentSearch()
        #expect(search.environment(for: magic) == magic)
        #expect(doesSwitch(&search, after: .unknownInEnvironment, from: magic))
        #expect(search.environment(for: magic) == other)
        #expect(!doesSwitch(&search, after: .unknownInEnvironment, from: other))
        #expect(search.environment(for: magic) == other)
    }

    @Test func `the search does not switch for FCM or to an environment that is not served`() {
        var search = EnvironmentSearch()
        #expect(!doesSwitch(&search, after: .unknownInEnvironment, from: .android))
        #expect(!doesSwitch(&search, after: .unknownInEnvironment, from: .iOS, isServed: false))
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test(arguments: [Disposition.TokenEffect.accepted, .paused, .otherApp, .gone, .none])
    func `no other token effect switches the environment`(_ effect: Disposition.TokenEffect) {
        var search = EnvironmentSearch()
        #expect(!doesSwitch(&search, after: effect, from: .iOS))
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test func `if the second environment says nothing about the token, only that one is tried again`() {
        var search = EnvironmentSearch()
        #expect(doesSwitch(&search, after: .unknownInEnvironment, from: .iOS))
        for _ in 0..<3 {
            #expect(!doesSwitch(&search, after: .none, from: .iOSDev))
            search.begin(at: nil)
            #expect(search.environment(for: .iOS) == .iOSDev)
        }
        #expect(!doesSwitch(&search, after: .unknownInEnvironment, from: .iOSDev))
    }

    @Test func `the search begins in the last known environment and may switch back`() {
        var search = EnvironmentSearch()
        search.begin(at: .iOSDev)
        #expect(search.environment(for: .iOS) == .iOSDev)
        #expect(doesSwitch(&search, after: .unknownInEnvironment, from: .iOSDev))
        #expect(search.environment(for: .iOS) == .iOS)
        // A search in progress does not begin again.
        search.begin(at: .iOSDev)
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test func `a reset clears the search`() {
        var search = EnvironmentSearch()
        #expect(doesSwitch(&search, after: .unknownInEnvironment, from: .iOS))
        search.reset()
        #expect(search.environment(for: .iOS) == .iOS)
        #expect(doesSwitch(&search, after: .unknownInEnvironment, from: .iOS))
    }
}
