// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import NodeConfiguration
import Providers
import TNP

/// The values that `tocsin init` needs: from options of the command line, else from prompts or the defaults.
struct InitAnswers: ParsableArguments {
    @Option(help: "The app that the node serves: \(AppTemplate.allCases.map(\.rawValue).joined(separator: ", ")).")
    var app: AppTemplate?

    @Option(help: "The app's name in the node. Default: depends on --app.")
    var name: String?

    @Option(help: "The bundle id of the iOS app. Default: depends on --app.")
    var topic: String?

    @Option(help: "The file with Apple's key, .p8.")
    var keyFile: String?

    @Option(help: "The id of the key in --key-file. Default: taken from the file's name, if that is AuthKey_ID.p8.")
    var keyID: String?

    @Option(help: "The id of the team at Apple, for --key-file.")
    var teamID: String?

    @Option(help: "The file with Apple's certificate and its key, .p12; instead of --key-file.")
    var certificateFile: String?

    @Option(help: "The file with the certificate's password, if it has one.")
    var certificatePasswordFile: String?

    @Option(help: "The JSON file of the Firebase service account, for Android phones.")
    var serviceAccount: String?

    @Option(
        help: ArgumentHelp(
            "The onion address and port of the upstream node, which has the app's credentials; instead of credentials.",
            valueName: "address.onion:7077"))
    var upstream: String?

    @Option(help: "What the phones of your own app open: sealed (AES-GCM) or pipe, as with Bisq 1. Default: sealed.")
    var format: EnvelopeFormat?

    @Option(
        help: ArgumentHelp(
            "Also deliver to Web Push subscriptions (browsers, UnifiedPush); whom push servers may contact about the node.",
            valueName: "mailto:operator@example.org"))
    var webContact: String?

    @Flag(inversion: .prefixedNo, help: "Let phones register handles, so that a new device token needs no new pairing.")
    var handles: Bool?

    @Option(help: "The state directory, relative to --directory. Default: state; for /etc/tocsin: /var/lib/tocsin.")
    var state: String?

    @Flag(inversion: .prefixedNo, help: "Serve the HTTP API for today's desktops. Default: yes.")
    var http: Bool?

    @Flag(
        inversion: .prefixedNo,
        help: """
            Store notifications that cannot be delivered at once, because today's desktops do not resend them. \
            Default: yes with --http, else no.
            """)
    var spool: Bool?

    @Flag(
        inversion: .prefixedNo,
        help: "Serve dashboard, metrics and health checks, for this machine only. Default: yes.")
    var admin: Bool?

    /// The operator serves no iPhones.
    var withoutApple = false
    /// The operator serves no Android phones.
    var withoutGoogle = false
    /// The operator serves no Web Push subscriptions.
    var withoutWeb = false
    /// The certificate has no password.
    var withoutPassword = false

    /// The questions, in the order in which they are asked.
    enum Question: String, CaseIterable {
        // The raw value names the options that answer the question.
        case app = "--app"
        case name = "--name"
        case apple = "--key-file or --certificate-file"
        case keyID = "--key-id"
        case teamID = "--team-id"
        case password = "--certificate-password-file"
        case topic = "--topic"
        case google = "--service-account"
        case format = "--format"
        case web = "--web-contact"
        case handles = "--handles"
        case http = "--http"
        case spool = "--spool"
        case admin = "--admin"
        case state = "--state"
    }

    /// What is wrong with an answer, or with a combination of options.
    struct Problem: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    /// Checks that the options do not contradict each other.
    /// - Throws: ``Problem``.
    func check() throws(Problem) {
        if keyFile != nil, certificateFile != nil {
            throw Problem(description: "give --key-file or --certificate-file, not both")
        }
        if keyFile == nil, keyID != nil || teamID != nil {
            throw Problem(description: "--key-id and --team-id require --key-file")
        }
        if upstream != nil, keyFile != nil || certificateFile != nil || serviceAccount != nil {
            throw Problem(
                description: "give --upstream or credentials, not both; tocsin.toml can have both, see tocsin keys")
        }
        if upstream != nil, topic != nil {
            throw Problem(description: "--topic belongs to credentials; an upstream node has its own")
        }
        if let app, app != .own, let format, format.rawValue != app.format.value {
            throw Problem(
                description:
                    "--format \(format.rawValue) is for --app own: the phones of \(app.rawValue) open \(app.format.value)"
            )
        }
        if certificateFile == nil, certificatePasswordFile != nil {
            throw Problem(description: "--certificate-password-file requires --certificate-file")
        }
    }

