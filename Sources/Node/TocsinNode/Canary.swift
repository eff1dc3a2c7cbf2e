// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Cryptography
import EventLoop
import NodeConfiguration
import Settings
import TNP
import Time
import TocsinClient

/// Rings the operator's own phone from time to time, on the way that senders take, to notice an outage before they do.
final class Canary: @unchecked Sendable {
    // Unchecked: used on the loop's thread only; its task prefers the loop's executor.

    /// Where a sender reaches the node.
    struct Address {
        let node: Endpoint
        /// The SOCKS port of a tor; `nil` to connect directly.
        let socks: Endpoint?
    }

    /// How long an attempt may take: a circuit through tor, proof of work, and the node's own retries.
    private static let timeout = Duration.seconds(120)
    let settings: Configuration.Canary
    /// Changes with the pairing token and the site's key, so that a reload notices a new one.
    let identity: Digest256
    private let pairing: PairingToken
    private let format: EnvelopeFormat
    private let siteKey: Ed25519.PrivateKey?
    /// The phone shows only the latest of these notifications.
    private let collapseID = Array(Hex.encode(SecureRandom.bytes(8)).utf8)
    private let loop: EventLoop
    private let address: () -> Address?
    private let report: (NodeSnapshot.Attempt) -> Void
    private(set) var record = CanaryRecord(started: UnixTime.now)
    private var task: Task<Void, Never>?

    /// Reads the pairing token.
    /// - Parameters:
    ///   - address: where a sender reaches the node now; `nil` if that is not known yet.
    ///   - report: receives each result, on the loop.
    /// - Throws: `ConfigurationError`.
    init(
        _ settings: Configuration.Canary, _ configuration: Configuration, on loop: EventLoop,
        address: @escaping () -> Address?, report: @escaping (NodeSnapshot.Attempt) -> Void
    ) throws(ConfigurationError) {
        self.settings = settings
        self.loop = loop
        self.address = address
        self.report = report
        pairing = try settings.pairing(in: configuration)
        siteKey = try settings.siteKey(in: configuration)
        let key = pairing.key.withBytes { $0.withUnsafeBytes { Array($0) } }
        identity = BLAKE2b.hash256(Array(pairing.deviceToken.utf8) + (siteKey?.publicKey ?? []), key: key)
        let app = configuration.apps.first { settings.app == nil || $0.name == settings.app }
        format = app?.format ?? pairing.defaultFormat
    }

    deinit { task?.cancel() }

    /// Starts; the first attempt follows after ``CanaryRecord/firstPause(every:)``.
    func start() {
        task = Task(executorPreference: loop) { [weak self, loop] in
            await loop.sleep(for: CanaryRecord.firstPause(every: self?.settings.interval ?? 0))
            while !Task.isCancelled {
                guard let pause = await self?.attempt() else { return }
                await loop.sleep(for: pause)
            }
        }
    }

    /// Ends the attempts.
    func stop() { task?.cancel() }

    /// Rings the phone once.
    /// - Returns: the pause before the next attempt.
    private func attempt() async -> Duration {
        let (isDelivered, text) = await ring()
        if !Task.isCancelled {
            report(record.ended(at: UnixTime.now, isDelivered: isDelivered, text: text))
        }
        return CanaryRecord.pause(every: settings.interval, random: SecureRandom.fraction())
    }

    private func ring() async -> (isDelivered: Bool, text: String) {
        guard let address = address() else {
            return (
                false,
                "the node cannot reach its own onion: wait until tor has published it; with tor.managed = false, set "
                    + "outbound.proxy to tor's SOCKS port and tor.onion_directory"
            )
        }
        let label = SOCKS5.Credentials(user: "tocsin-canary", password: Hex.encode(SecureRandom.bytes(16)))
        let client = TocsinClient(
            TocsinClient.Options(
                nodes: [address.node], proxy: address.socks.map { .socks5($0, label) }, siteKey: siteKey), on: loop)
        do {
            let sealer = Sealer(pairing, format: format)
            let notification = BisqNotification(
                kind: .trade, title: "Tocsin", message: "The node reaches this phone.", sentDate: UnixTime.now * 1000)
            let sealed = try sealer.seal(notification, app: settings.app ?? "")
            let envelope = try Envelope(
                app: sealed.app, magic: sealed.magic, deviceToken: sealed.deviceToken, iv: sealed.iv,
                ciphertext: sealed.ciphertext, ttl: UInt32(settings.interval), priority: .conservePower, sound: false,
                collapseID: collapseID[...], format: format)
            let outcome = try await client.submitTest(envelope, of: sealer, timeout: Self.timeout)
            await client.close()
            return (outcome.kind == .delivered, outcome.sentence)
        } catch {
            await client.close()
            return (false, "\(error)")
        }
    }
}
