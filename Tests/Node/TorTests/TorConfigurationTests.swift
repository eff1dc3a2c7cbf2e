// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import TestSupport
import Testing

@testable import Tor

@Suite(.tags(.sockets)) struct TorConfigurationTests {
    private static let target = Endpoint.unix(path: "/run/tocsin/tnp.sock")

    private func text(
        directory: String = "/var/lib/tocsin/tor",
        ports: [TorConfiguration.Port] = [.init(number: 7077, target: target)],
        hasProofOfWork: Bool = true, _ change: (inout TorSettings) -> Void = { _ in }
    ) throws -> String {
        var settings = TorSettings(isManaged: true, directory: directory)
        change(&settings)
        let service = TorConfiguration.Service(directory: "\(directory)/onion", ports: ports)
        return try TorConfiguration(
            settings, services: [service], controller: settings.runner == .node ? 42 : nil,
            hasProofOfWork: hasProofOfWork
        ).text
    }

    /// Expects settings from which no torrc can be built, for a reason that starts with these words.
    private func expectBad(
        _ words: String, at place: SourceLocation = #_sourceLocation, _ make: () throws -> String
    ) {
        let problem = #expect(throws: TorProblem.self, sourceLocation: place) { try make() }
        #expect(problem?.description.hasPrefix(words) == true, sourceLocation: place)
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test func `the torrc serves only the onion, with circuit ids and stream limits`() throws {
        let lines = lines(
            try text(ports: [
                .init(number: 7077, target: Self.target), .init(number: 80, target: .tcp(host: "::1", port: 7080)),
            ]))
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

    @Test func `a tor that systemd runs has no owner, and lets the node's group read all but its keys`() throws {
        let lines = lines(
            try text(directory: "/var/lib/tocsin-tor") {
                $0.runner = .service
                $0.hasSOCKSPort = true
            })
        for line in [
            #"ControlPort unix:"/var/lib/tocsin-tor/control/ctl""#,
            #"SocksPort unix:"/var/lib/tocsin-tor/socks" GroupWritable"#, "CookieAuthFileGroupReadable 1",
            "DataDirectoryGroupReadable 1", "HiddenServiceDirGroupReadable 1", "NoExec 1",
        ] { #expect(lines.contains(line), "\(line)") }
        #expect(!lines.contains { $0.hasPrefix("__OwningControllerProcess") })
        let own = self.lines(try text { $0.hasSOCKSPort = true })
        #expect(!own.contains { $0.contains("Group") })
    }

    @Test func `changed settings change the torrc`() throws {
        let lines = lines(
            try text {
                $0.enablesProofOfWork = false
                $0.maxStreams = 7
            })
        #expect(lines.contains("HiddenServicePoWDefensesEnabled 0"))
        #expect(lines.contains("HiddenServiceMaxStreams 7"))
    }

    @Test func `a SOCKS port is a socket in tor's private directory`() throws {
        let lines = lines(try text { $0.hasSOCKSPort = true })
        #expect(lines.contains(#"SocksPort unix:"/var/lib/tocsin/tor/socks""#))
        #expect(!lines.contains("SocksPort 0"))
    }

    @Test func `the onion accepts the introductions of an OnionBalance`() throws {
        let address = try #require(OnionAddress(publicKey: [UInt8](repeating: 9, count: 32)))
        var settings = TorSettings(isManaged: true, directory: "/var/lib/tocsin/tor")
        settings.onions = [.init(name: try ClientName("second"), ports: [7077], isClosed: false)]
        let option = "HiddenServiceOnionBalanceInstance 1"
        func services() -> [TorConfiguration.Service] { settings.services(tnp: Self.target, http: nil) }
        func options() throws -> [String] {
            lines(try TorConfiguration(settings, services: services(), controller: 42, hasProofOfWork: true).text)
                .filter { $0.hasPrefix("HiddenServiceDir ") || $0 == option }
        }
        #expect(try !options().contains(option))
        settings.onionBalance = address
        // It is an option of the first onion only.
        #expect(
            try options() == [
                #"HiddenServiceDir "/var/lib/tocsin/tor/onion""#, option,
                #"HiddenServiceDir "/var/lib/tocsin/tor/onion-second""#,
            ])
        #expect(
            services().map { $0.onionBalanceFile?.text } == ["MasterOnionAddress \(address)\n", nil])
        #expect(services().first?.onionBalanceFile?.path == "/var/lib/tocsin/tor/onion/ob_config")
    }

    @Test func `the torrc omits proof of work if tor was built without it`() throws {
        #expect(try !text(hasProofOfWork: false).contains("PoW"))
    }

    @Test func `special characters in paths are escaped`() throws {
        let path = #"/tmp/a b#c"d\e%f$g'h;é"#
        #expect(TorConfiguration.quoted(path) == #""/tmp/a\x20b\x23c\x22d\x5ce\x25f\x24g\x27h\x3b\xc3\xa9""#)
        let text = try text(directory: path, ports: [.init(number: 1, target: .unix(path: path))])
        for line in lines(text).dropFirst() { #expect(!line.contains("#"), "\(line)") }
    }

    @Test(arguments: ["relative", "", "/a\nSocksPort 9050", "/a\r", "/a\u{0}b", "/a\u{7F}"])
    func `a path that is relative or has control characters is rejected`(_ path: String) {
        expectBad("tor requires an absolute path") { try text(directory: path) }
        expectBad("tor requires an absolute path") { try text(ports: [.init(number: 1, target: .unix(path: path))]) }
    }

    @Test(arguments: ["a b", "a\"", "a#", "a\n", "a%", "127.0.0.1/8", ""])
    func `an invalid target host is rejected`(_ host: String) {
        let target = Endpoint.tcp(host: host, port: 80)
        expectBad("tor cannot connect to ") { try text(ports: [.init(number: 1, target: target)]) }
    }

    @Test func `a target without a port, a duplicate port, port 0 and an empty port list are rejected`() {
        let nowhere = Endpoint.tcp(host: "127.0.0.1", port: 0)
        expectBad("tor cannot connect to ") { try text(ports: [.init(number: 1, target: nowhere)]) }
        expectBad("the onion in /var/lib/tocsin/tor/onion: port 80 ") {
            try text(ports: [.init(number: 80, target: Self.target), .init(number: 80, target: Self.target)])
        }
        expectBad("the onion in /var/lib/tocsin/tor/onion: port 0 ") {
            try text(ports: [.init(number: 0, target: Self.target)])
        }
        expectBad("the onion in /var/lib/tocsin/tor/onion has no port") { try text(ports: []) }
    }

    @Test func `a directory path too long for the sockets in it is rejected`() throws {
        let longest = "/" + String(repeating: "x", count: Endpoint.maximumUnixPathLength - 7)
        _ = try text(directory: longest)
        expectBad("\(longest)x is too long for tor's sockets in it") { try text(directory: longest + "x") }
    }

    @Test func `each further onion has a directory and ports of its own`() throws {
        var settings = TorSettings(isManaged: true, directory: "/x")
        settings.onions = [
            .init(name: try ClientName("bisq2"), ports: [8021], isClosed: false),
            .init(name: try ClientName("old"), ports: [7077, 80], isClosed: true),
        ]
        let http = Endpoint.tcp(host: "127.0.0.1", port: 7080)
        let services = settings.services(tnp: Self.target, http: http)
        #expect(services.map(\.directory) == ["/x/onion", "/x/onion-bisq2", "/x/onion-old"])
        #expect(services[1].ports == [.init(number: 8021, target: http)])
        #expect(services[2].ports.map(\.target) == [Self.target, http])
        let torrc = try TorConfiguration(settings, services: services, controller: 42, hasProofOfWork: true).text
        let lines = lines(torrc)
        #expect(
            lines.filter { $0.hasPrefix("HiddenServiceDir ") }
                == services.map { "HiddenServiceDir \"\($0.directory)\"" })
        for option in ["HiddenServiceExportCircuitID haproxy", "HiddenServiceMaxStreams 64", "HiddenServiceVersion 3"] {
            #expect(lines.count { $0 == option } == 3)
        }
        expectBad("the onion in /x/onion-bisq2 has no port") {
            try TorConfiguration(
                settings, services: settings.services(tnp: Self.target, http: nil), controller: 42,
                hasProofOfWork: true
            ).text
        }
    }

    @Test func `the onion's ports forward to the node's listeners`() {
        let settings = TorSettings(isManaged: true, directory: "/x")
        let http = Endpoint.tcp(host: "127.0.0.1", port: 7080)
        #expect(settings.ports(tnp: Self.target, http: nil) == [.init(number: 7077, target: Self.target)])
        #expect(
            settings.ports(tnp: Self.target, http: http)
                == [
                    .init(number: 7077, target: Self.target), .init(number: 80, target: http),
                    .init(number: 8021, target: http),
                ])
    }

    @Test func `tor is installed if the program exists and is executable`() async throws {
        try await withDirectory { directory in
            func isInstalled(_ binary: String) -> Bool {
                TorSettings.isInstalled(binary, path: "/nonexistent:\(directory)")
            }
            #expect(!isInstalled("tor"))
            try write([], to: "\(directory)/tor", mode: 0o600)
            #expect(!isInstalled("tor"))
            try write([], to: "\(directory)/tor", mode: 0o700)
            #expect(isInstalled("tor"))
            #expect(isInstalled("\(directory)/tor"))
            #expect(!isInstalled("\(directory)"))
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
                in ([{ _ in }, { $0.enablesProofOfWork = false }]
                as [(inout TorSettings) -> Void]).enumerated()
            {
                let torrc = "\(parent)/torrc\(index)"
                let text = try text(
                    directory: directory,
                    ports: [
                        .init(number: 80, target: .unix(path: "\(directory)/t")),
                        .init(number: 81, target: .tcp(host: "::1", port: 2)),
                    ],
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
