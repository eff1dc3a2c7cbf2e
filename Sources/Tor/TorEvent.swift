// SPDX-License-Identifier: Apache-2.0

/// What tor tells of by its control port that matters here (control-spec, "Asynchronous events").
package enum TorEvent: Equatable, Sendable {
    /// How much of the way into the network is done, 0–100.
    case bootstrapped(percent: Int)
    /// The onion's descriptor is on its way to a directory.
    case uploading(OnionAddress)
    /// A directory has it.
    case uploaded(OnionAddress)
    /// A directory does not take it.
    case refused(OnionAddress)

    /// The events that are to be asked for.
    static let names = "STATUS_CLIENT HS_DESC"

    /// Reads an event's line, `650 …`, or the reply to `GETINFO status/bootstrap-phase`; nil for all else.
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
        case "FAILED": self = .refused(address)
        default: return nil
        }
    }
}
