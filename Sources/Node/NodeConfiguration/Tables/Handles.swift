// SPDX-License-Identifier: Apache-2.0

import Settings

extension Configuration {
    /// `[handles]`
    package struct Handles: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey(presence: "handles.enabled", \.handles)] }

        /// Maximum number of handles.
        package var maximum: Int
        /// Days without a delivered notification after which a handle is forgotten.
        package var forgetDays: Int
        /// The origins of the pages that may register handles from a browser, as a browser sends them (RFC 6454 §6.2).
        package var origins: [String]

        package init(maximum: Int, forgetDays: Int, origins: [String] = []) {
            self.maximum = maximum
            self.forgetDays = forgetDays
            self.origins = origins
        }

        /// Reads `[handles]`; `nil` if the node keeps no handles.
        init?(_ root: TableReader) {
            let table = root.table(
                "handles",
                "Handles, which phones register at the node and give to senders in the place of the device token.")
            let keepsHandles = table.boolean("enabled", default: false, "Whether phones may register handles")
            maximum = table.integer(
                "max", in: 100...10_000_000, default: 100_000,
                "Maximum number of handles, each with less than 2 KB on disk")
            forgetDays = table.integer(
                "forget_days", in: 7...3650, default: 180,
                "Days without a delivered notification after which a handle is forgotten")
            origins = table.attempt { try Self.origins(table) } ?? []
            guard keepsHandles else { return nil }
        }

        private static func origins(_ table: TableReader) throws -> [String] {
            let origins =
                try table.strings(
                    "origins", expected: "an origin like \"https://example.org\"", isRequired: false,
                    "Origins of web pages that may register handles from a browser through `listen.http`") ?? []
            guard origins.allSatisfy(isOrigin) else {
                throw table.problem(
                    "origins",
                    "must be what a browser sends as Origin: scheme and host in lower case, like \"https://example.org\" or \"http://localhost:8000\", without a path"
                )
            }
            return origins
        }

        private static func isOrigin(_ text: String) -> Bool {
            guard let prefix = ["https://", "http://"].first(where: text.hasPrefix) else { return false }
            let host = text.dropFirst(prefix.count)
            return !host.isEmpty && host.utf8.count <= 255
                && host.utf8.allSatisfy { byte in
                    let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                    return isLetter || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                        || "-.:[]".utf8.contains(byte)
                }
        }
    }
}
