import ArgumentParser
import EventLoop
import FoundationEssentials
import Simulator
import TNP

struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Run stand-ins for Apple and Google on loopback, and three phones.",
        discussion: """
            Writes credentials and a node's configuration into a directory, prints the phones' pairing tokens, and shows
            what each phone opens, until SIGTERM or SIGINT.

            EXAMPLES
              tocsin simulate --directory sim
              tocsin run --config sim/tocsin.toml      in a second terminal
              tocsin send 'PAIRING TOKEN' --node 127.0.0.1:7077 --direct --title Hello      in a third
            """)

    @Option(help: "Where credentials and configuration are written.")
    var directory = "simulated"

    @Option(help: "Where the node shall listen.")
    var tnp = "127.0.0.1:7077"

    @Option(help: "First of three ports in a row for the stand-ins; 0: any that are free.")
    var port: UInt16 = 0

    func run() async throws {
        let loop = EventLoop(name: "simulate")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let ports: (UInt16, UInt16, UInt16) = port == 0 ? (0, 0, 0) : (port, port + 1, port + 2)
        let services = SimulatedServices(SimulatedServices.Options(directory: directory, ports: ports), on: loop)
        let endpoints: SimulatedServices.Endpoints
        do {
            endpoints = try await services.start()
        } catch {
            throw fail("\(error)", ExitStatus.failure)
        }
        let configuration = SimulatedConfiguration(endpoints: endpoints, tnp: tnp)
        try Data(configuration.text.utf8).write(to: URL(filePath: "\(directory)/tocsin.toml"))
        let phones = [
            Phone.new(.iOS, model: "iPhone 15"), Phone.new(.iOSDev, model: "iPhone 12"),
            Phone.new(.android, model: "Pixel 8"),
        ]
        for phone in phones { await services.register(phone) }
        await services.observe { received in
            guard let phone = phones.first(where: { $0.pairing.deviceToken == received.deviceToken }) else { return }
            switch Result(catching: { try phone.open(received.encrypted) }) {
            case .success(let shown):
                Terminal.print("\(phone.pairing.descriptor): [\(shown.type)] \(shown.title) – \(shown.message)")
            case .failure(let failure): Terminal.print("\(phone.pairing.descriptor): cannot open it: \(failure)")
            }
        }
        Terminal.print("configuration of a node: \(directory)/tocsin.toml")
        Terminal.print("pairing tokens, as the phones' QR codes would say them:")
        for phone in phones { Terminal.print("  \(phone.pairingToken)") }
        await stop.wait()
        await services.stop()
    }
}
