// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Takes from what a node says the commands that it may give to a tor that runs as another user (``TorSettings/Runner/service``).
///
/// Whoever has tor's whole control port has what tor's user has: with SETCONF (control-spec), tor can be made to open the
/// file of an onion's key to its group, or to repeat it in its log. These commands only show tor's state.
struct ControlFilter {
    /// Asks which process tor is.
    static let pid = "GETINFO process/pid"
    /// Asks how far tor's bootstrap is.
    static let bootstrap = "GETINFO status/bootstrap-phase"
    /// Asks both.
    static let state = "GETINFO process/pid status/bootstrap-phase"
    /// Asks how to log in.
    static let protocolInfo = "PROTOCOLINFO 1"
    /// Subscribes to all events that a node handles.
    static let events = "SETEVENTS \(TorEvent.names) \(TorLogLine.events)"

    /// The reply to any other command.
    private static let refusal = "510 Command filtered"

    private static let commands: Set = [pid, bootstrap, state, protocolInfo, events]
    /// The commands of ``CookieAuthentication``, each with a number in hexadecimal digits.
    private static let logins = ["AUTHCHALLENGE SAFECOOKIE ", "AUTHENTICATE "]
    private static let maximumDigits = 64
    /// More lines than a node needs: it follows tor by its events.
    static let maximumLines = 20

    private var splitter = LineSplitter()
    private var lines = 0
    /// tor keeps memory of each repeated login.
    private var openLogins = Set(logins)
    /// Whether the connection must end.
    private(set) var isExhausted = false

    /// Filters the next bytes that the node has sent.
    /// - Returns: the commands for tor, and the replies to all others.
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
        // To Swift, some letters beyond ASCII equal letters of ASCII.
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
