// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import Synchronization
import TestSupport
import Testing

@testable import Tor

/// The node's own tor, in a private network on loopback.
@Suite(.tags(.tor), .serialized) struct ManagedTorTests {
    /// Whether tor and tor-gencert are installed; a private network needs both.
    static var hasTor: Bool {
        let path = ProcessInfo.processInfo.environment["PATH"]
        return TorSettings.isInstalled("tor", path: path) && TorSettings.isInstalled("tor-gencert", path: path)
    }

    /// Holds the last reported status.
    final class Watch: Sendable {
        private let last = Mutex(TorStatus())

        var status: TorStatus { last.withLock { $0 } }

        func note(_ status: TorStatus) { last.withLock { $0 = status } }

        /// Waits for a status, for at most five minutes: longer than tor takes on a busy machine.
        func wait(for what: String, _ isTrue: (TorStatus) -> Bool) async throws -> TorStatus {
            for _ in 0..<6000 {
                let status = status
                if isTrue(status) { return status }
                try await Task.sleep(for: .milliseconds(50))
            }
            throw TorError("waited too long for \(what): \(status)")
        }
    }

    /// Greets with a line, if it has one, and echoes what it receives.
    final class Echo: ByteStreamHandler {
        private var listener: Listener?
        private var streams: [ByteStream] = []

        init(at endpoint: Endpoint, greeting: String = "", on loop: EventLoop) throws {
            listener = try Listener(endpoint, on: loop) { [unowned self] stream in
                stream.handler = self
                streams.append(stream)
                stream.write(Array(greeting.utf8))
            }
        }

        func stream(_ stream: ByteStream, received bytes: RawSpan) { stream.write(bytes) }
        func stream(_ stream: ByteStream, ended reason: StreamError) { streams.removeAll { $0 === stream } }
    }

    private func isAlive(_ pid: Int32) -> Bool { kill(pid, 0) == 0 }

    private func waitForEnd(of pid: Int32) async throws {
        for _ in 0..<6000 where isAlive(pid) { try await Task.sleep(for: .milliseconds(50)) }
        #expect(!isAlive(pid))
    }

    /// Sends a line through the onion.
    /// - Returns: the first two lines that come back, usually tor's PROXY line and the line that was sent.
    func send(to onion: OnionAddress, through socks: Endpoint, on loop: EventLoop) async throws -> [String] {
        // New credentials for each try, so that tor does not reuse a circuit.
        let credentials = SOCKS5.Credentials(user: "test", password: UUID().uuidString)
        return try await LoopDomain(loop).run { domain in
            let stream = try await domain.loop.dial(
                .tcp(host: "\(onion)", port: 7077), through: .socks5(socks, credentials), timeout: .seconds(60))
            let timer = Timer(on: domain.loop) { stream.fail(.timedOut) }
            timer.start(after: .seconds(30))
            defer { timer.stop() }
            let reader = StreamReader(stream)
            stream.write(Array("ping\n".utf8))
            return [try await reader.readLine(), try await reader.readLine()]
        }
    }

    /// Retries `send`: a directory may still have the earlier descriptor.
    func sendUntilItWorks(
        to onion: OnionAddress, _ access: PrivateTorNetwork.Access, on loop: EventLoop
    ) async throws -> [String] {
        for _ in 0..<10 {
            if let lines = try? await send(to: onion, through: access.socks, on: loop) { return lines }
            try await Task.sleep(for: .seconds(1))
        }
        return try await send(to: onion, through: access.socks, on: loop)
    }

    func tell(_ control: Endpoint, _ command: String, on loop: EventLoop) async throws {
        try await LoopDomain(loop).run { domain in
            _ = try await TorControl.open(control, on: domain.loop).send(command)
        }
    }

    /// What the network's client reports for an onion after it has dropped its descriptors and keys.
    private func refusal(
        of onion: OnionAddress, containing words: String, _ network: PrivateTorNetwork,
        _ access: PrivateTorNetwork.Access, on loop: EventLoop, with temporaryKey: TemporaryOnionKey? = nil
    ) async throws -> String {
        var last = ""
        // tor publishes the new descriptor within a minute.
        for _ in 0..<90 {
            try await tell(network.clientControl, "SIGNAL NEWNYM", on: loop)
            try await temporaryKey?.install()
            do {
                last = try await send(to: onion, through: access.socks, on: loop).joined(separator: " ")
            } catch {
                last = "\(error)"
            }
            if last.contains(words) { return last }
            try await Task.sleep(for: .seconds(1))
        }
        return last
    }

    /// Makes the keys of an onion with a tor that does not use the network.
    func makeKeys(in directory: String) async throws -> String {
        let service = "\(directory)/onion"
        let process = ChildProcess(
            "tor",
            [
                "--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", "/nonexistent", "--quiet",
                "--DataDirectory", directory, "--SocksPort", "0", "--DisableNetwork", "1", "--HiddenServiceDir",
                service, "--HiddenServicePort", "80",
            ])
        for _ in 0..<6000 where bytes(of: "\(service)/hostname") == nil {
            try await Task.sleep(for: .milliseconds(50))
        }
        await process.terminate()
        return service
    }

    /// Runs `body` in a private network, beside a target that echoes. The target's path and all files of the test are in
    /// the directory.
    func withNetwork(
        on loop: EventLoop,
        _ body: (String, Endpoint, PrivateTorNetwork, PrivateTorNetwork.Access) async throws -> Void
    ) async throws {
        try await withDirectory { directory in
            let target = Endpoint.unix(path: "\(directory)/target")
            let echo = try await LoopDomain(loop).run { domain in LoopBound(try Echo(at: target, on: domain.loop)) }
            let network = try PrivateTorNetwork(on: loop)
            let access = try await network.start(target: target, virtualPort: 80)
            do {
                try await body(directory, target, network, access)
            } catch {
                await network.stop()
                throw error
            }
            await network.stop()
            await LoopDomain(loop).run { _ in echo.drop() }
        }
    }

    @Test func `the onion keeps its address after a crash and admits only authorised clients`() async throws {
        guard Self.hasTor else {
            print("SKIPPED: tor is not installed; no onion was served by a managed tor")
            return
        }
        let loop = EventLoop(name: "test")
        try await withNetwork(on: loop) { directory, target, network, access in
            var settings = TorSettings(isManaged: true, directory: "\(directory)/state/tor")
            settings.onions = [
                .init(name: try ClientName("second"), ports: [7077], isClosed: false),
                .init(name: try ClientName("closed"), ports: [7077], isClosed: true),
            ]
            let watch = Watch()
            let tor = ManagedTor(
                settings, services: settings.services(tnp: target, http: nil), extra: await network.memberTorrcLines,
                on: loop, observe: watch.note)
            do {
                try await serve(tor, watch, settings, directory, network, access, on: loop)
            } catch {
                await tor.stop()
                throw error
            }
        }
    }

    private func serve(
        _ tor: ManagedTor, _ watch: Watch, _ settings: TorSettings, _ directory: String, _ network: PrivateTorNetwork,
        _ access: PrivateTorNetwork.Access, on loop: EventLoop
    ) async throws {
        // Keys from another tor yield the same address.
        let source = try await makeKeys(in: "\(directory)/other")
        let keys = try OnionKeys(directory: source)
        let hostname = try #require(bytes(of: "\(source)/hostname"))
        #expect("\(keys.address)\n" == String(decoding: hostname, as: UTF8.self))
        try keys.write(to: settings.serviceDirectory)

        await tor.start()
        var status = try await watch.wait(for: "the onion") { $0.isReachable }
        let onion = try #require(status.address)
        #expect(onion == keys.address)
        #expect(status.bootstrap == 100)
        #expect(status.restarts == 0)
        #expect(status.problem == nil)
        #expect(mode(of: "\(settings.directory)/torrc") == 0o600)
        let lines = try await sendUntilItWorks(to: onion, access, on: loop)
        #expect(lines.first?.hasPrefix("PROXY TCP6 fc00:dead:beef:4dad::") == true)
        #expect(lines.last == "ping")

        let seen = try #require(await RunningTor(settings, on: loop))
        #expect(seen.pid == status.pid)
        #expect(seen.bootstrap == 100)
        #expect(seen.descriptor == .published)

        // After a kill, tor restarts with the same address.
        let first = try #require(status.pid)
        kill(first, SIGKILL)
        status = try await watch.wait(for: "the onion's return") { $0.isReachable && $0.restarts == 1 }
        #expect(status.address == onion)
        #expect(status.pid != first)
        #expect(try await sendUntilItWorks(to: onion, access, on: loop).last == "ping")

        status = try await watch.wait(for: "the further onions") { status in
            status.onions.map(\.descriptor) == [.published, .published]
        }
        #expect(status.onions.map(\.name.description) == ["second", "closed"])
        #expect(try await sendUntilItWorks(to: status.onions[0].address, access, on: loop).last == "ping")
        // Nobody has the key that closes the third one until a sender is authorised.
        let closed = status.onions[1].address
        let refused = try await refusal(of: closed, containing: "client authorisation", network, access, on: loop)
        #expect(refused.contains("requires client authorisation"), "\(refused)")
        var selected = settings
        selected.selected = status.onions[0].name
        #expect(await RunningTor(selected, on: loop)?.descriptor == .published)
        selected.selected = try ClientName("other")
        #expect(await RunningTor(selected, on: loop)?.descriptor == nil)

        try await authorize(settings, onion, directory, network, access, on: loop)

        let last = try #require(watch.status.pid)
        await tor.stop()
        #expect(await tor.status.phase == .stopped)
        try await waitForEnd(of: last)
        #expect(await RunningTor(settings, on: loop) == nil)
        #expect(bytes(of: "\(settings.directory)/status") == nil)
    }

    private func authorize(
        _ settings: TorSettings, _ onion: OnionAddress, _ directory: String, _ network: PrivateTorNetwork,
        _ access: PrivateTorNetwork.Access, on loop: EventLoop
    ) async throws {
        let clients = AuthorizedClients(serviceDirectory: settings.serviceDirectory)
        let (alice, bob) = (ClientAuthorization(for: onion), ClientAuthorization(for: onion))
        try clients.authorize(alice.publicKey, as: ClientName("alice"))
        try clients.authorize(bob.publicKey, as: ClientName("bob"))
        #expect(await RunningTor.reload(settings, on: loop))
        let unauthorised = try await refusal(of: onion, containing: "client authorisation", network, access, on: loop)
        #expect(unauthorised.contains("requires client authorisation"), "\(unauthorised)")

        let file = "\(directory)/alice.auth_private"
        try alice.key.write(to: file)
        let temporaryKey = TemporaryOnionKey(try OnionKey(file: file), control: network.clientControl, on: loop)
        try await temporaryKey.install()
        #expect(try await sendUntilItWorks(to: onion, access, on: loop).last == "ping")

        // Installing the same key twice changes nothing; another key does not replace it.
        let second = TemporaryOnionKey(alice.key, control: network.clientControl, on: loop)
        try await second.install()
        await second.remove()
        let error = await #expect(throws: TorError.self) {
            try await TemporaryOnionKey(bob.key, control: network.clientControl, on: loop).install()
        }
        #expect(error?.description.contains("another key") == true)
        #expect(try await sendUntilItWorks(to: onion, access, on: loop).last == "ping")

        // A revoked client is rejected, while bob is still admitted.
        try clients.revoke(ClientName("alice"))
        #expect(await RunningTor.reload(settings, on: loop))
        let revoked = try await refusal(
            of: onion, containing: "does not accept this client's key", network, access, on: loop, with: temporaryKey)
        #expect(revoked.contains("does not accept this client's key"), "\(revoked)")
        await temporaryKey.remove()
        try await TemporaryOnionKey(bob.key, control: network.clientControl, on: loop).install()
        #expect(try await sendUntilItWorks(to: onion, access, on: loop).last == "ping")
    }

    @Test func `a tor that fails to start is reported and retried, and can be stopped`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            let missing = "\(directory)/tor"
            var settings = TorSettings(isManaged: true, directory: "\(directory)/state/tor")
            settings.binary = missing
            let watch = Watch()
            let target = Endpoint.unix(path: "\(directory)/target")
            let tor = ManagedTor(
                settings,
                services: [.init(directory: "\(settings.directory)/onion", ports: [.init(number: 80, target: target)])],
                on: loop, observe: watch.note)
            await tor.start()
            _ = try await watch.wait(for: "the reason") { $0.problem == .missing(binary: missing) }

            // A binary that exits with an error is installed meanwhile: the status has its message.
            let script = """
                #!/bin/sh
                case "$1" in
                --version) echo "Tor version 0.4.9.11." ;;
                --list-modules) echo "pow: yes" ;;
                *) echo "Nov 21 18:36:54.000 [err] It is all wrong." ; exit 3 ;;
                esac
                """
            try write(Array(script.utf8), to: missing, mode: 0o700)
            let ended = TorProblem.exited(status: "exited(3)", warning: "It is all wrong.")
            let status = try await watch.wait(for: "its exit") { $0.problem == ended }
            #expect(status.restarts > 0)
            await tor.stop()
            #expect(watch.status.phase == .stopped)
        }
    }

    @Test func `files that were damaged are mended, or named with tor's reason`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            let settings = TorSettings(isManaged: true, directory: "\(directory)/tor")
            let services = settings.services(tnp: .unix(path: "\(directory)/target"), http: nil)
            let build = try await TorBuild(of: settings.binary, path: "/usr/bin:/usr/sbin:/bin:/sbin")
            let hostname = "\(settings.serviceDirectory)/hostname"
            /// Starts tor, and waits until it has written the onion's address or has exited.
            func outcome() async throws -> (address: [UInt8]?, problem: TorProblem?) {
                unlink(hostname)
                let watch = Watch()
                let tor = ManagedTor(
                    settings, services: services, extra: ["DisableNetwork 1"], on: loop, observe: watch.note)
                await tor.start()
                for _ in 0..<1000 where bytes(of: hostname) == nil && watch.status.problem == nil {
                    try await Task.sleep(for: .milliseconds(20))
                }
                let problem = watch.status.problem
                await tor.stop()
                return (bytes(of: hostname), problem)
            }
            let address = try #require(try await outcome().address)
            #expect(settings.problems(of: services, build).isEmpty)
            // As restored from an archive: tor refuses modes that others can read.
            let onion = settings.serviceDirectory
            for path in [settings.directory, onion, "\(onion)/authorized_clients"] { chmod(path, 0o755) }
            #expect(try await outcome().address == address)

            // Without its key, tor would open the onion to everyone.
            let key = "descriptor:x25519:" + String(repeating: "A", count: 20)
            try write(Array(key.utf8), to: "\(onion)/authorized_clients/alice.auth")
            #expect(settings.problems(of: services, build).contains { $0.contains("alice") })
            #expect(try await outcome().address == address)
            let clients = try AuthorizedClients(serviceDirectory: onion).list()
            #expect(clients.filter(\.isValid).map(\.name) == [.nobody])

            let secret = "\(onion)/\(OnionKeys.secretFile)"
            try write(Array(try #require(bytes(of: secret)).prefix(50)), to: secret)
            #expect(settings.problems(of: services, build).contains { $0.contains(secret) })
            let problem = try #require(try await outcome().problem)
            #expect(problem.description.contains(secret), "\(problem)")
        }
    }

    @Test func `a tor that ignores SIGTERM is killed`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            var settings = TorSettings(isManaged: true, directory: "\(directory)/tor")
            settings.binary = "\(directory)/deaf"
            let script = """
                #!/bin/sh
                case "$1" in
                --version) echo "Tor version 0.4.9.11." ;;
                --list-modules) ;;
                *) trap '' TERM; while true; do sleep 0.1; done ;;
                esac
                """
            try write(Array(script.utf8), to: settings.binary, mode: 0o700)
            let watch = Watch()
            let target = Endpoint.unix(path: "\(directory)/target")
            let tor = ManagedTor(
                settings,
                services: [.init(directory: "\(settings.directory)/onion", ports: [.init(number: 80, target: target)])],
                on: loop, observe: watch.note)
            await tor.start()
            let pid = try #require(try await watch.wait(for: "its start") { $0.pid != nil }.pid)
            await tor.stop()
            try await waitForEnd(of: pid)
            #expect(watch.status.phase == .stopped)
        }
    }

    @Test func `a tor that hangs is noticed and replaced`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            let settings = TorSettings(isManaged: true, directory: "\(directory)/tor")
            let watch = Watch()
            let target = Endpoint.unix(path: "\(directory)/target")
            let tor = ManagedTor(
                settings,
                services: [.init(directory: "\(settings.directory)/onion", ports: [.init(number: 80, target: target)])],
                extra: ["DisableNetwork 1"], check: (.milliseconds(500), .seconds(10)), on: loop, observe: watch.note)
            await tor.start()
            let hung = try #require(try await watch.wait(for: "its start") { $0.pid != nil }.pid)
            // It answers as long as it runs: some checks pass.
            try await Task.sleep(for: .seconds(2))
            #expect(watch.status.pid == hung)
            kill(hung, SIGSTOP)
            let status = try await watch.wait(for: "another tor") { $0.pid != nil && $0.pid != hung }
            #expect(status.restarts >= 1)
            try await waitForEnd(of: hung)
            await tor.stop()
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `a binary that hangs at --version does not block the shutdown`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            var settings = TorSettings(isManaged: true, directory: "\(directory)/tor")
            settings.binary = "\(directory)/hanging"
            let script = "#!/bin/sh\necho $$ > \(directory)/pid\ntrap '' TERM\nwhile true; do sleep 0.1; done\n"
            try write(Array(script.utf8), to: settings.binary, mode: 0o700)
            let watch = Watch()
            let target = Endpoint.unix(path: "\(directory)/target")
            let tor = ManagedTor(
                settings,
                services: [.init(directory: "\(settings.directory)/onion", ports: [.init(number: 80, target: target)])],
                on: loop, observe: watch.note)
            await tor.start()
            var pid: Int32?
            while pid == nil {
                try await Task.sleep(for: .milliseconds(20))
                pid = (try? String(contentsOfFile: "\(directory)/pid", encoding: .utf8))
                    .flatMap { Int32($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
            }
            await tor.stop()
            #expect(watch.status.phase == .stopped)
            try await waitForEnd(of: try #require(pid))
        }
    }

    @Test func `settings that yield no valid torrc are reported with a remedy`() async throws {
        let loop = EventLoop(name: "test")
        try await withDirectory { directory in
            var settings = TorSettings(isManaged: true, directory: directory + String(repeating: "x", count: 100))
            settings.binary = "\(directory)/tor"
            try write(Array("#!/bin/sh\necho Tor version 0.4.9.11.\n".utf8), to: settings.binary, mode: 0o700)
            let watch = Watch()
            let target = Endpoint.unix(path: "\(directory)/target")
            let tor = ManagedTor(
                settings,
                services: [.init(directory: "\(settings.directory)/onion", ports: [.init(number: 80, target: target)])],
                on: loop, observe: watch.note)
            await tor.start()
            let status = try await watch.wait(for: "the reason") { $0.problem != nil }
            #expect(status.problem?.description.contains("choose a node.state or tor.directory") == true)
            await tor.stop()
        }
    }

    /// Holds an object that must be created and released on a loop.
    final class LoopBound<Value>: @unchecked Sendable {
        // Unchecked: created and released on the loop, and not used in between.
        private var value: Value?
        init(_ value: Value) { self.value = value }
        func drop() { value = nil }
    }
}
