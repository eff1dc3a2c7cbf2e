// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Testing

@testable import Tor

@Suite struct TorConfigurationTests {
    private static let target = Endpoint.unix(path: "/run/tocsin/tnp.sock")

    private func text(
        directory: String = "/var/lib/tocsin/tor", ports: [TorConfiguration.Port] = [.init(7077, target)],
        hasProofOfWork: Bool = true, _ change: (inout TorSettings) -> Void = { _ in }
    ) throws -> String {
        var settings = TorSettings(isManaged: true, directory: directory)
        change(&settings)
        return try TorConfiguration(settings, ports: ports, controller: 42, hasProofOfWork: hasProofOfWork).text
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test func `the torrc serves only the onion, with circuit ids and stream limits`() throws {
        let lines = lines(try text(ports: [.init(7077, Self.target), .init(80, .tcp(host: "::1", port: 7080))]))
        for line in [
            #"DataDirectory "/var/lib/tocsin/tor""#, "SocksPort 0", #"ControlPort unix:"/var/lib/tocsin/tor/ctl""#,
            "CookieAuthentication 1", "__OwningControllerProcess 42", "SafeLogging 1", "Log notice stdout",
            #"HiddenServiceDir "/var/lib/tocsin/tor/onion""#,
            #"HiddenServicePort 7077 unix:"/run/tocsin/tnp.sock""#, "HiddenServicePort 80 [::1]:7080",
            "HiddenServiceExportCircuitID haproxy", "HiddenServiceMaxStreams 64",
            "HiddenServiceMaxStreamsCloseCircuit 1", "HiddenServicePoWDefensesEnabled 1",
        ] { #expect(lines.contains(line), "\(line)") }
        #expect(!lines.contains { $0.hasPrefix("Sandbox") || $0.hasPrefix("ORPort") })
    }

    @Test func `changed settings change the torrc`() throws {
        let lines = lines(
            try text {
                $0.enablesProofOfWork = false
                $0.maxStreams = 7
                $0.servesSOCKS = true
            })
        #expect(lines.contains("HiddenServicePoWDefensesEnabled 0"))
        #expect(lines.contains("HiddenServiceMaxStreams 7"))
        #expect(lines.contains(#"SocksPort unix:"/var/lib/tocsin/tor/socks""#))
    }

    @Test func `the torrc omits proof of work if tor was built without it`() throws {
        #expect(try !text(hasProofOfWork: false).contains("PoW"))
    }

    @Test func `special characters in paths are escaped`() throws {
        let path = #"/tmp/a b#c"d\e%f$g'h;é"#
        #expect(TorConfiguration.quoted(path) == #""/tmp/a\x20b\x23c\x22d\x5ce\x25f\x24g\x27h\x3b\xc3\xa9""#)
        let text = try text(directory: path, ports: [.init(1, .unix(path: path))])
        for line in lines(text).dropFirst() { #expect(!line.contains("#"), "\(line)") }
    }

    @Test(arguments: ["relative", "", "/a\nSocksPort 9050", "/a\r", "/a\u{0}b", "/a\u{7F}"])
    func `a path that is relative or has control characters is rejected`(_ path: String) {
        #expect(throws: TorConfigurationError.badPath(path)) { try text(directory: path) }
        #expect(throws: TorConfigurationError.badPath(path)) { try text(ports: [.init(1, .unix(path: path))]) }
    }

    @Test(arguments: ["a b", "a\"", "a#", "a\n", "a%", "127.0.0.1/8", ""])
    func `an invalid target host is rejected`(_ host: String) {
        let target = Endpoint.tcp(host: host, port: 80)
        #expect(throws: TorConfigurationError.badTarget(target)) { try text(ports: [.init(1, target)]) }
    }

    @Test func `a target without a port, a duplicate port, port 0 and an empty port list are rejected`() {
        let nowhere = Endpoint.tcp(host: "127.0.0.1", port: 0)
        #expect(throws: TorConfigurationError.badTarget(nowhere)) { try text(ports: [.init(1, nowhere)]) }
        #expect(throws: TorConfigurationError.badPort(80)) {
            try text(ports: [.init(80, Self.target), .init(80, Self.target)])
        }
        #expect(throws: TorConfigurationError.badPort(0)) { try text(ports: [.init(0, Self.target)]) }
        #expect(throws: TorConfigurationError.noPort) { try text(ports: []) }
    }

    @Test func `a directory path too long for the sockets in it is rejected`() throws {
        let longest = "/" + String(repeating: "x", count: 100)
        _ = try text(directory: longest)
        guard case .unix(let path) = TorSettings(isManaged: true, directory: longest).socksSocket else { return }
        #expect(path.utf8.count == Endpoint.maxUnixPathLength)
        #expect(throws: TorConfigurationError.directoryTooLong(longest + "x", limit: 101)) {
            try text(directory: longest + "x")
        }
    }

    @Test func `the onion's ports forward to the node's listeners`() {
        let settings = TorSettings(isManaged: true, directory: "/x")
        let http = Endpoint.tcp(host: "127.0.0.1", port: 7080)
        #expect(settings.ports(tnp: Self.target, http: nil) == [.init(7077, Self.target)])
        #expect(
            settings.ports(tnp: Self.target, http: http)
                == [.init(7077, Self.target), .init(80, http), .init(8021, http)])
    }

    @Test func `a managed tor is the default if tor is installed and no other onion is configured`() async throws {
        try await withDirectory { directory in
            func isManaged(_ binary: String, _ foreign: String? = nil) -> Bool {
                TorSettings.isManagedByDefault(
                    binary: binary, foreignServiceDirectory: foreign, path: "/nonexistent:\(directory)")
            }
            #expect(!isManaged("tor"))
            try write([], to: "\(directory)/tor", mode: 0o600)
            #expect(!isManaged("tor"))
            try write([], to: "\(directory)/tor", mode: 0o700)
            #expect(isManaged("tor"))
            #expect(isManaged("\(directory)/tor"))
            #expect(!isManaged("\(directory)"))
            #expect(!isManaged("tor", "/var/lib/tor/tocsin"))
        }
    }

    @Test func `tor accepts the torrc with special characters in its paths`() async throws {
        guard TorSettings.isInstalled("tor", path: ProcessInfo.processInfo.environment["PATH"]) else {
            print("SKIPPED: tor is not installed; no torrc was shown to it")
            return
        }
        try await withDirectory { parent in
            let directory = #"\#(parent)/a b#c"d\e'é"#
            try OnionFile.makeDirectory(directory)
            for (index, change)
                in ([{ _ in }, { $0.servesSOCKS = true }, { $0.enablesProofOfWork = false }]
                as [(inout TorSettings) -> Void]).enumerated()
            {
                let torrc = "\(parent)/torrc\(index)"
                let text = try text(
                    directory: directory,
                    ports: [.init(80, .unix(path: "\(directory)/t")), .init(81, .tcp(host: "::1", port: 2))],
                    change)
                try write(Array(text.utf8), to: torrc)
                let result = try await ChildProcess.output(
                    of: "tor",
                    ["--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", torrc, "--verify-config"])
                #expect(result.isSuccess, "\(result.text)")
                let warnings = result.text.split(separator: "\n").filter {
                    $0.contains("[warn]") && !$0.contains("as root")
                }
                #expect(warnings == [])
            }
        }
    }
}
