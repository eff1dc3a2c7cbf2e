// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import NodeConfiguration

/// What is to be said of credentials.
enum CredentialCheck {
    /// From how many seconds before its end a certificate is worth a word.
    static let soon: Int64 = 30 * 86_400

    /// Whether the node's user can read a file that only its owner may read. Nil: nothing to say.
    /// - Parameter nodeUser: who runs the node.
    static func owner(_ file: String, owner: uid_t, nodeUser: uid_t) -> Finding? {
        guard owner != nodeUser else { return nil }
        // Root may be looking after a node that runs as another user, and can read everything itself.
        guard nodeUser != 0 else { return nil }
        return Finding(
            .credentials, file, .failed,
            "belongs to \(UserName.of(owner)), but the node runs as \(UserName.of(nodeUser)): run: "
                + "chown \(UserName.forCommands(nodeUser)) \(file)")
    }

    /// Apple names its key files by their ids. Nil: the name says nothing else than the configuration.
    static func name(of file: String, keyID: String) -> Finding? {
        guard let id = AppleKeyName.keyID(in: file), id != keyID else { return nil }
        return Finding(
            .credentials, file, .warning,
            "its name says the key id \(id), and key_id is \(keyID): if nobody has renamed the file, correct key_id")
    }

    /// A push certificate: for this topic, and until when?
    /// - Parameter now: Unix time in seconds.
    static func certificate(_ file: String, _ facts: CertificateFacts, topic: String, now: Int64) -> [Finding] {
        var findings = [expiry(file, facts, now: now)]
        if let its = facts.topic, its != topic {
            findings.append(
                Finding(
                    .credentials, file, .failed,
                    "is for the app \(its), not for the topic \(topic): correct topic, or take that app's certificate"))
        }
        if facts.environment == .development {
            findings.append(
                Finding(
                    .credentials, file, .warning,
                    "is for Apple's development environment only: phones with the app from the store are not reached."
                        + " Make one of the kind “Apple Push Notification service SSL (Sandbox & Production)”"))
        }
        return findings
    }

    private static func expiry(_ file: String, _ facts: CertificateFacts, now: Int64) -> Finding {
        let renewal = "make a new one at developer.apple.com, and put it in its place: no restart is needed"
        let end = Format.end(facts.notAfter, at: now)
        if facts.notAfter <= now { return Finding(.credentials, file, .failed, "\(end): \(renewal)") }
        guard facts.notBefore <= now else {
            return Finding(
                .credentials, file, .failed,
                "begins on \(Format.date(facts.notBefore)) only: is this machine's clock right?")
        }
        if facts.notAfter - now <= soon { return Finding(.credentials, file, .warning, "\(end): \(renewal)") }
        return Finding(.credentials, file, .ok, "Apple's certificate and its key; \(end)")
    }

    /// Apps that ring the same app on phones: nearly always one that was copied and not changed.
    /// - Parameter topics: of each app with iPhones, in order.
    static func shared(_ topics: [(app: String, topic: String)]) -> [Finding] {
        var owners: [String: String] = [:]
        var findings: [Finding] = []
        for (app, topic) in topics {
            if let first = owners[topic] {
                findings.append(
                    Finding(
                        .credentials, "\(app)/apns", .warning,
                        "has the same topic as \(first), \(topic): was it copied and not changed?"))
            } else {
                owners[topic] = app
            }
        }
        return findings
    }
}
