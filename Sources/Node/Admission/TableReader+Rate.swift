// SPDX-License-Identifier: Apache-2.0

import Settings

extension TableReader {
    /// Reads a rate from the keys `NAME_burst` and `NAME_per_minute`.
    package func rate(_ name: String, default standard: Rate, _ help: String) -> Rate {
        Rate(
            burst: integer("\(name)_burst", in: Rate.burstRange, default: standard.burst, "\(help): burst"),
            perMinute: integer(
                "\(name)_per_minute", in: Rate.perMinuteRange, default: standard.perMinute,
                "\(help): sustained rate per minute"))
    }
}
