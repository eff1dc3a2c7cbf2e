// SPDX-License-Identifier: Apache-2.0

import Settings

extension Configuration {
    /// `[spool]`
    package struct Spool: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey("spool", \.spool)] }

        /// The database file.
        package var file: String
        /// The file of the key that encrypts the database.
        package var keyFile: String
        /// Maximum size of all stored envelopes, in bytes.
        package var maximumBytes: Int
        /// Maximum number of stored envelopes.
        package var maximumEnvelopes: Int

        /// Reads `[spool]`; `nil` if the spool is disabled.
        /// - Parameter state: the state directory.
        init?(_ root: TableReader, state: String) {
            let table = root.table(
                "spool", "Encrypted storage on disk for envelopes that senders allow to be stored; see delivery.md.")
            let isSpooling = table.boolean("enabled", default: false, "Store envelopes on disk")
            keyFile =
                table.file(
                    "key_file",
                    "Key that encrypts the spool, created together with it. If not set: `spool.key` in `node.state`. May be on other storage"
                ) ?? "\(state)/spool.key"
            maximumBytes = table.integer(
                "max_bytes", in: 65_536...(1 << 40), default: 256 << 20, "Maximum size of stored envelopes, in bytes")
            maximumEnvelopes = table.integer(
                "max_envelopes", in: 1...10_000_000, default: 200_000,
                "Maximum stored envelopes; each also takes a few hundred bytes of memory")
            file = "\(state)/spool.sqlite"
            guard isSpooling else { return nil }
        }
    }
}
