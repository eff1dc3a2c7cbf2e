// SPDX-License-Identifier: Apache-2.0

import HTTP2
import Time

/// How far this machine's clock is from a provider's, measured by an answer's `date` (RFC 9110 §6.6.1).
struct ClockSkew: CustomStringConvertible {
    /// Seconds that this machine's clock is ahead; negative where it is behind.
    let seconds: Int64

    /// Nil where the answer has no date.
    init?(_ headers: HeaderBlock, now: Int64) {
        guard let theirs = headers.text("date").flatMap({ HTTPDate.unixTime($0) }) else { return nil }
        seconds = now - theirs
    }

    var description: String {
        // A second either way is the answer's own way here.
        guard abs(seconds) > 1 else { return "this machine's clock agrees with the provider's" }
        return "this machine's clock is \(abs(seconds)) s \(seconds > 0 ? "ahead of" : "behind") the provider's"
    }
}
