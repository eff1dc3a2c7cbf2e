// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import NodeConfiguration
import StandIns
import TNP
import Time
import TocsinClient
import TocsinNode
import Tor

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Demonstrate the path of a notification on this machine.",
        discussion: """
            Starts a private Tor network, stand-ins for Apple and Google, and a node behind a real onion service. \
            Sends one notification to each of four phones, one of them without Google's services, and one to a fifth as \
            today's Bisq 1 does: by HTTP to the onion's port 80. Shows what each phone decrypts next to what the node saw, and stops everything it \
            started.

            EXIT CODES
              0   the phones decrypted all notifications
              1   they did not, or the demo failed

            EXAMPLES
              tocsin demo
              tocsin demo --real-tor       use the public Tor network; requires internet access
            """)

    @Flag(help: "Use the tor of this machine and the public Tor network.")
    var realTor = false

    func run() async throws {
        let loop = EventLoop(name: "demo")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let demo = Demo(loop: loop, isPublic: realTor)
        let work = Task { try await demo.run() }
        let interruption = Task {
            await stop.wait()
            work.cancel()
        }
        defer { interruption.cancel() }
        switch await work.result {
        case .success(true): return
        case .success(false): throw ExitCode.failure
        case .failure(let error): throw fail("the demo failed: \(error)", .failure)
        }
    }
}

/// One run of the demo.
private struct Demo: Sendable {
    let loop: EventLoop
    let isPublic: Bool
    private let start = MonotonicTime.now
    private static let virtualPort: UInt16 = 7077

    /// The onion's port for the HTTP API, as Bisq 1 expects it.
    private static let httpPort: UInt16 = 80

    /// How a notification is sent.
    private enum Sender {
        /// The Swift client, over TNP.
        case swift
        /// An HTTP request as Bisq 1 makes it.
        case http
    }

    /// A notification for one phone.
    private struct Example: Sendable {
        let phone: Phone
        let notification: BisqNotification
        let sender: Sender

        init(
            _ magic: Magic, _ model: String, _ kind: BisqNotification.Kind, _ title: String, _ text: String,
            by sender: Sender = .swift
        ) {
            self.init(Phone.new(magic, model: model), kind, title, text, by: sender)
        }

        init(
            _ phone: Phone, _ kind: BisqNotification.Kind, _ title: String, _ text: String, by sender: Sender = .swift
        ) {
            self.phone = phone
            notification = BisqNotification(
                kind: kind, title: title, message: text, transactionID: "29384203", sentDate: .unixMillisecondsNow)
            self.sender = sender
        }
    }

    private func step(_ text: String) {
        let seconds = Terminal.number((MonotonicTime.now - start).milliseconds / 1000, digits: 2)
        Terminal.print("\(Terminal.dim(Terminal.padded(seconds, 6, right: true) + " s"))  \(text)")
    }

    func run() async throws -> Bool {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-demo-\(UUID().uuidString.prefix(8))").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }

        let services = SimulatedServices(SimulatedServices.Options(directory: directory), on: loop)
        let endpoints = try await services.start()
        step("stand-ins for Apple and Google are up on loopback: HTTP/2 over TLS, as strict as the real services")

        let socket = "\(directory)/tnp.sock"
        let settings = SimulatedConfiguration(
            endpoints: endpoints, tnp: "unix:\(socket)", http: "unix:\(directory)/http.sock", circuitIDs: true,
            logLevel: "error")
        let configuration = try Configuration(text: settings.text, file: "\(directory)/tocsin.toml")
        let nodeLoop = EventLoop(name: "node")
        let node = Node(configuration, logger: configuration.makeLogger(), on: nodeLoop)
        _ = try await node.start()
        step("the node is up on unix sockets for tor: one for TNP, one for the HTTP API that today's Bisq uses")

        let privateTor = isPublic ? nil : try PrivateTorNetwork(on: loop)
        let publicTor = isPublic ? PublicTor(on: loop) : nil
        func stop() async {
            _ = await node.stop()
            await privateTor?.stop()
            await publicTor?.stop()
            await services.stop()
        }
        do {
            let options = [
                "HiddenServiceExportCircuitID haproxy",
                "HiddenServicePort \(Self.httpPort) unix:\(directory)/http.sock",
            ]
            let report: @Sendable (String) -> Void = { step("tor: \($0)") }
            let access: PrivateTorNetwork.Access
            if let privateTor {
                access = try await privateTor.start(
                    target: .unix(path: socket), virtualPort: Self.virtualPort, serviceOptions: options,
                    progress: report)
            } else {
                access = try await publicTor!.start(
                    in: "\(directory)/tor", target: .unix(path: socket), virtualPort: Self.virtualPort,
                    serviceOptions: options, progress: report)
            }
            step("the node's onion service is up: \(Terminal.bold("\(access.onion)"))")
            let opened = try await deliver(services, pushServer: endpoints.webPush, access)
            await stop()
            step("stopped everything that was started")
            return opened
        } catch {
            await stop()
            throw error
        }
    }

