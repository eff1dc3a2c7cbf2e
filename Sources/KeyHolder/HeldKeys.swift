// SPDX-License-Identifier: Apache-2.0

import Cryptography
import NodeConfiguration
import Providers
import Time

/// The keys of a key holder, and how often it uses them. Contains no input or output: requests and the time go in,
/// answers come out.
struct HeldKeys {
    /// What a key was used for.
    struct Use: Equatable {
        enum Kind: String {
            case providerToken = "provider token issued"
            case assertion = "assertion for Google issued"
            case signature = "TLS connection to Apple signed"
        }

        let kind: Kind
        /// The key's file.
        let file: String
    }

    /// The shortest time between two assertions of an account: the node asks again after 10 s if Google does not answer.
    static let assertionInterval = Duration.seconds(10)
    /// Signatures for TLS connections with a certificate: a node opens several connections at once,
    /// and reconnects with pauses.
    private static let signatures = UseLimit(burst: 60, perSecond: 1)

    /// A key with what it was used for last.
    private struct Key {
        let file: String
        let credential: Credential
        var assertion: (bytes: [UInt8], time: MonotonicTime)?
        var signatures = HeldKeys.signatures
    }

    private var keys: [Int: Key] = [:]
    /// The provider tokens that were issued.
    var issued: IssuedTokens

    /// The number of keys.
    var count: Int { keys.count }

    /// - Parameter issued: those of earlier key holders of this node.
    init(issued: IssuedTokens) { self.issued = issued }

    /// Reads the configuration and all keys.
    /// - Parameter file: the configuration file.
    mutating func load(_ file: String) -> HolderReport {
        var report = HolderReport(copies: FileCopies(), credentials: [])
        report.copies.add(file, atMost: ConfiguredFile.largest)
        // The node reports what is wrong with the configuration.
        guard let configuration = try? Configuration(file: file, copies: report.copies) else { return report }
        let state = configuration.canonicalState
        for other in configuration.otherFiles {
            report.copies.add(other, atMost: ConfiguredFile.largest, notBeneath: state)
        }
        for reference in configuration.credentials {
            do {
                let loaded = try CredentialFiles().load(reference)
                keys[report.credentials.count] = Key(file: reference.files[0], credential: loaded.credential)
                report.credentials.append(
                    HolderReport.Entry(
                        reference: reference, facts: Self.facts(of: loaded.credential),
                        fingerprint: Base64Bytes(loaded.fingerprint.bytes)))
            } catch {
                report.credentials.append(
                    HolderReport.Entry(reference: reference, facts: .unusable(error), fingerprint: Base64Bytes()))
            }
        }
        return report
    }

    private static func facts(of credential: Credential) -> HolderReport.Facts {
        switch credential {
        case .appleKey(let issuer):
            let key = issuer.publicKey
            return .appleKey(
                HolderReport.AppleKeyFacts(
                    keyID: key.keyID, teamID: key.teamID, verifyingKey: Base64Bytes(key.verifyingKey.pem),
                    identity: Base64Bytes(key.identity.bytes)))
        case .appleCertificate(let certified, _): return .appleCertificate(Base64Bytes(certified.certificates))
        case .google(let issuer, _): return .google(issuer.publicAccount)
        }
    }

    /// Answers a request.
    /// - Parameter time: now.
    /// - Returns: the answer, `nil` if there is none; and what a key was used for, `nil` if none was used.
    mutating func answer(_ request: HolderRequest, at time: ClockReading) -> (bytes: [UInt8]?, use: Use?) {
        switch request {
        case .providerToken(let index, let isUnseen): providerToken(index, inPlaceOfUnseen: isUnseen, at: time)
        case .assertion(let index): assertion(index, at: time)
        case .signature(let index, let input, let padding): signature(index, input, padding, at: time)
        }
    }

    /// The latest token, or a new one if Apple accepts one already.
    private mutating func providerToken(
        _ index: Int, inPlaceOfUnseen isUnseen: Bool, at time: ClockReading
    ) -> (bytes: [UInt8]?, use: Use?) {
        guard let key = keys[index], case .appleKey(let issuer) = key.credential else { return (nil, nil) }
        let identity = issuer.publicKey.identity
        if let latest = issued.latest(of: identity, isUnseen: isUnseen, at: time) { return (latest, nil) }
        // This process has the key, so the answer comes at once.
        var made: [UInt8]?
        issuer.issue(at: time.unix, inPlaceOfUnseen: isUnseen) { made = $0 }
        guard let token = made else { return (nil, nil) }
        issued.add(token, of: identity, at: time)
        return (token, Use(kind: .providerToken, file: key.file))
    }

    private mutating func assertion(_ index: Int, at time: ClockReading) -> (bytes: [UInt8]?, use: Use?) {
        guard let key = keys[index], case .google(let issuer, _) = key.credential else { return (nil, nil) }
        if let latest = key.assertion, time.monotonic - latest.time < Self.assertionInterval {
            return (latest.bytes, nil)
        }
        var made: [UInt8]?
        issuer.assertion(at: time.unix) { made = $0 }
        guard let assertion = made else { return (nil, nil) }
        keys[index]?.assertion = (assertion, time.monotonic)
        return (assertion, Use(kind: .assertion, file: key.file))
    }

    private mutating func signature(
        _ index: Int, _ input: [UInt8], _ padding: Int32, at time: ClockReading
    ) -> (bytes: [UInt8]?, use: Use?) {
        guard var key = keys[index], case .appleCertificate(let certified, _) = key.credential else {
            return (nil, nil)
        }
        let isAllowed = key.signatures.take(at: time.monotonic)
        keys[index] = key
        guard isAllowed, let signature = certified.sign(input, padding: padding) else { return (nil, nil) }
        return (signature, Use(kind: .signature, file: key.file))
    }
}

/// The latest provider token of each of Apple's keys. Outlives a key holder, so that a new one issues none that Apple
/// would not accept (Apple, "Establishing a token-based connection to APNs": at most one in 20 minutes).
struct IssuedTokens: Codable, Redacted {
    private struct Token: Codable {
        var text: Base64Bytes
        /// `MonotonicTime.nanoseconds`.
        var time: UInt64
        /// By the wall clock, Unix time in seconds.
        var unix: Int64
    }

    /// More than the apps of a node.
    static let most = 64

    private var tokens: [String: Token] = [:]

    /// The latest token of a key, if another one would be too early: unless the wall clock has stepped since, and Apple has
    /// not seen the token.
    func latest(of key: Digest256, isUnseen: Bool, at now: ClockReading) -> [UInt8]? {
        guard let token = tokens[Hex.encode(key.bytes)] else { return nil }
        let age = (now.monotonic - MonotonicTime(nanoseconds: token.time)).wholeSeconds
        let hasStepped = abs(now.unix - token.unix - age) > GuardedClock.tolerance
        guard age < APNsProviderToken.shortestInterval, !(isUnseen && hasStepped) else { return nil }
        return token.text.bytes
    }

    /// Takes over what another key holder has issued meanwhile.
    mutating func merge(_ other: IssuedTokens) {
        tokens.merge(other.tokens) { $0.time > $1.time ? $0 : $1 }
    }

    mutating func add(_ token: [UInt8], of key: Digest256, at now: ClockReading) {
        tokens[Hex.encode(key.bytes)] = Token(
            text: Base64Bytes(token), time: now.monotonic.nanoseconds, unix: now.unix)
        while tokens.count > Self.most, let oldest = tokens.min(by: { $0.value.time < $1.value.time }) {
            tokens[oldest.key] = nil
        }
    }
}
