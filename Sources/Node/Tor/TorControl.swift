// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc

/// A connection to tor's control port (control-spec), for one command at a time. It gives full control of that tor,
/// unless a ``ControlRelay`` stands between.
package final class TorControl {
    private static let dialTimeout = Duration.seconds(5)
    /// How long tor may take to reply.
    package static let answerTimeout = Duration.seconds(20)
    private static let maximumEvents = 10_000

    private let reader: StreamReader
    /// Asynchronous events received while waiting for replies, in order.
    package private(set) var events: [String] = []

    private init(_ reader: StreamReader) { self.reader = reader }

    deinit { reader.stream.close() }

    /// Connects to the node's own tor and authenticates. The owner of the cookie file is not checked: only a user who
    /// can write to tor's directory could replace the file or the socket.
    /// - Throws: ``TorError``, or `StreamError` if the connection fails.
    static func open(
        _ settings: TorSettings, within time: Duration = answerTimeout, on loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> TorControl {
        try await open(settings.controlSocket, cookieFile: settings.cookieFile, within: time, on: loop)
    }

    /// Connects and authenticates.
    /// - Parameters:
    ///   - cookieFile: the only cookie file to use, whoever owns it; `nil` for any that belongs to a user who may run
    ///     tor.
    ///   - time: how long tor may take for each reply.
    /// - Throws: ``TorError``, or `StreamError` if the connection fails.
    package static func open(
        _ endpoint: Endpoint, cookieFile: String? = nil, within time: Duration = answerTimeout, on loop: EventLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> TorControl {
        let stream = try await loop.dial(endpoint, timeout: dialTimeout)
        let control = TorControl(StreamReader(stream, limit: 8 << 20))
        let login = CookieAuthentication(protocolInfo: try await control.send(ControlFilter.protocolInfo, within: time))
        guard !login.requiresNoAuthentication else {
            throw TorError(
                """
                the control port at \(endpoint) requires no authentication, so the process behind it need not be tor: \
                set CookieAuthentication 1 in its torrc
                """)
        }
        guard let file = login.cookieFile else {
            throw TorError(
                "the tor at \(endpoint) does not offer cookie authentication: set CookieAuthentication 1 in its torrc")
        }
        guard cookieFile == nil || cookieFile == file else {
            throw TorError("the process at \(endpoint) names \(file) as its cookie file instead of \(cookieFile ?? "")")
        }
        try await control.logIn(
            cookie: try cookie(in: file, ofAnyUser: cookieFile != nil), at: endpoint, within: time)
        return control
    }

    private func logIn(
        cookie: [UInt8], at endpoint: Endpoint, within time: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let nonce = CookieAuthentication.nonce()
        let challenge = try await send("AUTHCHALLENGE SAFECOOKIE \(Hex.encode(nonce))", within: time)
        guard let command = CookieAuthentication.command(challenge: challenge, cookie: cookie, nonce: nonce) else {
            throw TorError(
                "the process at \(endpoint) is not the tor that wrote the cookie file: check what listens there")
        }
        try await send(command, within: time)
    }

    /// Whether tor may run as this user: the user of this process, root, or a user that a distribution's package
    /// creates.
    private static func isTor(_ user: uid_t) -> Bool {
        if user == geteuid() || user == getuid() || user == 0 { return true }
        return ["debian-tor", "tor", "_tor", "toranon"].contains { name in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            var buffer = [CChar](repeating: 0, count: 4096)
            return getpwnam_r(name, &entry, &buffer, buffer.count, &found) == 0 && found != nil && entry.pw_uid == user
        }
    }

    private static func cookie(in file: String, ofAnyUser: Bool) throws(TorError) -> [UInt8] {
        let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw TorError(
                """
                cannot read tor's cookie file \(file): \(String(cString: strerror(errno))); on Debian, members of the \
                group debian-tor can
                """)
        }
        defer { Glibc.close(descriptor) }
        var status = stat()
        // In a user namespace, such as that of tocsin.service (PrivateUsers=), the file's owner cannot be recognised:
        // `ofAnyUser` omits the check.
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, ofAnyUser || isTor(status.st_uid)
        else {
            throw TorError(
                """
                the control port's cookie file \(file) belongs neither to this user nor to root nor to tor's user: the \
                process behind the port may not be tor
                """)
        }
        // Room for one byte more, to detect a file that is too long.
        var cookie = [UInt8](repeating: 0, count: CookieAuthentication.cookieLength + 1)
        guard read(descriptor, &cookie, cookie.count) == CookieAuthentication.cookieLength else {
            throw TorError("\(file) is not a cookie file of tor: check which process listens at the control port")
        }
        return cookie.dropLast()
    }

    /// Sends a command and waits for the reply.
    /// - Parameters:
    ///   - command: one line.
    ///   - redactsReply: whether an error contains only the reply's status code, because the reply may repeat a secret.
    ///   - time: how long tor may take to reply.
    /// - Returns: the lines of the reply, including data lines.
    /// - Throws: ``TorError`` if tor rejects the command, `StreamError` if the connection is lost or times out.
    @discardableResult
    package func send(
        _ command: String, redactsReply: Bool = false, within time: Duration = answerTimeout,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> [String] {
        precondition(!command.utf8.contains { $0 < 0x20 }, "a command is one line")
        let stream = reader.stream
        let timeout = Timer(on: stream.loop, after: time) { stream.fail(.timedOut) }
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
            // Reports only the command's name, because its arguments may contain a key.
            let words = reply.last ?? "nothing"
            throw TorError(
                "tor rejected \(command.split(separator: " ")[0]): \(redactsReply ? String(words.prefix(3)) : words)"
            )
        }
        return reply
    }

    /// Returns the next event, beginning with those in ``events``. Waits without a deadline.
    /// - Throws: `StreamError` when the connection closes.
    package func nextEvent(isolation: isolated (any Actor)? = #isolation) async throws -> String {
        if !events.isEmpty { return events.removeFirst() }
        while true {
            let line = try await reader.readLine()
            if line.hasPrefix("650") { return line }
        }
    }

    /// Closes the connection; a pending ``nextEvent(isolation:)`` throws.
    package func close() { reader.stream.fail(.closed) }

    private func keep(_ event: String) {
        if events.count == Self.maximumEvents { events.removeFirst() }
        events.append(event)
    }
}
