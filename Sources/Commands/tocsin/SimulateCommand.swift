// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Dispatch
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import TNP

struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run six simulated phones and stand-ins for Apple, Google and a push server on loopback.",
        discussion: """
            Writes credentials and a node configuration into a directory, prints what a sender needs for each phone, \
            and prints what each phone shows, until SIGTERM or SIGINT. Three phones have Bisq 1's app, and one an \
            app with Web Push; they show pairing tokens. Two have Bisq Connect, which registers with its user's Bisq 2 \
            node instead. The phones' users tap every alert.

            --fault sets faults of the stand-ins at the start; lines of the same form on standard input change them \
            later. The line `new-token MODEL` gives a phone with a pairing token another device token, and prints its new \
            pairing token; the old device token is no longer registered.

            FAULTS
            \(FaultDirective.help)

            EXAMPLES
              tocsin simulate --directory sim
              tocsin run --config sim/tocsin.toml      in a second terminal
              tocsin send 'PAIRING TOKEN' --node 127.0.0.1:17077 --direct --title Hello      in a third
              tocsin simulate --fault 'apns-production goaway-every=500 reset=10:7 latency=exponential:50'
              tocsin simulate --fault 'fcm error=20:503:UNAVAILABLE:30 error=5:500' --fault 'apns-development stall'
              (sleep 30; echo 'kill fcm'; sleep 5; echo 'restart fcm') | tocsin simulate
              (sleep 60; echo 'new-token iPhone 15') | tocsin simulate
            """)

    @Option(help: "The directory for credentials and configuration.")
    var directory = "simulated"

    @Option(help: "The address where the node listens for TNP.")
    var tnp = "127.0.0.1:17077"

    @Option(help: "The address of the node's HTTP API for today's desktops.")
    var http = "127.0.0.1:17080"

    @Option(help: "The address of the node's dashboard.")
    var admin = "127.0.0.1:17079"

    @Option(
        help: "The numeric address on which the stand-ins listen: for a node in another container, that of this one.")
    var host = "127.0.0.1"

    @Option(help: "First of four consecutive ports for the stand-ins; 0: any free ports.")
    var port: UInt16 = 0

    @Option(
        name: .customLong("fault"),
        help: ArgumentHelp("A fault of a stand-in; can be given several times.", valueName: "PLATFORM FAULT ..."),
        transform: { try FaultDirective($0) })
    var faults: [FaultDirective] = []

    func validate() throws {
        guard port <= .max - 3 else { throw ValidationError("--port: the last of the four ports would be above 65535") }
    }

    func run() async throws {
        let loop = EventLoop(name: "simulate")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let ports = port == 0 ? (0, 0, 0, 0) : (port, port + 1, port + 2, port + 3)
        let services = SimulatedServices(
            SimulatedServices.Options(directory: directory, host: host, ports: ports), on: loop)
        let endpoints: SimulatedServices.Endpoints
        do {
            endpoints = try await services.start()
            for line in faults { try await services.apply(line) }
        } catch {
            throw fail("\(error)", .failure)
        }
        let configuration = SimulatedConfiguration(
            endpoints: endpoints, tnp: tnp, http: http, admin: admin, additionalTables: Self.connectProfile)
        try Data((configuration.text + "\n").utf8).write(to: URL(filePath: "\(directory)/tocsin.toml"))
        let phones = [
            Phone.new(.iOS, model: "iPhone 15"), Phone.new(.iOSDev, model: "iPhone 12"),
            Phone.new(.android, model: "Pixel 8"), Phone.new(.iOS, model: "iPhone 16", app: .bisqConnect),
            Phone.new(.android, model: "Galaxy S24", app: .bisqConnect),
            Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5"),
        ]
        for phone in phones { await services.register(phone) }
        let owned = OwnedPhones(phones)
        let (notifications, arrivals) = AsyncStream.makeStream(of: ReceivedNotification.self)
        await services.observe { arrivals.yield($0) }
        let display = Task {
            for await received in notifications {
                if let line = await owned.receive(received) { Terminal.print(line) }
            }
        }
        Terminal.print(introduction(of: phones).joined(separator: "\n"))
        let commands = Task {
            for await line in inputLines() { Terminal.print(await Self.execute(line, services, owned)) }
        }
        await stop.wait()
        commands.cancel()
        display.cancel()
        await services.stop()
    }

    /// The text with the next steps and the phones' pairing tokens.
    private func introduction(of phones: [Phone]) -> [String] {
        let onConnect = phones.compactMap { phone in
            phone.registration.map {
                "    \(phone.magic.rawValue)|\(phone.model)|\($0.symmetricKeyBase64)|\($0.deviceToken)"
            }
        }
        return [
            "node configuration: \(directory)/tocsin.toml", "next, each in a terminal of its own:",
            "  tocsin run --config \(directory)/tocsin.toml",
            "  tocsin send 'PAIRING TOKEN' --node \(tnp) --direct --title Hello",
            "  tocsin status --config \(directory)/tocsin.toml, or the dashboard: http://\(admin)/",
            "a line typed here is a fault, or gives a phone another device token: help",
            "pairing tokens, as in the phones' QR codes:",
        ] + phones.filter(\.app.usesPairingToken).map { "  \($0.pairingToken)" } + [
            "those of the app bisq-connect, for --app bisq-connect; Bisq 2 gets the same by another way:"
        ] + onConnect
    }

    /// The node's further tables, with the `[[app]]` for Bisq Connect, in TOML.
    private static let connectProfile = """
        [spool]
        enabled = true

        [[app]]
        name = "bisq-connect"
        format = "sealed"

        [app.apns]
        topic = "\(PhoneApp.bisqConnect.topic)"
        key_file = "apns.p8"
        key_id = "\(SimulatedServices.keyID)"
        team_id = "\(SimulatedServices.teamID)"
        alert = "Bisq notification"

        [app.fcm]
        service_account_file = "\(PhoneApp.bisqConnect.serviceAccountFile)"
        data_only = true
        """

    /// Executes a line of standard input.
    /// - Returns: the reply.
    private static func execute(_ text: String, _ services: SimulatedServices, _ phones: OwnedPhones) async -> String {
        let words = text.split(whereSeparator: \.isWhitespace)
        if words.isEmpty { return "" }
        if words[0] == "new-token" {
            let model = words.dropFirst().joined(separator: " ")
            return await phones.giveNewDeviceToken(to: model, services)
                ?? "nothing changed: no phone with a pairing token is named \(TerminalText.line(model))"
        }
        if words == ["help"] { return FaultDirective.help }
        do {
            try await services.apply(try FaultDirective(text))
            return "done: \(words.joined(separator: " "))"
        } catch {
            return "nothing changed: \(error)"
        }
    }
}

