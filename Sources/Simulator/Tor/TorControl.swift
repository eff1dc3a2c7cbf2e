import EventLoop
import FoundationEssentials

/// A connection to tor's control port (control-spec): one command at a time.
final class TorControl {
    private let reader: StreamReader
    /// Asynchronous events that came with replies, in order.
    private(set) var events: [String] = []

    private init(_ reader: StreamReader) { self.reader = reader }

    /// Connects to a control socket and logs in by the cookie beside it; nil while tor is not that far.
    static func open(
        directory: String, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async -> TorControl? {
        guard let cookie = FileManager.default.contents(atPath: "\(directory)/control_auth_cookie"), cookie.count == 32
        else { return nil }
        let socket = Endpoint.unix(path: "\(directory)/ctl")
        guard let stream = try? await loop.dial(socket, timeout: .seconds(5)) else { return nil }
        let control = TorControl(StreamReader(stream, limit: 8 << 20))
        let hex = cookie.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        guard (try? await control.ask("AUTHENTICATE \(hex)")) != nil else { return nil }
        return control
    }

    deinit { reader.stream.close() }

    /// Sends a command.
    /// - Returns: the lines of the reply, those of data included.
    /// - Throws: ``TorError`` for a reply that is no success, `StreamError` where tor is gone.
    @discardableResult
    func ask(_ command: String, isolation: isolated (any Actor)? = #isolation) async throws -> [String] {
        reader.stream.write(Array("\(command)\r\n".utf8))
        var reply: [String] = []
        while true {
            let line = try await reader.readLine()
            if line.hasPrefix("650") {
                events.append(line)
                continue
            }
            reply.append(line)
            if line.dropFirst(3).hasPrefix("+") {
                while true {
                    let data = try await reader.readLine()
                    if data == "." { break }
                    reply.append(data)
                }
            } else if line.dropFirst(3).hasPrefix(" ") {
                break
            }
        }
        guard reply.last?.hasPrefix("25") == true else {
            throw TorError("tor answered \(command.split(separator: " ")[0]) with: \(reply.last ?? "nothing")")
        }
        return reply
    }
}
