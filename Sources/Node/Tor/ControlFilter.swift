// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Passes only the commands that a node may give to a tor that runs as another user (``TorSettings/Runner/service``).
///
/// Access to the whole control port is as good as being tor's user: SETCONF (control-spec) can make tor open the file
/// of an onion's key to its group, or copy it into its log. The allowed commands only show tor's state.
struct ControlFilter {
    /// Asks for tor's process id.
    static let pid = "GETINFO process/pid"
    /// Asks for the progress of tor's bootstrap.
    static let bootstrap = "GETINFO status/bootstrap-phase"
    /// Asks for the process id and the progress of the bootstrap.
    static let state = "GETINFO process/pid status/bootstrap-phase"
    /// Asks for the methods of authentication.
    static let protocolInfo = "PROTOCOLINFO 1"
    /// Subscribes to all events that a node handles.
    static let events = "SETEVENTS \(TorEvent.names) \(TorLogLine.events)"

    /// The reply to a command that is not allowed.
    private static let refusal = "510 Command filtered"

    private static let commands: Set = [pid, bootstrap, state, protocolInfo, events]
    /// The commands of ``CookieAuthentication``, each with a number in hexadecimal digits.
    private static let logins = ["AUTHCHALLENGE SAFECOOKIE ", "AUTHENTICATE "]
    private static let maximumDigits = 64
    /// Maximum number of lines per connection. A node needs fewer, because it learns of changes from tor's events.
    static let maximumLines = 20

    private var splitter = LineSplitter()
    private var lines = 0
    /// The login commands that are still allowed, each once: tor keeps memory for each repetition.
    private var openLogins = Set(logins)
    /// Whether the connection must end.
    private(set) var isExhausted = false

    /// Filters the next bytes that the node has sent.
    /// - Returns: the commands to pass to tor, and the replies to the node for all others.
    mutating func filter(_ bytes: some Sequence<UInt8>) -> (forTor: [UInt8], forNode: [UInt8]) {
        var output: (forTor: [UInt8], forNode: [UInt8]) = ([], [])
        for line in splitter.lines(of: bytes) {
            lines += 1
            isExhausted = isExhausted || lines > Self.maximumLines
            guard !isExhausted else { break }
            if allows(line) {
                output.forTor += Array("\(line)\r\n".utf8)
            } else {
                output.forNode += Array("\(Self.refusal)\r\n".utf8)
            }
        }
        return output
    }

    /// Whether the node may give the command in this line, which has no line end.
    private mutating func allows(_ line: String) -> Bool {
        // Swift's comparison treats some characters beyond ASCII as equal to ASCII letters.
        guard line.utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        if let login = Self.login(line) { return openLogins.remove(login) != nil }
        return Self.commands.contains(line)
    }

    /// The login command in this line; `nil` if it is none.
    private static func login(_ line: String) -> String? {
        logins.first { login in
            let digits = line.utf8.dropFirst(login.utf8.count)
            return line.hasPrefix(login) && (1...maximumDigits).contains(digits.count)
                && digits.allSatisfy { Hex.isDigit($0) }
        }
    }
}
