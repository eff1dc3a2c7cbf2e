// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// Lends a sender's key to the user's own tor for as long as it is needed: only tor itself can read a closed onion's
/// descriptor. The key goes through tor's control port into its memory, not to its disk, and is taken out afterwards.
package actor TemporaryOnionKey {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let key: OnionKey
    private let endpoint: Endpoint
    private var isLent = false

    /// A loan that has not been made yet.
    /// - Parameter control: tor's control port, e.g. `unix:/run/tor/control`, which lets us in by its cookie.
    package init(_ key: OnionKey, control: Endpoint, on loop: EventLoop) {
        self.key = key
        endpoint = control
        self.loop = loop
    }

    /// Gives tor the key. Where tor has the same key already, of the user's own or of another loan, nothing is changed,
    /// and nothing taken away by ``giveBack()``. Can be called again: tor forgets the key when it is restarted, and when
    /// the user asks it for a new identity.
    /// - Throws: ``TorError``, in words, or `StreamError` where no tor answers.
    package func take() async throws {
        let control = try await TorControl.open(endpoint, on: loop)
        defer { control.close() }
        let mine = String(decoding: key.privateKey.encoded { Base64.encode($0) }, as: UTF8.self)
        if let present = Self.key(inView: try await control.ask("ONION_CLIENT_AUTH_VIEW \(key.address.label)")) {
            guard HMAC.areEqual(Array(present.utf8), Array(mine.utf8)) else {
                throw TorError(
                    """
                    the tor at \(endpoint) has another key for \(key.address) already; if that one is of no use, remove \
                    it: ONION_CLIENT_AUTH_REMOVE \(key.address.label) at its control port, or its file in ClientOnionAuthDir
                    """)
            }
            return
        }
        try await control.ask("ONION_CLIENT_AUTH_ADD \(key.address.label) x25519:\(mine)", holdsSecret: true)
        isLent = true
    }

    /// Takes the key back, where it was lent. A tor that has ended has forgotten it by itself.
    package func giveBack() async {
        guard isLent else { return }
        isLent = false
        guard let control = try? await TorControl.open(endpoint, on: loop) else { return }
        defer { control.close() }
        _ = try? await control.ask("ONION_CLIENT_AUTH_REMOVE \(key.address.label)")
    }

    /// The key, in Base64, of the reply to `ONION_CLIENT_AUTH_VIEW`; nil where tor has none.
    static func key(inView reply: [String]) -> Substring? {
        let words = reply.first { $0.hasPrefix("250-CLIENT ") || $0.hasPrefix("250 CLIENT ") }?.split(separator: " ")
        guard let words, words.count > 2 else { return nil }
        let prefix = "x25519:"
        return words[2].hasPrefix(prefix) ? words[2].dropFirst(prefix.count) : ""
    }
}