/// The simulated phones, as their users see them.
private actor OwnedPhones {
    private var phones: [(phone: Phone, state: PhoneState)]

    init(_ phones: [Phone]) { self.phones = phones.map { ($0, PhoneState($0)) } }

    /// Passes a notification to its phone.
    /// - Returns: what the phone does; `nil` if no phone has the notification's device token.
    func receive(_ received: ReceivedNotification) -> String? {
        guard let index = phones.firstIndex(where: { $0.phone.deviceToken == received.deviceToken }) else { return nil }
        return "\(phones[index].phone.model): \(phones[index].state.receive(received))"
    }

    /// Gives a phone another device token.
    /// - Returns: its new pairing token; `nil` if no phone with a pairing token has this model.
    func giveNewDeviceToken(to model: String, _ services: SimulatedServices) async -> String? {
        guard let index = phones.firstIndex(where: { $0.phone.model == model && $0.phone.app.usesPairingToken }) else {
            return nil
        }
        phones[index].phone = await services.giveNewDeviceToken(to: phones[index].phone)
        return phones[index].phone.pairingToken
    }
}

/// The lines of standard input as they arrive, until its end.
private func inputLines() -> AsyncStream<String> {
    AsyncStream { continuation in
        // Makes reading from the terminal fail in a background job, instead of stopping the process.
        signal(SIGTTIN, SIG_IGN)
        // Reading blocks until there is input, so it gets a thread of its own, which ends with the process.
        DispatchQueue(label: "input").async {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
    }
}
