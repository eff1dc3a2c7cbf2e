// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import Testing

@testable import Tor

/// A tor that the node did not start, in a private network on loopback.
extension ManagedTorTests {
    @Test func `a tor that systemd runs is followed, and outlives the node`() async throws {
        guard Self.hasTor else {
            print("SKIPPED: tor is not installed; no tor of another user was followed")
            return
        }
        let loop = EventLoop(name: "test")
        try await withNetwork(on: loop) { directory, target, network, access in
            try await follow(directory, target, network, access, on: loop)
        }
    }

    /// Starts tor as the unit does.
    private func start(_ settings: TorSettings) -> ChildProcess {
        ChildProcess("tor", ["--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", settings.torrc])
    }

    private func follow(
        _ directory: String, _ target: Endpoint, _ network: PrivateTorNetwork, _ access: PrivateTorNetwork.Access,
        on loop: EventLoop
    ) async throws {
        var settings = TorSettings(isManaged: true, directory: "\(directory)/tor")
        settings.runner = .service
        settings.statusFile = "\(directory)/state/tor/status"
        settings.onions = [.init(name: try ClientName("closed"), ports: [7077], isClosed: true)]
        let services = settings.services(tnp: target, http: nil)

        // Without it, the node says so and tries again.
        let watch = Watch()
        let tor = ManagedTor(settings, services: services, on: loop, observe: watch.note)
        await tor.start()
        _ = try await watch.wait(for: "the reason") { $0.problem?.description.contains("tocsin-tor.service") == true }

        let build = try await TorBuild(of: "tor", path: ProcessInfo.processInfo.environment["PATH"])
        try settings.writeFiles(for: services, build, controller: nil, extra: await network.memberTorrcLines)
        #expect(mode(of: settings.torrc) == 0o600)
        let relay = ControlRelay(settings, on: loop)
        try await relay.listen()
        var process = start(settings)
        do {
            var status = try await watch.wait(for: "the onions") {
                $0.isReachable && $0.onions.map(\.descriptor) == [.published]
            }
            #expect(status.problem == nil)
            // The node knows the address from the only file that it may read.
            let address = try #require(status.address)
            #expect(try OnionAddress(hostnameIn: settings.serviceDirectory) == address)
            #expect(mode(of: "\(settings.serviceDirectory)/hostname") == 0o640)
            #expect(mode(of: "\(settings.serviceDirectory)/hs_ed25519_secret_key") == 0o600)
            #expect(mode(of: settings.directory) == 0o750)
            #expect(mode(of: "\(settings.directory)/onion-closed") == 0o750)
            #expect(mode(of: "\(settings.directory)/control_auth_cookie") == 0o640)
            #expect(mode(of: "\(settings.directory)/onion-closed/authorized_clients/nobody.auth") == 0o640)
            #expect(try await sendUntilItWorks(to: address, access, on: loop).last == "ping")
            #expect(await RunningTor(settings, on: loop)?.descriptor == .published)
            #expect(mode(of: settings.controlDirectory) == 0o700)
            try await attack(settings, on: loop)
            #expect(mode(of: "\(settings.serviceDirectory)/hs_ed25519_secret_key") == 0o600)
            #expect(await RunningTor.reload(settings, on: loop))

            // A restart of tor, as systemd would do it.
            let first = try #require(status.pid)
            await process.terminate()
            _ = try await watch.wait(for: "the loss") { $0.phase == .waiting && $0.pid == nil }
            process = start(settings)
            status = try await watch.wait(for: "the onion's return") { $0.isReachable }
            #expect(status.pid != first && status.address == address)

            // tor outlives the node. The next one knows that the descriptors are published: tor will not say it again for
            // an hour.
            let last = try #require(status.pid)
            await tor.stop()
            #expect(watch.status.phase == .stopped)
            #expect(kill(last, 0) == 0)
            let next = Watch()
            let second = ManagedTor(settings, services: services, on: loop, observe: next.note)
            await second.start()
            status = try await next.wait(for: "the published descriptor") { $0.isReachable }
            #expect(status.pid == last && status.address == address)
            await second.stop()
        } catch {
            await process.terminate()
            throw error
        }
        await process.terminate()
        await tor.stop()
        await relay.close()
    }

