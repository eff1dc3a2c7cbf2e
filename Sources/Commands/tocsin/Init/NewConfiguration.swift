// SPDX-License-Identifier: Apache-2.0

import TNP
import Tor

/// A configuration to be written to a file, with comments for the operator.
struct NewConfiguration: Equatable {
    /// The credential for APNs.
    enum AppleCredential: Equatable {
        case key(file: String, keyID: String, teamID: String)
        case certificate(file: String, passwordFile: String?)
    }

    var template: AppTemplate
    /// The app's name in the node.
    var name: String
    /// The credential for APNs; `nil` to serve no iPhones.
    var apple: AppleCredential?
    /// The bundle id of the iOS app.
    var topic: String
    /// The credential for FCM; `nil` to serve no Android phones.
    var serviceAccountFile: String?
    /// The payload format; `nil` for that of the template.
    var format: EnvelopeFormat?
    /// Whom push servers may contact; `nil` to serve no Web Push subscriptions.
    var webContact: String?
    /// The address of the node that delivers for this one; `nil` if this node has credentials.
    var upstream: String?
    /// The node's state directory.
    var state: String
    var hasHTTPEndpoint = true
    var hasSpool = false
    var hasHandles = false
    var hasAdminPort = false
    /// Whether `tocsin-tor.service` runs the node's tor.
    var hasTorService = false
    /// The comment lines at the top of the file.
    var headerComment: [String]

    /// The content of the file.
    var text: String {
        var parts = [
            headerComment.map { "# \($0)" }, ["[node]", TOMLLine.string("state", state)], listen,
        ]
        if hasTorService {
            parts.append([
                "[tor]",
                TOMLLine.noted(
                    TOMLLine.string("run_by", TorSettings.Runner.service.rawValue),
                    "tor, if installed, runs as a user of its own: tocsin-tor.service"),
            ])
        }
        if hasHTTPEndpoint || hasSpool {
            let mark = hasSpool ? "" : "# "
            parts.append([
                TOMLLine.noted(
                    "\(mark)[spool]", "\"success\" may then also mean \"stored\": the node retries until delivery"),
                TOMLLine.noted(
                    "\(mark)enabled = true", "without it, Bisq 1 and Haveno lose notifications that get 503"),
            ])
        }
        if hasHandles {
            parts.append(["[handles]", TOMLLine.noted("enabled = true", "phones may register handles")])
        }
        parts.append([
            "[[app]]", TOMLLine.string("name", name),
            TOMLLine.noted(TOMLLine.string("format", format?.rawValue ?? template.format.value), template.format.note),
        ])
        if let apple { parts.append(appleTable(apple)) }
        if let serviceAccountFile {
            parts.append(
                ["[app.fcm]", TOMLLine.string("service_account_file", serviceAccountFile)]
                    + template.fcmLines(hasMagic: hasMagic))
        }
        if let webContact {
            parts.append([
                "[app.web]", TOMLLine.noted(TOMLLine.string("contact", webContact), "each push server sees it"),
            ])
        }
        if let upstream { parts.append(upstreamTable(upstream)) }
        return parts.map { $0.joined(separator: "\n") }.joined(separator: "\n\n") + "\n"
    }

    /// Whether the app's notifications begin with a magic.
    private var hasMagic: Bool { (format?.rawValue ?? template.format.value) == EnvelopeFormat.pipe.rawValue }

    private var listen: [String] {
        let http = TOMLLine.string("http", "on")
        var lines = [
            "[listen]", TOMLLine.noted(TOMLLine.string("tnp", "on"), template.endpointNotes.tnp),
            TOMLLine.noted(hasHTTPEndpoint ? http : "# \(http)", template.endpointNotes.http),
        ]
        if hasAdminPort {
            lines.append(
                TOMLLine.noted(
                    TOMLLine.string("admin", "127.0.0.1:7079"), "dashboard, metrics and health, for this machine only")
            )
        }
        return lines
    }

    private func upstreamTable(_ address: String) -> [String] {
        let isOnion = address.lowercased().contains(".onion")
        return ["[app.upstream]", TOMLLine.string("node", address)]
            + (isOnion ? [] : [TOMLLine.noted("direct = true", "without tor: on this machine or on a private link")])
            + template.upstreamLines
    }

    private func appleTable(_ credential: AppleCredential) -> [String] {
        var lines = ["[app.apns]", TOMLLine.string("topic", topic)]
        switch credential {
        case .key(let file, let keyID, let teamID):
            lines += [
                TOMLLine.string("key_file", file), TOMLLine.string("key_id", keyID),
                TOMLLine.string("team_id", teamID),
            ]
            if template == .bisq1 {
                lines += [
                    "# Or the certificate of today's relay, instead of the three keys above:",
                    "# certificate_file = \"/etc/tocsin/apns.p12\"",
                    "# certificate_password_file = \"/etc/tocsin/apns.password\"",
                ]
            }
        case .certificate(let file, let passwordFile):
            lines.append(TOMLLine.string("certificate_file", file))
            if let passwordFile { lines.append(TOMLLine.string("certificate_password_file", passwordFile)) }
        }
        return lines + template.apnsLines(hasMagic: hasMagic)
    }

    /// The files with secrets that the configuration names.
    var secretFiles: [String] {
        var files: [String] = []
        _ = renamingSecrets { file in
            files.append(file)
            return file
        }
        return files
    }

    /// A copy with other names for the files with secrets.
    func renamingSecrets(_ rename: (String) throws -> String) rethrows -> NewConfiguration {
        var new = self
        switch apple {
        case .key(let file, let keyID, let teamID)?:
            new.apple = .key(file: try rename(file), keyID: keyID, teamID: teamID)
        case .certificate(let file, let passwordFile)?:
            new.apple = .certificate(file: try rename(file), passwordFile: try passwordFile.map(rename))
        case nil: break
        }
        new.serviceAccountFile = try serviceAccountFile.map(rename)
        return new
    }
}
