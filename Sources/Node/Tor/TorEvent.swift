// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// An event from tor's control port that the node uses (control-spec, "Asynchronous events").
package enum TorEvent: Equatable, Sendable {
    /// Bootstrap progress in percent, 0–100.
    case bootstrapped(percent: Int)
    /// The upload of an onion's descriptor to a directory has begun.
    case uploading(OnionAddress)
    /// A directory has accepted the descriptor.
    case uploaded(OnionAddress)
    /// An upload or a fetch of the descriptor has failed.
    case failed(OnionAddress)

    /// The events to subscribe to with `SETEVENTS`.
    static let names = "STATUS_CLIENT HS_DESC"

    /// Parses an event's line, `650 …`, or the reply to `GETINFO status/bootstrap-phase`; `nil` for any other line.
    package init?(line: String) {
        let words = line.split(separator: " ")
        if words.contains("BOOTSTRAP"), let word = words.first(where: { $0.hasPrefix("PROGRESS=") }) {
            guard let percent = Int(word.dropFirst("PROGRESS=".count)), (0...100).contains(percent) else { return nil }
            self = .bootstrapped(percent: percent)
            return
        }
        guard words.count > 3, words[0] == "650", words[1] == "HS_DESC",
            words[3].utf8.count == OnionAddress.labelLength, let address = OnionAddress(String(words[3]))
        else { return nil }
        switch words[2] {
        case "UPLOAD": self = .uploading(address)
        case "UPLOADED": self = .uploaded(address)
        case "FAILED": self = .failed(address)
        default: return nil
        }
    }
}