    /// Tries what would open the onion's key to tor's group, or repeat it in tor's log, with what a node has.
    private func attack(_ settings: TorSettings, on loop: EventLoop) async throws {
        let key = "\(settings.serviceDirectory)/hs_ed25519_secret_key"
        let commands = [
            "SETCONF HiddenServiceDir=\"\(key).tmp\" HiddenServicePort=\"1 127.0.0.1:1\"",
            "SETCONF ControlPortWriteToFile=\"\(key)\" ControlPortFileGroupReadable=1",
            "SETCONF GeoIPFile=\"\(key)\"", "+LOADCONF", "SIGNAL HALT", "GETCONF HiddenServiceDir", "SAVECONF",
        ]
        for command in commands {
            let error = await #expect(throws: TorError.self, "\(command)") {
                try await tell(settings.controlSocket, command, on: loop)
            }
            #expect(error?.description.hasSuffix("510 Command filtered") == true, "\(command)")
        }
    }

    /// What tor says on a new connection, which stays open.
    private func connect(
        _ settings: TorSettings, on domain: isolated LoopDomain
    ) async throws -> (reader: StreamReader, said: String?) {
        let reader = StreamReader(try await domain.loop.dial(settings.controlSocket, timeout: .seconds(60)))
        return (reader, try? await reader.readLine())
    }

    @Test func `a node has few connections to a tor of another user, and none without it`() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "relay-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: "\(directory)/control", withIntermediateDirectories: true)
        var settings = TorSettings(isManaged: true, directory: directory)
        settings.runner = .service
        let loop = EventLoop(name: "test")
        let relay = ControlRelay(settings, on: loop)
        try await relay.listen()
        try await LoopDomain(loop).run { [settings] domain in
            #expect(try await connect(settings, on: domain).said == nil)
            var tors: [ByteStream] = []
            let tor = try Listener(settings.ownControlSocket, on: domain.loop) { stream in
                tors.append(stream)
                stream.write(Array("250 here\r\n".utf8))
            }
            var readers: [StreamReader] = []
            for _ in 0..<ControlRelay.maximumConnections {
                let (reader, said) = try await connect(settings, on: domain)
                #expect(said == "250 here")
                readers.append(reader)
            }
            #expect(try await connect(settings, on: domain).said == nil)
            // One that ends makes room.
            readers.removeLast().stream.close()
            while try await connect(settings, on: domain).said == nil { await domain.loop.sleep(for: .milliseconds(5)) }
            for stream in tors + readers.map(\.stream) { stream.close() }
            tor.close()
        }
        await relay.close()
    }

    @Test func `what may not pass is answered, in any pieces`() {
        for size in [1, 7, 1000] {
            var filter = ControlFilter()
            var (tor, node) = ("", "")
            var rest = Array("PROTOCOLINFO 1\r\nSIGNAL HALT\nGETINFO process/pid\nAUTHENTICATE".utf8)[...]
            while !rest.isEmpty {
                let output = filter.filter(rest.prefix(size))
                tor += String(decoding: output.forTor, as: UTF8.self)
                node += String(decoding: output.forNode, as: UTF8.self)
                rest = rest.dropFirst(size)
            }
            #expect(tor == "PROTOCOLINFO 1\r\nGETINFO process/pid\r\n")
            #expect(node == "510 Command filtered\r\n")
        }
    }

    @Test func `a node logs in once, and says little`() {
        var filter = ControlFilter()
        #expect(
            String(decoding: filter.filter(Array("AUTHENTICATE 0f\nAUTHENTICATE 0f\n".utf8)).forTor, as: UTF8.self)
                == "AUTHENTICATE 0f\r\n")
        for _ in 2..<ControlFilter.maximumLines {
            #expect(!filter.filter(Array("PROTOCOLINFO 1\n".utf8)).forTor.isEmpty)
        }
        #expect(!filter.isExhausted)
        let rest = filter.filter(Array("PROTOCOLINFO 1\n".utf8))
        #expect(rest.forTor.isEmpty && rest.forNode.isEmpty && filter.isExhausted)
    }

    private func passes(_ line: String) -> Bool {
        var filter = ControlFilter()
        return filter.filter(Array("\(line)\n".utf8)).forTor == Array("\(line)\r\n".utf8)
    }

    @Test func `only what shows tor's state passes to a tor of another user`() {
        let digits = String(repeating: "0f", count: 32)
        for line in [
            "PROTOCOLINFO 1", "GETINFO process/pid", "GETINFO status/bootstrap-phase", ControlFilter.events,
            "GETINFO process/pid status/bootstrap-phase", "AUTHCHALLENGE SAFECOOKIE \(digits)",
            "AUTHENTICATE \(digits)",
        ] { #expect(passes(line), "\(line)") }
        for line in [
            "", "GETINFO config-text", "GETINFO process/pid config-text", "getinfo process/pid", "GETINFO process/pid ",
            "SETEVENTS DEBUG", "AUTHENTICATE", "AUTHENTICATE ", "AUTHENTICATE \(digits)0", "AUTHENTICATE \"\"",
            "AUTHENTICATE 0f\r\nSIGNAL HALT", "AUTHCHALLENGE SAFECOOKIE x", "AUTHCHALLENGE SAFECOO\u{212A}IE 0f",
            "+AUTHENTICATE 0f", " PROTOCOLINFO 1",
            "TAKEOWNERSHIP", "SETCONF SocksPort=9050", "RESETCONF SocksPort", "ADD_ONION NEW:BEST", "QUIT",
        ] { #expect(!passes(line), "\(line)") }
    }

    @Test func `warnings of tor's control port count as those of its log`() {
        let line = TorLogLine(event: "650 WARN Your clock is 3 hours behind.")
        #expect(line?.severity == .warn && line?.text == "Your clock is 3 hours behind.")
        #expect(TorLogLine(event: "650 ERR Out of memory")?.severity == .err)
        for line in ["650 HS_DESC UPLOAD x", "250 OK", "650 WARN", ""] { #expect(TorLogLine(event: line) == nil) }
    }
}
