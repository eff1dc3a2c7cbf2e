// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import TestSupport
import Testing

@testable import tocsin

@Suite(.tags(.sockets)) struct SiteTablesTests {
    private let configuration = """
        # My node.
        [sites]
        mode = "open" # since May

        [[app]]
        name = "bisq"
        [app.fcm]
        service_account_file = "x.json"
        """
    private let key = [UInt8](repeating: 1, count: 32)

    private func sites(_ tables: SiteTables) throws -> [Site] {
        try Configuration(text: tables.text, file: "tocsin.toml").sites
    }

    @Test func `added sites are read by the node, and nothing else changes`() throws {
        var tables = SiteTables(configuration)
        tables.add("desk", key: key, pathHash: nil, rights: [])
        tables.add("web", key: nil, pathHash: Site.pathHash(of: "secret".utf8), rights: [.send])
        #expect(tables.text.hasPrefix(configuration))
        let sites = try sites(tables)
        #expect(sites.map(\.name) == ["desk", "web"])
        #expect(sites.map(\.key) == [key, nil])
        #expect(sites.map(\.rights) == [[.send, .register], [.send]])
        #expect(sites.map { $0.isProved(byPath: Array("web.secret".utf8)) } == [false, true])
        for wrong in ["web.", "web", "web.Secret", "desk.secret", "desk.", ".secret", ""] {
            #expect(!sites.contains { $0.isProved(byPath: Array(wrong.utf8)) }, "\(wrong)")
        }
    }

    @Test func `a removed site leaves the text as it was, in any order`() throws {
        for order in [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]] {
            var tables = SiteTables(configuration + "\n")
            for (index, name) in ["a", "b", "c"].enumerated() {
                tables.add(name, key: [UInt8](repeating: UInt8(index), count: 32), pathHash: nil, rights: [])
            }
            var left = ["a", "b", "c"]
            for name in order {
                let removed = tables.remove(name)
                #expect(removed)
                left.removeAll { $0 == name }
                #expect(try sites(tables).map(\.name) == left)
            }
            #expect(tables.text == configuration + "\n")
            let again = tables.remove("a")
            #expect(!again)
        }
    }

    @Test func `a table written by hand is found, and comments of its neighbours stay`() throws {
        var tables = SiteTables(
            """
              [[ site ]] # the old one
              rights = ["send"]
              name='old'  # name = "new"
              key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

            # The new one.
            [[site]]
            name = "new"
            key = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
            # Apps.
            \(configuration)
            """)
        let removed = tables.remove("old")
        #expect(removed)
        #expect(tables.text.hasPrefix("\n# The new one.\n[[site]]\nname = \"new\""))
        #expect(tables.text.hasSuffix("# Apps.\n\(configuration)"))
        #expect(try sites(tables).map(\.name) == ["new"])
    }
}
