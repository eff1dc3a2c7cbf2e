import ArgumentParser
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import TNP
import TocsinClient

extension BisqNotification.Kind: ExpressibleByArgument {}

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Encrypt one notification for a phone and deliver it through a node.",
        discussion: """
            Each notification is signed with a key that is made at the first one to a phone and kept in a file. Where the
            node honours such keys, the first that rings a phone is from then on the only one that does.

            EXIT CODES
              0 delivered or queued · 64 wrong usage · 65 rejected · 69 node unreachable · 75 try again later ·
              76 the phone no longer has this token: forget the pairing · 78 the sender key cannot be used

            EXAMPLES
              tocsin send - --node ADDRESS.onion:80 --type TRADE --title Paid --message "Trade 123 is paid" < pairing
              tocsin send 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct --type OFFER --title Taken
            """)

    @Argument(
        help: """
            The phone's pairing token, magic|descriptor|key|device token. It holds the key: - reads it from standard \
            input, where other users of this machine do not see it.
            """)
    var pairing: String

    @Option(help: "The node: its onion address and port.")
    var node: String

    @Option(help: "tor's SOCKS port.")
    var tor: String = "127.0.0.1:9050"

    @Flag(help: "Connect without tor.")
    var direct = false

    @Option(help: "What it is about: \(BisqNotification.Kind.allCases.map(\.rawValue).joined(separator: ", ")).")
    var type: BisqNotification.Kind = .trade

    @Option(help: "The title.")
    var title: String = ""

    @Option(help: "The text.")
    var message: String = ""

    @Option(help: "Short id of the trade or offer.")
    var tradeID: String = ""

    @Option(help: "The node's app profile. Default: its first.")
    var app: String = ""

    @Option(help: "Seconds that Apple or Google may keep it for a phone that is off; 0: now or never.")
    var ttl: UInt32 = Envelope.longestTTL

    @Flag(help: "Be content when the node has stored it, where it can: it goes on trying until the ttl is over.")
    var queue = false

    @Flag(help: "Without a sound.")
    var silent = false

    @Option(help: "Seconds to go on trying.")
    var timeout: Int = 120

    @Option(help: "Seconds to compute, at most, where the node asks for proof of work; 0: never.")
    var maxWork: Int = 60

    @Option(help: "Directory of the sender keys. Default: tocsin/senders in $XDG_DATA_HOME or ~/.local/share.")
    var keys: String?

    @Flag(help: "Do not sign: a phone that is bound to a sender key is not rung.")
    var noKey = false

    func validate() throws {
        guard maxWork >= 0 else { throw ValidationError("--max-work must not be negative") }
        guard keys?.isEmpty != true else { throw ValidationError("--keys must name a directory") }
    }

    func run() async throws {
        let pairing = try readPairing()
        let sealer = Sealer(pairing)
        guard let endpoint = Endpoint(node) else {
            throw fail("--node must be like ADDRESS.onion:80, not \(node)", ExitStatus.usage)
        }
        guard let proxy = Endpoint(tor) else {
            throw fail("--tor must be like 127.0.0.1:9050, not \(tor)", ExitStatus.usage)
        }
        let notification = BisqNotification(
            kind: type, title: title, message: message, transactionID: tradeID,
            sentDate: Int64(Date.now.timeIntervalSince1970 * 1000))
        let envelope: Envelope
        do {
            envelope = try sealer.seal(notification.json, app: app, ttl: ttl, sound: !silent)
        } catch {
            throw fail("\(error)", ExitStatus.rejected)
        }
        let key = noKey ? nil : try senderKey(for: pairing)
        // A label of its own for each call keeps it on a circuit of its own.
        let label = SOCKS5.Credentials(
            user: "tocsin-send", password: "\(getpid())-\(UInt64.random(in: 0...UInt64.max))")
        let options = TocsinClient.Options(
            node: endpoint, proxy: direct ? nil : .socks5(proxy, label), workLimit: .seconds(maxWork))
        let through = direct ? "" : " through tor"
        let loop = EventLoop(name: "send")
        let client = TocsinClient(options, on: loop) { progress in
            switch progress {
            case .dialling: Terminal.progress("reaching the node\(through) …")
            case .connected: Terminal.progress("node reached; handing the notification over …")
            case .welcomed: Terminal.progress("waiting for the push service …")
            case .queued: Terminal.progress("stored by the node; waiting for the push service …")
            case .working: Terminal.progress("the node asks for proof of work: computing …")
            case .retrying(let reason, let after):
                Terminal.progress(
                    "\(reason.printable); trying again in \(Terminal.number(after.milliseconds / 1000, digits: 1)) s …")
            }
        }
        let outcome: Outcome
        do {
            outcome = try await client.submit(
                envelope, patience: .seconds(timeout), acceptQueued: queue, returnsWhenQueued: queue, signedBy: key)
        } catch ClientError.refused(let goAway) {
            Terminal.endProgress()
            throw fail(
                "\(ClientError.refused(goAway))", goAway.retryAfter > 0 ? ExitStatus.tryLater : ExitStatus.rejected)
        } catch {
            Terminal.endProgress()
            throw fail("\(error)", ExitStatus.unreachable)
        }
        await client.close()
        Terminal.endProgress()
        try report(outcome)
    }

    private func readPairing() throws -> PairingToken {
        let text = pairing == "-" ? (readLine() ?? "") : pairing
        do {
            return try PairingToken(text.split(whereSeparator: \.isNewline).joined())
        } catch {
            throw fail("\(error)", ExitStatus.usage)
        }
    }

    private func senderKey(for pairing: PairingToken) throws -> Ed25519.PrivateKey {
        do throws(SenderKeyError) {
            guard let directory = keys ?? SenderKeys.defaultDirectory(ProcessInfo.processInfo.environment) else {
                throw .noDirectory
            }
            return try SenderKeys(directory: directory).key(for: pairing.deviceToken)
        } catch {
            throw fail("\(error)", ExitStatus.configuration)
        }
    }

    private func report(_ outcome: Outcome) throws {
        let words = OutcomeWords(outcome)
        if let allowance = words.allowance { Terminal.error("tocsin: \(allowance)") }
        switch outcome.kind {
        case .delivered: Terminal.print("delivered" + (outcome.providerID.map { ": \($0.printable)" } ?? ""))
        case .queued: Terminal.print("queued")
        case .rejected: throw fail("rejected: \(words.why)", ExitStatus.rejected)
        case .retry: throw fail("try again \(words.when): \(words.why)", ExitStatus.tryLater)
        case .gone: throw fail("gone: \(words.why). Forget this pairing", ExitStatus.gone)
        }
    }
}

