// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Diagnostics
@testable import NodeConfiguration
@testable import TocsinNode

@Suite(.tags(.sockets)) struct HTTPEndpointAdviceTests {
    /// The keys with advice for a configuration with these tables.
    private func keys(_ tables: String) throws -> [String] {
        let text = """
            \(tables)
            [[app]]
            name = "bisq"
            [app.fcm]
            service_account_file = "a.json"
            """
        return HTTPEndpointAdvice.texts(for: try Configuration(text: text, file: "/etc/tocsin/tocsin.toml")).map(\.key)
    }

    @Test func `an enabled HTTP endpoint gets advice on the spool and on sender keys`() throws {
        let http = "[listen]\nhttp = \"127.0.0.1:7080\"\n"
        #expect(try keys(http) == ["spool.enabled"])
        #expect(try keys(http + "[spool]\nenabled = true\n").isEmpty)
        #expect(try keys(http + "[senders]\nmode = \"optional\"\n") == ["spool.enabled", "senders.mode"])
        #expect(try keys(http + "[senders]\nmode = \"required\"\n") == ["spool.enabled", "senders.mode"])
        #expect(try keys(http + "[spool]\nenabled = true\n[senders]\nmode = \"optional\"\n") == ["senders.mode"])
        #expect(try keys("").isEmpty)
    }
}
