// SPDX-License-Identifier: Apache-2.0

import Confinement

/// What the node asks of its supervisor. The node passes a file descriptor with each command (`SCM_RIGHTS`).
package enum SupervisorCommand: Equatable {
    /// Start a key holder that serves this connection.
    case startHolder
    /// Read refused system calls from this descriptor, and log them.
    case watch(logsJSON: Bool)
    /// Start a resolver that serves this connection.
    case startResolver

    /// The largest command or report, in bytes.
    static let maximumBytes = 256

    private enum Kind: UInt8 {
        case startHolder = 1
        case watch
        case startResolver
    }

    /// The encoded command.
    var bytes: [UInt8] {
        switch self {
        case .startHolder: [Kind.startHolder.rawValue]
        case .watch(let logsJSON): [Kind.watch.rawValue, logsJSON ? 1 : 0]
        case .startResolver: [Kind.startResolver.rawValue]
        }
    }

    /// Decodes a command; `nil` if the bytes are none.
    init?(_ bytes: [UInt8]) {
        switch bytes.first.flatMap(Kind.init(rawValue:)) {
        case .startHolder: self = .startHolder
        case .watch: self = .watch(logsJSON: bytes.last == 1)
        case .startResolver: self = .startResolver
        case nil: return nil
        }
    }
}

extension Supervisor.Report {
    private enum Kind: UInt8 {
        case refused = 101
        case holderEnded
        case resolverEnded
    }

    /// The encoded report.
    var bytes: [UInt8] {
        switch self {
        case .refused(let call):
            [Kind.refused.rawValue] + withUnsafeBytes(of: call.thread.bigEndian) { Array($0) } + Array(call.name.utf8)
        case .holderEnded(let text): [Kind.holderEnded.rawValue] + Array(text.utf8)
        case .resolverEnded(let text): [Kind.resolverEnded.rawValue] + Array(text.utf8)
        }
    }

    /// Decodes a report; `nil` if the bytes are none.
    init?(_ bytes: [UInt8]) {
        switch bytes.first.flatMap(Kind.init(rawValue:)) {
        case .refused:
            guard bytes.count > 5 else { return nil }
            let thread = bytes[1..<5].reduce(UInt32(0)) { $0 << 8 | UInt32(clamping: $1) }
            self = .refused(
                RefusedCall(name: String(decoding: bytes[5...], as: UTF8.self), thread: Int32(bitPattern: thread)))
        case .holderEnded: self = .holderEnded(String(decoding: bytes.dropFirst(), as: UTF8.self))
        case .resolverEnded: self = .resolverEnded(String(decoding: bytes.dropFirst(), as: UTF8.self))
        case nil: return nil
        }
    }
}
