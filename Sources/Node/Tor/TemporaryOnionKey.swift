// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// Installs a sender's key in the user's own tor for as long as it is needed: only tor can decrypt the descriptor of a
/// closed onion. The key is passed over tor's control port, kept in memory and not on disk, and removed afterwards.
package actor TemporaryOnionKey {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let key: OnionKey
    private let endpoint: Endpoint
    private var isInstalled = false

    /// Creates a key that is not installed yet.
    /// - Parameter control: tor's control port, e.g. `unix:/run/tor/control`, with cookie authentication.
    package init(_ key: OnionKey, control: Endpoint, on loop: EventLoop) {
        self.key = key
        endpoint = control
        self.loop = loop
    }

    /// Installs the key. If tor already has the same key, from the user or from another instance, this changes nothing,
    /// and ``remove()`` removes nothing. Can be called again: tor forgets the key on a restart and when the user
    /// requests a new identity.
    /// - Throws: ``TorError``, or `StreamError` if tor cannot be reached.
    package func install() async throws {
        let control = try await TorControl.open(endpoint, on: loop)
        defer { control.close() }
        let encoded = key.privateKey.withBytes { $0.withUnsafeBytes { Base64.encode($0) } }
        let mine = String(decoding: encoded, as: UTF8.self)
        if let present = Self.key(inView: try await control.send("ONION_CLIENT_AUTH_VIEW \(key.address.label)")) {
            guard HMAC.constantTimeEqual(Array(present.utf8), Array(mine.utf8)) else {
                throw TorError(
                    """
                    the tor at \(endpoint) already has another key for \(key.address); if that key is obsolete, remove \
                    it: ONION_CLIENT_AUTH_REMOVE \(key.address.label) at the control port, or its file in \
                    ClientOnionAuthDir
                    """)
            }
            return
        }
        try await control.send("ONION_CLIENT_AUTH_ADD \(key.address.label) x25519:\(mine)", redactsReply: true)
        isInstalled = true
    }

    /// Removes the key if this instance installed it. A tor that has exited has already forgotten it.
    package func remove() async {
        guard isInstalled else { return }
        isInstalled = false
        guard let control = try? await TorControl.open(endpoint, on: loop) else { return }
        defer { control.close() }
        _ = try? await control.send("ONION_CLIENT_AUTH_REMOVE \(key.address.label)")
    }

    /// The Base64 key in the reply to `ONION_CLIENT_AUTH_VIEW`; empty for a key of another type, `nil` if tor has none.
    static func key(inView reply: [String]) -> Substring? {
        let words = reply.first { $0.hasPrefix("250-CLIENT ") || $0.hasPrefix("250 CLIENT ") }?.split(separator: " ")
        guard let words, words.count > 2 else { return nil }
        let prefix = "x25519:"
        return words[2].hasPrefix(prefix) ? words[2].dropFirst(prefix.count) : ""
    }
}
