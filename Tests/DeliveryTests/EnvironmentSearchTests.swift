// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Testing

@testable import Delivery

@Suite struct EnvironmentSearchTests {
    private func turns(
        _ search: inout EnvironmentSearch, after effect: Disposition.TokenEffect, from magic: Magic,
        isServed: Bool = true
    ) -> Bool {
        search.switches(after: effect, from: magic) { _ in isServed }
    }

    @Test(arguments: [(Magic.iOS, Magic.iOSDev), (.iOSDev, .iOS)])
    func `where one environment does not know a token the other is asked, once`(_ magic: Magic, _ other: Magic) {
        var search = EnvironmentSearch()
        #expect(search.environment(for: magic) == magic)
        #expect(turns(&search, after: .unknownInEnvironment, from: magic))
        #expect(search.environment(for: magic) == other)
        #expect(!turns(&search, after: .unknownInEnvironment, from: other))
        #expect(search.environment(for: magic) == other)
    }

    @Test func `Google has no other environment, and one that is not served is not asked`() {
        var search = EnvironmentSearch()
        #expect(!turns(&search, after: .unknownInEnvironment, from: .android))
        #expect(!turns(&search, after: .unknownInEnvironment, from: .iOS, isServed: false))
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test(arguments: [Disposition.TokenEffect.accepted, .paused, .otherApp, .gone, .none])
    func `any other word leaves it where it is`(_ effect: Disposition.TokenEffect) {
        var search = EnvironmentSearch()
        #expect(!turns(&search, after: effect, from: .iOS))
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test func `where the second one says nothing both are asked again`() {
        var search = EnvironmentSearch()
        #expect(turns(&search, after: .unknownInEnvironment, from: .iOS))
        #expect(!turns(&search, after: .none, from: .iOSDev))
        #expect(search.environment(for: .iOS) == .iOS)
        #expect(turns(&search, after: .unknownInEnvironment, from: .iOS))
    }

    @Test func `it begins where the token was accepted before, and may still turn back`() {
        var search = EnvironmentSearch()
        search.begin(at: .iOSDev)
        #expect(search.environment(for: .iOS) == .iOSDev)
        #expect(turns(&search, after: .unknownInEnvironment, from: .iOSDev))
        #expect(search.environment(for: .iOS) == .iOS)
        // Under way it does not begin anew.
        search.begin(at: .iOSDev)
        #expect(search.environment(for: .iOS) == .iOS)
    }

    @Test func `after a reset nothing of it is left`() {
        var search = EnvironmentSearch()
        #expect(turns(&search, after: .unknownInEnvironment, from: .iOS))
        search.reset()
        #expect(search.environment(for: .iOS) == .iOS)
        #expect(turns(&search, after: .unknownInEnvironment, from: .iOS))
    }
}
