// SPDX-License-Identifier: Apache-2.0

import TNP

/// What hostile circuits of a kind did, and how the node answered.
struct HostileStatistics {
    /// An outcome with its reason.
    struct Answer: Hashable {
        let kind: Outcome.Kind
        let reason: Reason
    }

    var circuits = 0
    /// Streams that were opened.
    var connections = 0
    /// Streams that could not be opened.
    var failedConnections = 0
    /// Streams that the node closed.
    var closed = 0
    /// Frames sent, without HELLO.
    var frames = 0
    var answers: [Answer: Int] = [:]
    var goAways: [GoAway.Code: Int] = [:]
    /// Statuses of HTTP responses.
    var statuses: [String: Int] = [:]
    /// Streams on which the node sent invalid TNP.
    var unreadable = 0

    static func += (sum: inout Self, other: Self) {
        sum.circuits += other.circuits
        sum.connections += other.connections
        sum.failedConnections += other.failedConnections
        sum.closed += other.closed
        sum.frames += other.frames
        sum.answers.merge(other.answers, uniquingKeysWith: +)
        sum.goAways.merge(other.goAways, uniquingKeysWith: +)
        sum.statuses.merge(other.statuses, uniquingKeysWith: +)
        sum.unreadable += other.unreadable
    }

    /// Counts a message of the node.
    mutating func count(_ message: Message) {
        switch message {
        case .result(let result):
            answers[Answer(kind: result.outcome.kind, reason: result.outcome.reason), default: 0] += 1
        case .goAway(let goAway): goAways[goAway.code, default: 0] += 1
        default: break
        }
    }

    /// The node's answers as text, most frequent first, e.g. `RETRY 209 × 1200, GOAWAY 6 × 3`.
    var summary: String {
        let answers = self.answers.sorted { ($0.value, $1.key.reason.rawValue) > ($1.value, $0.key.reason.rawValue) }
            .map { answer, count in
                let reason = answer.reason == .none ? "" : " \(answer.reason.rawValue)"
                return "\(answer.kind.name.uppercased())\(reason) × \(count)"
            }
        let goAways = self.goAways.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "GOAWAY \($0.key.rawValue) × \($0.value)" }
        let statuses = self.statuses.sorted { $0.key < $1.key }.map { "HTTP \($0.key) × \($0.value)" }
        return (answers + goAways + statuses).joined(separator: ", ")
    }
}
