// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import Settings

/// Checks of credential files, for `tocsin check`.
enum CredentialCheck {
    /// A certificate that expires within this number of seconds is a warning.
    static let expiryNotice: Int64 = 30 * 86_400

    /// Checks that the node's user can read a file that only its owner can read. `nil` if it can.
    /// - Parameters:
    ///   - mode: the file's mode.
    ///   - nodeUser: the user that runs the node.
    static func owner(_ file: String, owner: uid_t, mode: mode_t, nodeUser: uid_t) -> Finding? {
        // A service manager or a container runtime gives the node files of root that others may read, too.
        guard owner != nodeUser, mode & 0o077 == 0 else { return nil }
        // Root can read every file. It may also check the configuration of a node that runs as another user.
        guard nodeUser != 0 else { return nil }
        return Finding(
            .credentials, file, .failed,
            "belongs to \(UserName.of(owner)), but the node runs as \(UserName.of(nodeUser)); run: "
                + "chown \(UserName.forCommands(nodeUser)) \(file)")
    }

    /// Compares `key_id` with the key id that Apple puts in the name of the key file. `nil` if they do not differ.
    static func fileName(_ file: String, keyID: String) -> Finding? {
        guard let id = AppleKeyName.keyID(in: file), id != keyID else { return nil }
        return Finding(
            .credentials, file, .warning,
            "its name contains the key id \(id), but key_id is \(keyID): correct key_id, unless the file was renamed")
    }

    /// Checks expiry, app and environment of a push certificate.
    /// - Parameter now: Unix time in seconds.
    static func certificate(_ file: String, _ facts: CertificateFacts, topic: String, now: Int64) -> [Finding] {
        func finding(_ grade: Finding.Grade, _ text: String) -> Finding { Finding(.credentials, file, grade, text) }
        let renewal = "create a new one at developer.apple.com and replace the file; no restart is needed"
        let end = Format.expiry(facts.notAfter, at: now)
        var findings: [Finding] = []
        if facts.notAfter <= now {
            findings.append(finding(.failed, "\(end): \(renewal)"))
        } else if facts.notBefore > now {
            let start = Format.date(facts.notBefore)
            findings.append(finding(.failed, "is not valid before \(start): check this machine's clock"))
        } else if facts.notAfter - now <= expiryNotice {
            findings.append(finding(.warning, "\(end): \(renewal)"))
        } else {
            findings.append(finding(.ok, "APNs certificate with its key; \(end)"))
        }
        if let certified = facts.topic, certified != topic {
            findings.append(
                finding(
                    .failed,
                    "is for the app \(certified), but topic is \(topic): correct topic, or use a certificate for it"))
        }
        if facts.environment == .development {
            findings.append(
                finding(
                    .warning,
                    "is for Apple's development environment only: App Store builds get no notifications. Create"
                        + " a certificate of the type “Apple Push Notification service SSL (Sandbox & Production)”"))
        }
        return findings
    }

    /// Finds an earlier app with the same topic: usually a copied table that was not changed. `nil` if there is none.
    /// - Parameter earlier: the topics of the apps before, in order.
    static func sharedTopic(
        _ entry: (app: String, topic: String), _ earlier: [(app: String, topic: String)]
    ) -> Finding? {
        guard let first = earlier.first(where: { $0.topic == entry.topic }) else { return nil }
        return Finding(
            .credentials, "\(entry.app)/apns", .warning,
            "has the same topic as \(first.app) (\(entry.topic)): was the table copied and not changed?")
    }
}
