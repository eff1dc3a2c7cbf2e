// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Logging
import Providers
import Settings
import TestSupport
import Testing

@testable import NodeConfiguration

@Suite(.tags(.computing)) struct EnvironmentTests {
    private static let text = """
        [node]
        name = "of the file"
        state = "state"
        [listen]
        http = "127.0.0.1:7080"
        [[app]]
        name = "bisq-2"
        [app.upstream]
        node = "127.0.0.1:7077"
        direct = true
        """

    /// Reads the file with these environment variables.
    private func read(_ environment: [String: String]) throws -> Configuration {
        let file = FileManager.default.temporaryDirectory.appending(path: "tocsin-environment-\(UUID()).toml").path
        defer { unlink(file) }
        try Data(Self.text.utf8).write(to: URL(filePath: file))
        return try Configuration(file: file) { environment[$0] }
    }

    @Test func `a variable replaces the value of the file, and an empty one does not`() throws {
        let read = try read([
            "TOCSIN_NODE_NAME": "at home", "TOCSIN_NODE_LOG": "debug", "TOCSIN_LISTEN_HTTP": "",
            "TOCSIN_LISTEN_ADMIN": "127.0.0.1:7999", "TOCSIN_APP_UPSTREAM_NODE": "127.0.0.1:7177",
        ])
        #expect(read.name == "at home" && read.logLevel == .debug)
        #expect(read.listen.http == .tcp(host: "127.0.0.1", port: 7080))
        #expect(read.listen.admin == .tcp(host: "127.0.0.1", port: 7999))
        let upstream = try #require(read.apps.first?.delivery(UpstreamDelivery.self))
        #expect(upstream.nodes == [.tcp(host: "127.0.0.1", port: 7177)])
        #expect(
            read.environmentVariables == [
                "TOCSIN_NODE_NAME", "TOCSIN_NODE_LOG", "TOCSIN_LISTEN_ADMIN", "TOCSIN_APP_UPSTREAM_NODE",
            ])
    }

    @Test func `an error names the variable, and every variable names a key that exists`() throws {
        let error = #expect(throws: ConfigurationError.self) { try read(["TOCSIN_LISTEN_HTTP": "0.0.0.0:7080"]) }
        #expect(error?.key == "TOCSIN_LISTEN_HTTP")
        let keys = Configuration.reference.flatMap { table in table.keys.map { "\(table.name).\($0.name)" } }
        for key in EnvironmentKeys.all { #expect(keys.contains(key), "\(key)") }
    }

    @Test func `the configurations that the compose files mount are valid`() throws {
        let container = try Configuration(file: Repository.file("Docs/examples/container/tocsin.toml").path) { _ in nil
        }
        #expect(container.listen.adminTokenFile == "/run/secrets/admin.token")
        let upstream = "rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5optfad.onion:7077"
        let umbrel = Repository.file("Packaging/umbrel/tocsin/tocsin.toml").path
        let home = try Configuration(file: umbrel) { $0 == "TOCSIN_APP_UPSTREAM_NODE" ? upstream : nil }
        #expect(home.listen.directHTTP == .tcp(host: "0.0.0.0", port: 7080) && home.listen.http == nil)
        let error = #expect(throws: ConfigurationError.self) { try Configuration(file: umbrel) { _ in nil } }
        #expect(error?.problem.contains("or set TOCSIN_APP_UPSTREAM_NODE") == true)
    }

    @Test func `the documentation names every variable`() throws {
        let page = try String(contentsOf: Repository.root.appending(path: "Docs/configuration.md"), encoding: .utf8)
        for key in EnvironmentKeys.all { #expect(page.contains("`\(EnvironmentKeys.variable(of: key))`"), "\(key)") }
    }

    @Test func `no variable can set a secret, or where one is`() {
        for key in EnvironmentKeys.all {
            #expect(!key.contains("file") && !key.contains("key") && !key.contains("token"))
        }
    }
}