    private func deliver(
        _ services: SimulatedServices, pushServer: Endpoint, _ access: PrivateTorNetwork.Access
    ) async throws -> Bool {
        let examples = [
            Example(.iOS, "iPhone 15", .trade, "Trade state changed", "The BTC buyer has started the payment."),
            Example(.iOSDev, "iPhone 12", .offer, "Nabídka přijata", "Vaše nabídka s ID 29384203 byla přijata. ✓"),
            Example(.android, "Pixel 8", .dispute, "New dispute message", "You received a message for trade 29384203."),
            Example(
                .android, "Galaxy S9", .offer, "Your offer was taken", "Your offer with ID 29384203 was taken",
                by: .http),
            Example(
                .withWebPush(at: pushServer, model: "Fairphone 5"), .price, "Market price alert",
                "Your price alert got triggered: 64,000 EUR."),
        ]
        var isComplete = true
        for example in examples {
            let pairing = example.phone.pairing
            await services.register(example.phone)
            let label = SOCKS5.Credentials(user: "demo", password: pairing.descriptor)
            let sent = MonotonicTime.now
            let envelope = try Sealer(pairing).seal(example.notification.json)
            let proxy = Proxy.socks5(access.socks, label)
            let (result, isTaken) =
                switch example.sender {
                case .swift: try await submit(envelope, access.onion, proxy)
                case .http: try await submitByHTTP(envelope, access.onion, proxy)
                }
            let took = Terminal.number((MonotonicTime.now - sent).milliseconds, digits: 0)
            step("\(pairing.magic.rawValue): encrypted, sent through the onion, \(result) (\(took) ms)")
            isComplete = isComplete && isTaken
        }
        Terminal.print("")
        for example in examples {
            let received = await services.received.first { $0.deviceToken == example.phone.pairing.deviceToken }
            isComplete = show(example, received) && isComplete
        }
        Terminal.print(
            isComplete
                ? Terminal.green("All notifications went through Tor, and only the phones could read them.")
                : "NOT all notifications were decrypted.")
        return isComplete
    }

    /// Sends an envelope by TNP.
    /// - Returns: the outcome, and whether the notification was delivered.
    private func submit(_ envelope: Envelope, _ node: Endpoint, _ proxy: Proxy) async throws -> (String, Bool) {
        let client = TocsinClient(TocsinClient.Options(nodes: [node], proxy: proxy), on: loop)
        let outcome = try await client.submit(envelope, timeout: .seconds(isPublic ? 180 : 30))
        await client.close()
        return ("\(outcome.kind)", outcome.kind == .delivered)
    }

    /// Sends an envelope as Bisq 1 does.
    /// - Returns: the node's answer, and whether it means success.
    private func submitByHTTP(_ envelope: Envelope, _ node: Endpoint, _ proxy: Proxy) async throws -> (String, Bool) {
        guard case .tcp(let host, _) = node else { return ("no onion address", false) }
        let answer = try await LoopDomain(loop).run { domain in
            let stream = try await domain.loop.dial(
                .tcp(host: host, port: Self.httpPort), through: proxy, timeout: .seconds(isPublic ? 120 : 30))
            return await BisqRelayRequest(envelope).answer(on: stream, host: host, within: .seconds(60), domain.loop)
        }
        let isTaken = BisqRelayRequest.isSuccess(answer)
        return ("GET /relay, \(isTaken ? "success" : "failure")", isTaken)
    }

    private func show(_ example: Example, _ received: ReceivedNotification?) -> Bool {
        let pairing = example.phone.pairing
        Terminal.print(Terminal.bold("  \(pairing.descriptor) (\(pairing.magic.rawValue))"))
        guard let received else {
            Terminal.print("    received nothing\n")
            return false
        }
        Terminal.print("    the node saw     \(Terminal.dim(String(received.encrypted.prefix(76)) + "…"))")
        Terminal.print("    the phone rings  \(received.alert ?? "(data only)")\(received.hasSound ? " ♪" : "")")
        guard let shown = try? example.phone.open(received.encrypted) else {
            Terminal.print("    the phone could NOT decrypt it\n")
            return false
        }
        Terminal.print("    the phone shows  [\(shown.type)] \(Terminal.green(shown.title)): \(shown.message)\n")
        return shown.title == example.notification.title && shown.message == example.notification.message
    }
}
