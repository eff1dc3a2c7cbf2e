import ArgumentParser
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
            EXIT CODES
              0 delivered or queued · 64 wrong usage · 65 rejected · 69 node unreachable · 75 try again later ·
              76 the phone no longer has this token: forget the pairing

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

    func run() async throws {
        let sealer = Sealer(try readPairing())
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
        // A label of its own for each call keeps it on a circuit of its own.
        let label = SOCKS5.Credentials(
            user: "tocsin-send", password: "\(getpid())-\(UInt64.random(in: 0...UInt64.max))")
        let options = TocsinClient.Options(node: endpoint, proxy: direct ? nil : .socks5(proxy, label))
        let through = direct ? "" : " through tor"
        let loop = EventLoop(name: "send")
        let client = TocsinClient(options, on: loop) { progress in
            switch progress {
            case .dialling: Terminal.progress("reaching the node\(through) …")
            case .connected: Terminal.progress("node reached; handing the notification over …")
            case .welcomed: Terminal.progress("waiting for the push service …")
            case .queued: Terminal.progress("stored by the node; waiting for the push service …")
            case .retrying(let reason, let after):
                Terminal.progress(
                    "\(reason); trying again in \(Terminal.number(after.milliseconds / 1000, digits: 1)) s …")
            }
        }
        let outcome: Outcome
        do {
            outcome = try await client.submit(
                envelope, patience: .seconds(timeout), acceptQueued: queue, returnsWhenQueued: queue)
        } catch ClientError.refused(let goAway) {
            Terminal.endProgress()
            throw fail("\(ClientError.refused(goAway))", ExitStatus.rejected)
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

    private func report(_ outcome: Outcome) throws {
        let why = outcome.text ?? outcome.reason.description
        switch outcome.kind {
        case .delivered: Terminal.print("delivered" + (outcome.providerID.map { ": \($0)" } ?? ""))
        case .queued: Terminal.print("queued")
        case .rejected: throw fail("rejected: \(why) (reason \(outcome.reason.rawValue))", ExitStatus.rejected)
        case .retry:
            let seconds = Terminal.number(Double(outcome.retryAfter) / 1000, digits: 0)
            throw fail("try again in \(seconds) s: \(why) (reason \(outcome.reason.rawValue))", ExitStatus.tryLater)
        case .gone: throw fail("gone: \(why). Forget this pairing", ExitStatus.gone)
        }
    }
}
