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

        package init(maximum: Int, forgetDays: Int) {
            self.maximum = maximum
            self.forgetDays = forgetDays
        }

        /// `nil` if the node keeps no handles.
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
            guard keepsHandles else { return nil }
        }
    }
}
