// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Settings
import TNP

/// The value of `sites.mode`.
package enum SiteMode: String, CaseIterable, Sendable {
    /// The node takes no site keys.
    case off
    /// Sites have rates of their own; everybody else is served as usual.
    case open
    /// The node serves sites only.
    case required
}

/// A sender that the operator knows: a table `[[site]]` (PROTOCOL §10).
package struct Site: Sendable, Equatable {
    /// What a site may do.
    package enum Right: String, CaseIterable, Sendable {
        case send, register
    }

    /// Its name, for the operator.
    package let name: String
    /// Its Ed25519 public key, 32 bytes; `nil` if it uses HTTP only.
    package let key: [UInt8]?
    /// The hash of the secret in its HTTP path; `nil` if it uses TNP only.
    package let pathHash: [UInt8]?
    /// What it may do.
    package let rights: [Right]
    /// The rate of its submissions, over all its connections.
    package let rate: Rate

    package init(name: String, key: [UInt8]?, pathHash: [UInt8]? = nil, rights: [Right], rate: Rate) {
        self.name = name
        self.key = key
        self.pathHash = pathHash
        self.rights = rights
        self.rate = rate
    }

    /// The beginning of the path `/s/NAME.SECRET`, which a site puts before the path of its HTTP requests.
    package static let pathPrefix = "/s/"

    /// The hash of a secret in an HTTP path. The secret is random, so it needs no slow hash.
    package static func pathHash(of secret: some Collection<UInt8>) -> [UInt8] {
        BLAKE2b.hash256(Array("tocsin-site-path".utf8) + secret).bytes
    }

    /// Whether the credential in a path `/s/CREDENTIAL/…` is this site's.
    package func isProved(byPath credential: some Collection<UInt8>) -> Bool {
        guard let pathHash, let dot = credential.firstIndex(of: UInt8(ascii: ".")),
            credential[..<dot].elementsEqual(name.utf8)
        else { return false }
        return Self.pathHash(of: credential[dot...].dropFirst()) == pathHash
    }

    /// Its number in tables: a hash of its name, which stays the same across reloads.
    package var number: UInt32 { BLAKE2b.hash256(Array(name.utf8)).bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
}

extension Site {
    static let standardRate = Rate(burst: 1000, perMinute: 600)

    /// Reads all tables `[[site]]`.
    static func sites(_ root: TableReader) -> [Site] {
        var sites: [Site] = []
        let tables = root.tables(
            "site", "A sender that the operator knows, e.g. a busy back end; see `tocsin site`.")
        for table in tables {
            guard let site = table.attempt({ try Self.site(table) }) else { continue }
            if let other = sites.first(where: { $0.number == site.number }) {
                table.note(
                    "name",
                    other.name == site.name
                        ? "another site is named \(site.name)"
                        : "the names \(site.name) and \(other.name) have the same hash: choose another one")
            }
            if let key = site.key, let other = sites.first(where: { $0.key == key }) {
                table.note("key", "the site \(other.name) has this key, too")
            }
            sites.append(site)
        }
        if tables.count > maximumSites { root.note("site", "there are more than \(maximumSites)") }
        return sites
    }

    private static func site(_ table: TableReader) throws -> Site {
        let name = try table.requiredString(
            "name", expected: "a name", "Name of the site: letters, digits, - and _")
        guard (1...64).contains(name.utf8.count),
            name.utf8.allSatisfy({ byte in
                let character = Character(Unicode.Scalar(byte))
                return character.isASCII && (character.isLetter || character.isNumber || "-_".contains(character))
            })
        else { throw table.problem("name", "must be 1 to 64 letters, digits, - and _") }
        let key = try bytes(
            "key", of: table, "Public key of the site, as `tocsin site key` prints it; for TNP")
        let pathHash = try bytes(
            "path_hash", of: table, "Hash of the secret in the site's HTTP path, from `tocsin site add --http`")
        guard key != nil || pathHash != nil else {
            throw table.problem("key", "is missing: set key, path_hash or both")
        }
        let rights = try table.strings(
            "rights", expected: "\"send\" or \"register\"", isRequired: false,
            "What the site may do: `send` notifications, `register` handles. If not set: both")
        let known = try rights?.map { right in
            guard let right = Right(rawValue: right) else {
                throw table.problem("rights", "must be \"send\", \"register\" or both")
            }
            return right
        }
        let site = Site(
            name: name, key: key, pathHash: pathHash, rights: known ?? Right.allCases,
            rate: table.rate("rate", default: standardRate, "Submissions of the site, over all its connections")
        )
        table.finish()
        return site
    }

    private static let maximumSites = 1000

    /// Reads 32 bytes in Base64.
    private static func bytes(_ key: String, of table: TableReader, _ summary: String) throws -> [UInt8]? {
        guard let text = table.string(key, expected: "44 characters of Base64", summary) else { return nil }
        guard let bytes = Base64.decode(Array(text.utf8)), bytes.count == Ed25519.publicKeyLength else {
            throw table.problem(key, "must be the 44 characters of Base64 that tocsin site prints")
        }
        return bytes
    }
}
