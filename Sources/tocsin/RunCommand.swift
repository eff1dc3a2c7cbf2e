import ArgumentParser
import EventLoop
import TocsinNode

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the node.",
        discussion: """
            Listens for senders, behind tor, until SIGTERM or SIGINT; then takes no new work, answers what it has taken
            and ends.

            EXAMPLES
              tocsin run
              tocsin run --config /etc/tocsin/tocsin.toml
            """)

    @OptionGroup var options: ConfigurationOption

    func run() async throws {
        let configuration = try options.load()
        let loop = EventLoop(name: "node")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let node = Node(configuration, logger: configuration.makeLogger(), on: loop)
        do {
            _ = try await node.start()
        } catch let error as ConfigurationError {
            throw fail("\(error)", ExitStatus.configuration)
        } catch {
            throw fail("\(error)", ExitStatus.failure)
        }
        await stop.wait()
        _ = await node.stop()
    }
}
