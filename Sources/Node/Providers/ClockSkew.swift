// SPDX-License-Identifier: Apache-2.0

import HTTP2
import Time

/// The difference between this machine's clock and a provider's, computed from the `date` header of an answer (RFC 9110
/// §6.6.1).
struct ClockSkew: CustomStringConvertible {
    /// Seconds by which this machine's clock is ahead; negative if it is behind.
    let seconds: Int64

    /// `nil` if the answer has no date.
    init?(_ headers: HeaderBlock, now: Int64) {
        guard let theirs = headers.text("date").flatMap({ HTTPDate.unixTime($0) }) else { return nil }
        seconds = now - theirs
    }

    var description: String {
        // Network latency and rounding account for a second.
        guard abs(seconds) > 1 else { return "this machine's clock agrees with the provider's" }
        return "this machine's clock is \(abs(seconds)) s \(seconds > 0 ? "ahead of" : "behind") the provider's"
    }
}
