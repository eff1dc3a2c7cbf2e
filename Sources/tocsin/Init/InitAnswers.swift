// SPDX-License-Identifier: Apache-2.0

import Console
import Diagnostics
import TocsinNode

/// What `tocsin init` has to know: what was said at the command line, then what is answered, then what is usual.
struct InitAnswers: Equatable {
    var app: AppTemplate?
    var name: String?
    var topic: String?
    var keyFile: String?
    var keyID: String?
    var teamID: String?
    var certificateFile: String?
    var certificatePasswordFile: String?
    var serviceAccount: String?
    var state: String?
    var http: Bool?
    var admin: Bool?
    var spool: Bool?
    /// That there are no iPhones, no Android phones, no password was the answer.
    var withoutApple = false
    var withoutGoogle = false
    var withoutPassword = false

    /// What can be asked, in this order.
    enum Question: CaseIterable {
        case app, name, apple, keyID, teamID, password, topic, google, http, spool, admin, state
    }

    /// What is wrong with an answer, or with the flags together.
    struct Problem: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    /// - Throws: ``Problem``, where what was said contradicts itself.
    func check() throws(Problem) {
        if keyFile != nil, certificateFile != nil {
            throw Problem(description: "give --key-file or --certificate-file, not both")
        }
        if keyFile == nil, keyID != nil || teamID != nil {
            throw Problem(description: "--key-id and --team-id belong to --key-file")
        }
        if certificateFile == nil, certificatePasswordFile != nil {
            throw Problem(description: "--certificate-password-file belongs to --certificate-file")
        }
    }

    /// What is not known yet and has to be, with what is said before.
    var open: Question? { Question.allCases.first(where: isOpen) }

    private func isOpen(_ question: Question) -> Bool {
        switch question {
        case .app: app == nil
        case .name: name == nil && app?.name == nil
        case .apple: keyFile == nil && certificateFile == nil && !withoutApple
        case .keyID: keyFile != nil && keyID == nil
        case .teamID: keyFile != nil && teamID == nil
        case .password: certificateFile != nil && certificatePasswordFile == nil && !withoutPassword
        case .topic: hasApple && topic == nil && app?.topic == nil
        case .google: serviceAccount == nil && !withoutGoogle
        case .http: http == nil
        case .spool: http == true && spool == nil
        case .admin: admin == nil
        case .state: state == nil
        }
    }

    private var hasApple: Bool { keyFile != nil || certificateFile != nil }

    /// The words for a person.
    func words(for question: Question) -> String {
        switch question {
        case .app:
            "Whose phones shall it ring?\n"
                + AppTemplate.allCases.map { "  \(Terminal.padded($0.rawValue, 14)) \($0.about)" }
                .joined(separator: "\n") + "\nApp"
        case .name: "A name for the app, as senders will call it"
        case .apple: "Apple's key (.p8) or certificate (.p12); empty: no iPhones"
        case .keyID: "The key's id, 10 letters and digits (developer.apple.com, Keys)"
        case .teamID: "The team's id, 10 letters and digits (developer.apple.com, Membership details)"
        case .password: "The file with the certificate's password; empty: it has none"
        case .topic: "The bundle id of the app for iPhones (developer.apple.com, Identifiers)"
        case .google:
            "The service account's JSON file (Firebase, Project settings, Service accounts); empty: no Android phones"
        case .http: "Open the HTTP endpoint for the desktops of today? (yes or no)"
        case .spool:
            "Bisq 1 and Haveno never send again what cannot be delivered at once (429, 503): it is lost, unless the node stores"
                + " it on its disk, sealed, and tries on. Store it? (yes or no)"
        case .admin: "Open the admin port, for this machine alone: dashboard, metrics, health? (yes or no)"
        case .state: "The directory for what the node keeps"
        }
    }

    /// What an empty answer means; nil: there has to be one.
    /// - Parameter state: where the node usually keeps what it has.
    func usual(_ question: Question, state: String) -> String? {
        switch question {
        case .app, .name, .teamID, .topic: nil
        case .apple, .google, .password: ""
        case .keyID: keyFile.flatMap { AppleKeyName.keyID(in: $0) }
        case .http: "yes"
        case .spool: "yes"
        case .admin: "yes"
        case .state: state
        }
    }

