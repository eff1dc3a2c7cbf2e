// SPDX-License-Identifier: Apache-2.0

import Logging
import Synchronization

/// Records every log line, at every level.
final class LogRecorder: Sendable {
    private let kept = Mutex<[String]>([])

    var lines: [String] { kept.withLock { $0 } }

    /// The number of lines that contain this text.
    func count(of text: String) -> Int { lines.count { $0.contains(text) } }

    var logger: Logger {
        Logger(label: "test") { _ in Handler(recorder: self) }
    }

    private struct Handler: LogHandler {
        let recorder: LogRecorder
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let details = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
            recorder.kept.withLock { $0.append("\(event.level) \(event.message) \(details)") }
        }
    }
}
