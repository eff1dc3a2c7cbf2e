// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Tor

/// The script with which the package's service exempts configured addresses from IPAddressDeny=.
@Suite(.tags(.node)) struct AllowAddressesTests {
    private func allowed(_ configuration: String, nameServers: String = "") async throws -> String {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-allow-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let files = (directory.appending(path: "tocsin.toml"), directory.appending(path: "resolv.conf"))
        try Data(configuration.utf8).write(to: files.0)
        try Data(nameServers.utf8).write(to: files.1)
        let (isSuccess, text) = try await ChildProcess.output(
            of: "/bin/sh",
            [
                Repository.file("Packaging/allow-addresses").path(), "tocsin.service", files.0.path(),
                files.1.path(), "--print",
            ])
        #expect(isSuccess)
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func `configured addresses are allowed, and no others`() async throws {
        let configuration = """
            [outbound]
            proxy = "socks5://192.168.1.5:9050" # not "10.9.9.9:1"
            [cluster]
            node = "one"
            redis = "10.0.0.5:6379"
            sentinels = [ # not "10.9.9.9:1" ]
              "10.0.0.6:26379", # ]
              "[fd00::7]:26379",
              "sentinel.example:26379",
            ]
            name = "10.9.9.9:1"
            [[app]]
            [app.upstream]
              node = ["192.168.7.7:7077", "unix:/run/other"]
            # redis = "10.9.9.9:1"
            """
        #expect(
            try await allowed(configuration, nameServers: "search example\nnameserver 192.168.1.1\n")
                == "192.168.1.1 192.168.1.5 10.0.0.5 10.0.0.6 fd00::7 192.168.7.7")
        #expect(try await allowed("[node]\nstate = \"s\"") == "")
        #expect(try await allowed("[listen]\nallow_public = true") == "any")
    }
}
