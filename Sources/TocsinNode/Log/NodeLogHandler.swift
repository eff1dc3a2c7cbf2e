import FoundationEssentials
import Glibc
import Logging

/// Writes log lines to standard error: as text for people or as JSON for machines.
struct NodeLogHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    let format: Configuration.LogFormat

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }.sorted { $0.key < $1.key }
        let line: String
        switch format {
        case .text:
            let details = all.map { " \($0.key)=\($0.value)" }.joined()
            line = "\(Self.time()) \(event.level.rawValue.uppercased()) \(event.message)\(details)\n"
        case .json:
            var object = ["time": Self.time(), "level": event.level.rawValue, "message": "\(event.message)"]
            for (key, value) in all { object[key] = "\(value)" }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            line = (try? encoder.encode(object)).map { String(decoding: $0, as: UTF8.self) + "\n" } ?? ""
        }
        // One write a line: lines of several threads do not mix.
        _ = Array(line.utf8).withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }

    private static func time() -> String {
        Date.now.formatted(.iso8601.time(includingFractionalSeconds: true))
    }
}

extension Configuration {
    /// A logger as this configuration wants it.
    public func makeLogger() -> Logger {
        Logger(label: "tocsin") { _ in NodeLogHandler(logLevel: logLevel, format: logFormat) }
    }
}
