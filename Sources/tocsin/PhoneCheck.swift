import ArgumentParser
import EventLoop
import TNP
import TocsinClient
import TocsinNode

/// Rings the operator's own phone through the running node, as a sender would.
struct PhoneCheck {
    private let pairing: PairingToken
    private let door: (node: Endpoint, proxy: Endpoint?)?
    private let loop: EventLoop

    /// For all of it: a way through tor, a proof of work, and what the node tries.
    private static let patience = Duration.seconds(90)

    /// - Parameter door: where the node is reached; nil: nobody knows.
    init(_ pairing: PairingToken, _ door: (node: Endpoint, proxy: Endpoint?)?, on loop: EventLoop) {
        self.pairing = pairing
        self.door = door
        self.loop = loop
    }

    /// The pairing token of the command line, or says what is wrong with it and ends.
    static func pairing(_ argument: String) throws -> PairingToken {
        do {
            return try PairingToken(PairingArgument.oneLine(PairingArgument.text(argument)))
        } catch {
            throw fail("\(error)", ExitStatus.usage)
        }
    }

    func finding() async -> Finding {
        guard let door else {
            return finding(.failed, "not rung: the node's onion is not known, and it takes no connection without tor")
        }
        let notification = BisqNotification(
            kind: .trade, title: "Tocsin", message: "The node reaches this phone.",
            sentDate: .unixMillisecondsNow)
        let envelope: Envelope
        do {
            envelope = try Sealer(pairing).seal(notification.json, ttl: 600)
        } catch {
            return finding(.failed, "\(error)")
        }
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        let client = TocsinClient(
            TocsinClient.Options(node: door.node, proxy: door.proxy.map { .socks5($0, label) }), on: loop)
        defer { Task { await client.close() } }
        do {
            return Self.finding(
                on: try await client.submit(envelope, patience: Self.patience), subject: subject)
        } catch {
            return finding(.failed, "not rung: \(error). Does the node run (tocsin run)?")
        }
    }

    private var subject: String { pairing.magic.rawValue }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.phone, subject, grade, text)
    }

    /// What an outcome says of the way to the phone.
    static func finding(on outcome: Outcome, subject: String) -> Finding {
        let words = OutcomeWords(outcome)
        switch (outcome.kind, outcome.reason) {
        case (.delivered, _), (.queued, _):
            return Finding(
                .phone, subject, .ok,
                "\(subject == Magic.android.rawValue ? "Google" : "Apple") has taken it: look at it")
        case (.rejected, .senderKeyNeeded), (.rejected, .notThisSenderKey):
            return Finding(
                .phone, subject, .warning,
                "the node answers, but this phone is bound to a sender key, and the check signs nothing: use tocsin send"
            )
        case (.rejected, _): return Finding(.phone, subject, .failed, "rejected: \(words.why)")
        case (.retry, _): return Finding(.phone, subject, .failed, "not now: \(words.why)")
        case (.gone, _):
            return Finding(.phone, subject, .failed, "the phone has no such device token any more: pair it anew")
        }
    }
}