    /// The next question that has to be answered; `nil` if none is left.
    var nextQuestion: Question? { Question.allCases.first(where: isOpen) }

    private func isOpen(_ question: Question) -> Bool {
        switch question {
        case .app: app == nil
        case .name: name == nil && app?.name == nil
        case .apple: keyFile == nil && certificateFile == nil && !withoutApple && upstream == nil
        case .keyID: keyFile != nil && keyID == nil
        case .teamID: keyFile != nil && teamID == nil
        case .password: certificateFile != nil && certificatePasswordFile == nil && !withoutPassword
        case .topic: hasApple && topic == nil && app?.topic == nil
        case .google: serviceAccount == nil && !withoutGoogle && upstream == nil
        // Bisq's and Haveno's apps have a fixed format, and support neither Web Push nor handles.
        case .format: format == nil && app == .own
        case .web: webContact == nil && !withoutWeb && app == .own && upstream == nil
        case .handles: handles == nil && app == .own
        case .http: http == nil
        case .spool: http == true && spool == nil
        case .admin: admin == nil
        case .state: state == nil
        }
    }

    private var hasApple: Bool { keyFile != nil || certificateFile != nil }

    /// The text of a prompt.
    func prompt(for question: Question) -> String {
        switch question {
        case .app:
            "Which app's phones will the node serve?\n"
                + AppTemplate.allCases.enumerated().map {
                    "  \($0.offset + 1)  \(Terminal.padded($0.element.rawValue, 14)) \($0.element.summary)"
                }
                .joined(separator: "\n") + "\nApp, its number or its name"
        case .name: "The app's name, which senders may specify"
        case .apple: "File with Apple's key (.p8) or certificate (.p12); empty for no iPhones"
        case .keyID: "Key id, 10 letters and digits (developer.apple.com, Keys)"
        case .teamID: "Team id, 10 letters and digits (developer.apple.com, Membership details)"
        case .password: "File with the certificate's password; empty for none"
        case .topic: "Bundle id of the iOS app (developer.apple.com, Identifiers)"
        case .google:
            "JSON file of the service account (Firebase, Project settings, Service accounts); empty for no Android phones"
        case .format: "What the phones open: sealed (AES-GCM), or pipe as with Bisq 1"
        case .web:
            "Web Push, for browsers and phones without Google: whom push servers may contact, mailto: or https:; empty for none"
        case .handles: "Let phones register handles, so that a new device token needs no new pairing? (yes or no)"
        case .http: "Open the HTTP API for today's desktops? (yes or no)"
        case .spool:
            "Bisq 1 and Haveno do not resend a notification that cannot be delivered at once (429, 503). The node can store it"
                + " encrypted on its disk and retry. Store notifications? (yes or no)"
        case .admin: "Open the admin port, for this machine only: dashboard, metrics, health? (yes or no)"
        case .state: "The node's state directory"
        }
    }

    /// The default answer; `nil` if an answer is required.
    /// - Parameter state: the default state directory.
    func defaultAnswer(to question: Question, state: String) -> String? {
        switch question {
        case .app, .name, .teamID, .topic: nil
        case .apple, .google, .web, .password: ""
        case .format: EnvelopeFormat.sealed.rawValue
        case .handles: "no"
        case .keyID: keyFile.flatMap { AppleKeyName.keyID(in: $0) }
        case .http, .spool, .admin: "yes"
        case .state: state
        }
    }

