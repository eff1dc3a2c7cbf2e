// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc

/// A connection to tor's control port (control-spec): one command at a time. Who has it has all of that tor.
package final class TorControl {
    private static let dialTimeout = Duration.seconds(5)
    /// How long tor may take to answer.
    private static let answerTimeout = Duration.seconds(20)
    private static let mostEvents = 10_000

    private let reader: StreamReader
    /// Asynchronous events that came with replies, in order.
    package private(set) var events: [String] = []

    private init(_ reader: StreamReader) { self.reader = reader }

    deinit { reader.stream.close() }

    /// Connects to the control socket in a directory of ours; nil while tor is not that far.
    package static func open(
        directory: String, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async -> TorControl? {
        try? await open(.unix(path: "\(directory)/ctl"), on: loop)
    }

    /// Connects and logs in.
    /// - Throws: ``TorError`` in words, or `StreamError` where nobody answers.
    package static func open(
        _ endpoint: Endpoint, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws -> TorControl {
        let stream = try await loop.dial(endpoint, timeout: dialTimeout)
        let control = TorControl(StreamReader(stream, limit: 8 << 20))
        let login = TorLogin(protocolInfo: try await control.ask("PROTOCOLINFO 1"))
        guard !login.isOpen else {
            throw TorError(
                """
                the control port at \(endpoint) lets in everybody who reaches it, so that whoever listens there need not be \
                tor: set CookieAuthentication 1 in its torrc
                """)
        }
        guard let file = login.cookieFile else {
            throw TorError("the tor at \(endpoint) lets nobody in by a cookie: set CookieAuthentication 1 in its torrc")
        }
        try await control.logIn(cookie: try cookie(in: file), at: endpoint)
        return control
    }

    private func logIn(
        cookie: [UInt8], at endpoint: Endpoint, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let nonce = TorLogin.nonce()
        let challenge = try await ask("AUTHCHALLENGE SAFECOOKIE \(Hex.encode(nonce))")
        guard let command = TorLogin.command(challenge: challenge, cookie: cookie, nonce: nonce) else {
            throw TorError("whoever answers at \(endpoint) is not the tor that wrote its cookie file")
        }
        try await ask(command)
    }

    /// Whether tor may run as this user: the user of this process, root, or the user that a distribution's package creates.
    private static func isTor(_ user: uid_t) -> Bool {
        if user == geteuid() || user == getuid() || user == 0 { return true }
        return ["debian-tor", "tor", "_tor", "toranon"].contains { name in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            var buffer = [CChar](repeating: 0, count: 4096)
            return getpwnam_r(name, &entry, &buffer, buffer.count, &found) == 0 && found != nil && entry.pw_uid == user
        }
    }

    private static func cookie(in file: String) throws(TorError) -> [UInt8] {
        let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw TorError(
                """
                cannot read tor's cookie \(file): \(String(cString: strerror(errno))); on Debian, the group debian-tor \
                may
                """)
        }
        defer { Glibc.close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, isTor(status.st_uid) else {
            throw TorError(
                """
                \(file), which the control port names as its cookie, belongs neither to this user nor to root nor to tor's \
                user: whoever listens there may not be tor
                """)
        }
        // One more, to see that it ends.
        var cookie = [UInt8](repeating: 0, count: TorLogin.cookieLength + 1)
        guard read(descriptor, &cookie, cookie.count) == TorLogin.cookieLength else {
            throw TorError("\(file) is no cookie of tor's")
        }
        return cookie.dropLast()
    }

    /// Sends a command.
    /// - Parameters:
    ///   - command: one line.
    ///   - holdsSecret: whether tor's words may repeat what nobody else should read: of a refusal only the number is told.
    /// - Returns: the lines of the reply, those of data included.
    /// - Throws: ``TorError`` for a reply that is no success, `StreamError` where tor is gone or does not answer.
    @discardableResult
    package func ask(
        _ command: String, holdsSecret: Bool = false, isolation: isolated (any Actor)? = #isolation
    ) async throws -> [String] {
        precondition(!command.utf8.contains { $0 < 0x20 }, "a command is one line")
        let stream = reader.stream
        let timeout = Timer(on: stream.loop) { stream.fail(.timedOut) }
        timeout.start(after: Self.answerTimeout)
        defer { timeout.stop() }
        stream.write(Array("\(command)\r\n".utf8))
        var reply: [String] = []
        while true {
            let line = try await reader.readLine()
            if line.hasPrefix("650") {
                keep(line)
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
            // The command's name only: what follows may be a key.
            let words = reply.last ?? "nothing"
            throw TorError(
                "tor answered \(command.split(separator: " ")[0]) with: \(holdsSecret ? String(words.prefix(3)) : words)"
            )
        }
        return reply
    }

    /// The next event, of those that came with replies at first. Waits for as long as the connection lasts.
    /// - Throws: `StreamError` where tor is gone.
    package func nextEvent(isolation: isolated (any Actor)? = #isolation) async throws -> String {
        if !events.isEmpty { return events.removeFirst() }
        while true {
            let line = try await reader.readLine()
            if line.hasPrefix("650") { return line }
        }
    }

    /// Ends the connection: whoever waits for an event waits no longer.
    package func close() { reader.stream.fail(.closed) }

    private func keep(_ event: String) {
        if events.count == Self.mostEvents { events.removeFirst() }
        events.append(event)
    }
}
