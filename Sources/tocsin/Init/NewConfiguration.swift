// SPDX-License-Identifier: Apache-2.0

/// A configuration that is to be written, with comments for whoever reads it.
struct NewConfiguration: Equatable {
    /// How the node shows Apple who it is.
    enum AppleCredential: Equatable {
        case key(file: String, keyID: String, teamID: String)
        case certificate(file: String, passwordFile: String?)
    }

    var template: AppTemplate
    var name: String
    /// Nil: no iPhones.
    var apple: AppleCredential?
    /// Of the app for iPhones.
    var topic: String
    /// Nil: no Android phones.
    var serviceAccountFile: String?
    var state: String
    var hasHTTPEndpoint = true
    var hasSpool = false
    var hasAdminPort = false
    /// Comment lines at the top.
    var head: [String]

    /// The file's text.
    var text: String {
        var parts = [
            head.map { "# \($0)" }, ["[node]", TOMLLine.string("state", state)], listen,
        ]
        if hasHTTPEndpoint {
            let mark = hasSpool ? "" : "# "
            parts.append([
                TOMLLine.noted(
                    "\(mark)[spool]", "success then also means \"stored\": it is tried on until it is delivered"),
                TOMLLine.noted(
                    "\(mark)enabled = true", "without it, Bisq 1 and Haveno lose what is answered 429 or 503"),
            ])
        }
        parts.append([
            "[[app]]", TOMLLine.string("name", name),
            TOMLLine.noted(TOMLLine.string("format", template.format.value), template.format.note),
        ])
        if let apple { parts.append(appleTable(apple)) }
        if let serviceAccountFile {
            parts.append(
                ["[app.fcm]", TOMLLine.string("service_account_file", serviceAccountFile)] + template.googleLines)
        }
        return parts.map { $0.joined(separator: "\n") }.joined(separator: "\n\n") + "\n"
    }

    private var listen: [String] {
        let http = TOMLLine.string("http", "127.0.0.1:7080")
        var lines = [
            "[listen]", TOMLLine.noted(TOMLLine.string("tnp", "127.0.0.1:7077"), template.endpointNotes.tnp),
            TOMLLine.noted(hasHTTPEndpoint ? http : "# \(http)", template.endpointNotes.http),
        ]
        if hasAdminPort {
            lines.append(
                TOMLLine.noted(
                    TOMLLine.string("admin", "127.0.0.1:7079"), "dashboard, metrics and health, for this machine alone")
            )
        }
        return lines
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
                    "# Or the certificate of today's relay, in the place of the three:",
                    "# certificate_file = \"/etc/tocsin/apns.p12\"",
                    "# certificate_password_file = \"/etc/tocsin/apns.password\"",
                ]
            }
        case .certificate(let file, let passwordFile):
            lines.append(TOMLLine.string("certificate_file", file))
            if let passwordFile { lines.append(TOMLLine.string("certificate_password_file", passwordFile)) }
        }
        return lines + template.appleLines
    }

    /// The files with secrets that it names.
    var secretFiles: [String] {
        var files: [String] = []
        switch apple {
        case .key(let file, _, _)?: files.append(file)
        case .certificate(let file, let passwordFile)?: files += [file] + [passwordFile].compactMap(\.self)
        case nil: break
        }
        return files + [serviceAccountFile].compactMap(\.self)
    }

    /// The same with each file with a secret named otherwise.
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

extension NewConfiguration {
    /// The file that lies in Docs/examples; nil for an app of one's own.
    static func example(_ template: AppTemplate) -> NewConfiguration? {
        let head: [String]
        switch template {
        case .bisq1:
            head = [
                "A node for the phones of Bisq 1, in the place of today's relay. Put in your own file names, key_id and team_id; the",
                "files with secrets need mode 600. Docs/bisq.md says how to move over. More apps: more [[app]] tables, see the others.",
            ]
        case .haveno:
            head = [
                "A node for the phones of Haveno, which speaks as Bisq 1 does, under magics of its own. Haveno has no app in the stores",
                "that we know of: put in the bundle id of yours, your own file names, key_id and team_id; the files with secrets need",
                "mode 600.",
            ]
        case .bisqConnect:
            head = [
                "A node for the phones of Bisq Connect, whose notifications Bisq 2 sends. Put in your own file names, key_id and",
                "team_id; the files with secrets need mode 600. Docs/bisq.md says how to move over.",
            ]
        case .own: return nil
        }
        return NewConfiguration(
            template: template, name: template.name ?? "",
            apple: .key(
                file: "/etc/tocsin/AuthKey.p8", keyID: "ABCDE12345", teamID: "FGHIJ67890"),
            topic: template.topic ?? "org.example.haveno",
            serviceAccountFile: template == .bisqConnect
                ? "/etc/tocsin/firebase-connect.json" : "/etc/tocsin/firebase.json",
            state: "/var/lib/tocsin", hasSpool: true, hasAdminPort: true, head: head)
    }
}