    /// Records an answer. The caller has already replaced an empty answer by the default.
    /// - Throws: ``Problem`` if the answer is invalid.
    mutating func record(_ answer: String, to question: Question) throws(Problem) {
        switch question {
        case .app:
            let numbered = AppTemplate.allCases.enumerated().first { "\($0.offset + 1)" == answer }?.element
            guard let template = numbered ?? AppTemplate(rawValue: answer) else {
                throw Problem(
                    description: "enter a number, or one of: "
                        + AppTemplate.allCases.map(\.rawValue).joined(separator: ", "))
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
        case .format:
            guard let known = EnvelopeFormat(rawValue: answer) else {
                throw Problem(description: "enter sealed or pipe")
            }
            format = known
        case .web: if answer.isEmpty { withoutWeb = true } else { webContact = answer }
        case .handles: handles = try Self.decision(answer)
        case .http: http = try Self.decision(answer)
        case .spool: spool = try Self.decision(answer)
        case .admin: admin = try Self.decision(answer)
        case .state: state = answer
        }
    }

    /// The kind of credential file that an answer names; `nil` if it names none.
    func fileUse(of answer: String, to question: Question) -> CredentialFileUse? {
        switch question {
        case _ where answer.isEmpty: nil
        case .apple: answer.hasSuffix(".p12") || answer.hasSuffix(".pfx") ? .appleCertificate : .appleKey
        case .google: .googleAccount
        default: nil
        }
    }

    /// Answers all remaining questions with their defaults.
    /// - Returns: the required options that are missing.
    mutating func useDefaults(state: String) -> [String] {
        var missing: [String] = []
        for question in Question.allCases where isOpen(question) {
            if let usual = defaultAnswer(to: question, state: state), (try? record(usual, to: question)) != nil {
                continue
            }
            missing.append(question.rawValue)
        }
        if withoutApple, withoutGoogle, webContact == nil {
            missing.append("--key-file or --certificate-file or --service-account or --web-contact or --upstream")
        }
        return missing
    }

    private static func identifier(_ text: String) throws(Problem) -> String {
        guard AppleKeyName.isIdentifier(text) else { throw Problem(description: "enter 10 letters and digits") }
        return text
    }

    private static func decision(_ text: String) throws(Problem) -> Bool {
        switch text.lowercased() {
        case "yes", "y": true
        case "no", "n": false
        default: throw Problem(description: "enter yes or no")
        }
    }

    /// The configuration for these answers.
    /// - Throws: ``Problem`` if an answer is missing, or the node would serve no phones.
    func configuration() throws(Problem) -> NewConfiguration {
        try check()
        guard nextQuestion == nil, let app, let name = name ?? app.name, let state else {
            throw Problem(description: "an answer is missing")
        }
        guard hasApple || serviceAccount != nil || webContact != nil || upstream != nil else {
            throw Problem(
                description:
                    "no phones to serve: give Apple's key or certificate, a service account, --web-contact or --upstream"
            )
        }
        if topic != nil, !hasApple {
            throw Problem(
                description: "--topic requires --key-file or --certificate-file: without one, no iPhone is served")
        }
        var apple: NewConfiguration.AppleCredential?
        if let keyFile, let keyID, let teamID {
            apple = .key(file: keyFile, keyID: keyID, teamID: teamID)
        } else if let certificateFile {
            apple = .certificate(file: certificateFile, passwordFile: certificatePasswordFile)
        }
        return NewConfiguration(
            template: app, name: name, apple: apple, topic: topic ?? app.topic ?? "",
            serviceAccountFile: serviceAccount, format: format, webContact: webContact, upstream: upstream,
            state: state, hasHTTPEndpoint: http ?? true, hasSpool: spool ?? false, hasHandles: handles ?? false,
            hasAdminPort: admin ?? true,
            headerComment: [
                "A node for \(app.summary). Written by tocsin init.",
                "All keys with their defaults: tocsin keys. After a change: tocsin check, then kill -HUP, or a restart.",
                "Secrets are in separate files of mode 600; this file only names them.",
            ])
    }
}