/// What an outcome means to the person who sends.
struct OutcomeWords {
    private let outcome: Outcome

    init(_ outcome: Outcome) { self.outcome = outcome }

    /// The reason, and what to do about it where that is not plain.
    var why: String {
        let text = (outcome.text ?? outcome.reason.description).printable
        switch outcome.kind {
        case .delivered, .queued, .gone: return text
        case .rejected, .retry: return "\(text) (reason \(outcome.reason.rawValue))" + (advice.map { "; \($0)" } ?? "")
        }
    }

    private var advice: String? {
        switch (outcome.kind, outcome.reason) {
        case (.rejected, .senderKeyNeeded):
            "this phone is rung by signed notifications only: send without --no-key, with the key that it is bound to"
        case (.rejected, .notThisSenderKey):
            """
            this phone is bound to another sender key: send from where it was rung first, or with that --keys \
            directory. If the key is lost, install the app on the phone anew and pair it again
            """
        case (.retry, .proofNeeded), (.retry, .proofWrong): "--max-work SECONDS lets it compute for longer"
        default: nil
        }
    }

    /// When to try again.
    var when: String { outcome.retryAfter == 0 ? "later" : "in \(Self.seconds(outcome.retryAfter))" }

    /// What is left to the phone, where that is nothing or was too little.
    var allowance: String? {
        guard let left = outcome.left, left == 0 || outcome.reason == .deviceTokenOverRate else { return nil }
        return "\(left) more to this phone now" + (outcome.fullIn.map { "; full again in \(Self.seconds($0))" } ?? "")
    }

    private static func seconds(_ milliseconds: UInt32) -> String { "\((UInt64(milliseconds) + 999) / 1000) s" }
}