    /// Takes an answer; the usual one stands for an empty one.
    /// - Throws: ``Problem``, where it is none.
    mutating func take(_ answer: String, to question: Question) throws(Problem) {
        switch question {
        case .app:
            guard let template = AppTemplate(rawValue: answer) else {
                throw Problem(
                    description: "one of: " + AppTemplate.allCases.map(\.rawValue).joined(separator: ", "))
            }
            app = template
        case .name: name = answer
        case .apple:
            if answer.isEmpty {
                withoutApple = true
            } else if answer.hasSuffix(".p12") || answer.hasSuffix(".pfx") {
                certificateFile = answer
            } else {
                keyFile = answer
            }
        case .keyID: keyID = try Self.identifier(answer)
        case .teamID: teamID = try Self.identifier(answer)
        case .password: if answer.isEmpty { withoutPassword = true } else { certificatePasswordFile = answer }
        case .topic: topic = answer
        case .google: if answer.isEmpty { withoutGoogle = true } else { serviceAccount = answer }
        case .http: http = try Self.decision(answer)
        case .spool: spool = try Self.decision(answer)
        case .admin: admin = try Self.decision(answer)
        case .state: state = answer
        }
    }

    /// Takes what is usual for all that is open.
    /// - Returns: the flags of what has to be said and was not.
    mutating func takeUsual(state: String) -> [String] {
        var missing: [String] = []
        for question in Question.allCases where isOpen(question) {
            if let usual = usual(question, state: state), (try? take(usual, to: question)) != nil { continue }
            missing.append(Self.flag(question))
        }
        if withoutApple, withoutGoogle {
            missing.append("--key-file or --certificate-file or --service-account")
        }
        return missing
    }

    private static func flag(_ question: Question) -> String {
        switch question {
        case .app: "--app"
        case .name: "--name"
        case .apple: "--key-file or --certificate-file"
        case .keyID: "--key-id"
        case .teamID: "--team-id"
        case .password: "--certificate-password-file"
        case .topic: "--topic"
        case .google: "--service-account"
        case .http: "--http"
        case .spool: "--spool"
        case .admin: "--admin"
        case .state: "--state"
        }
    }

    private static func identifier(_ text: String) throws(Problem) -> String {
        guard AppleKeyName.isIdentifier(text) else {
            throw Problem(description: "10 letters and digits")
        }
        return text
    }

    private static func decision(_ text: String) throws(Problem) -> Bool {
        switch text.lowercased() {
        case "yes", "y": true
        case "no", "n": false
        default: throw Problem(description: "yes or no")
        }
    }

    /// The configuration of these answers.
    /// - Throws: ``Problem``, where something is still open or there would be no phone.
    func configuration() throws(Problem) -> NewConfiguration {
        try check()
        guard open == nil, let app, let name = name ?? app.name, let state else {
            throw Problem(description: "something is missing")
        }
        guard hasApple || serviceAccount != nil else {
            throw Problem(description: "there would be no phone: give Apple's key or certificate, or a service account")
        }
        var apple: NewConfiguration.AppleCredential?
        if let keyFile, let keyID, let teamID {
            apple = .key(file: keyFile, keyID: keyID, teamID: teamID)
        } else if let certificateFile {
            apple = .certificate(file: certificateFile, passwordFile: certificatePasswordFile)
        }
        return NewConfiguration(
            template: app, name: name, apple: apple, topic: topic ?? app.topic ?? "",
            serviceAccountFile: serviceAccount, state: state, hasHTTPEndpoint: http ?? true, hasSpool: spool ?? false,
            hasAdminPort: admin ?? true,
            head: [
                "A node for \(app.about). Written by tocsin init.",
                "All keys with their defaults: tocsin keys. After a change: tocsin check, then kill -HUP, or a restart.",
                "Secrets are in files of their own, of mode 600; here are only their names.",
            ])
    }
}
