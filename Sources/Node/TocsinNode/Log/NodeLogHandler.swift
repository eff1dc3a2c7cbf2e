// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Glibc
import Logging
import NodeConfiguration

/// Writes log lines to standard error, as text for people or as JSON for programs. If standard error is systemd's
/// journal, each line starts with its priority (sd-daemon(3)).
struct NodeLogHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    let format: Configuration.LogFormat
    let isForJournal: Bool

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let time = Self.time()
        StandardError.write(line(for: event, at: time)) { count in
            let text = "\(count) lines of the log are missing here: what reads the log took no more"
            return line(
                for: LogEvent(
                    level: .warning, message: "\(text)", error: nil, metadata: nil,
                    source: "", file: "", function: "", line: 0), at: time)
        }
    }

    /// The line of an event, including the line feed.
    /// - Parameter time: omitted from text for the journal, which adds its own.
    func line(for event: LogEvent, at time: String) -> String {
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }.sorted { $0.key < $1.key }
        let priority = isForJournal ? "<\(Self.priority(of: event.level))>" : ""
        switch format {
        case .text:
            let details = all.map { " \($0.key)=\(LogValue($0.value).text)" }.joined()
            let start = isForJournal ? "" : "\(time) \(event.level.rawValue.uppercased()) "
            return "\(priority)\(start)\(event.message)\(details)".oneLine + "\n"
        case .json:
            var object = all.reduce(into: [:]) { $0[$1.key] = LogValue($1.value) }
            for (key, text) in [("time", time), ("level", event.level.rawValue), ("message", "\(event.message)")] {
                object[key] = .text(text)
            }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let json = (try? encoder.encode(object)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
            return "\(priority)\(json)\n"
        }
    }

    /// The priority of a level in syslog.
    private static func priority(of level: Logger.Level) -> Int {
        switch level {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }

    /// Whether standard error is the journal: `JOURNAL_STREAM` has its device and inode number (systemd.exec(5)).
    static func isJournal(_ variable: String?) -> Bool {
        var status = stat()
        guard let variable, fstat(STDERR_FILENO, &status) == 0 else { return false }
        return variable == "\(status.st_dev):\(status.st_ino)"
    }

    /// The time in ISO 8601 and UTC, with milliseconds.
    private static func time() -> String {
        Date.now.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
}

/// A value in a log line.
private enum LogValue: Encodable {
    case text(String)
    case number(Int64)
    case object([String: LogValue])

    init(_ value: Logger.Metadata.Value) {
        switch value {
        case .stringConvertible(let number as any BinaryInteger): self = .number(Int64(clamping: number))
        case .dictionary(let members): self = .object(members.mapValues { LogValue($0) })
        default: self = .text("\(value)")
        }
    }

    /// For people: the members of an object with the largest numbers first, `delivered 174, rejected 2`.
    var text: String {
        switch self {
        case .text(let text): return text
        case .number(let number): return "\(number)"
        case .object(let members):
            let sorted = members.sorted { ($1.value.size, $0.key) < ($0.value.size, $1.key) }
            return sorted.map { "\($0.key) \($0.value.text)" }.joined(separator: ", ")
        }
    }

    private var size: Int64 { if case .number(let number) = self { number } else { 0 } }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .text(let text): try container.encode(text)
        case .number(let number): try container.encode(number)
        case .object(let members): try container.encode(members)
        }
    }
}

extension Logger.MetadataValue {
    /// A number, which JSON lines contain as a number.
    static func number(_ number: some BinaryInteger & Sendable) -> Self { .stringConvertible(Int64(clamping: number)) }
}

extension String {
    /// The text with a space for each control character: a line break in a text of tor or a push service would start
    /// another line of the log, or another assignment of a notice.
    var oneLine: String {
        String(UnicodeScalarView(unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
    }
}

extension Configuration {
    /// Creates the logger that the configuration describes.
    package func makeLogger() -> Logger { Self.makeLogger(format: logFormat, level: logLevel) }

    /// Creates a logger that writes lines of this format to standard error.
    package static func makeLogger(format: LogFormat, level: Logger.Level = .info) -> Logger {
        let isForJournal = NodeLogHandler.isJournal(ProcessInfo.processInfo.environment["JOURNAL_STREAM"])
        return Logger(label: "tocsin") { _ in
            NodeLogHandler(logLevel: level, format: format, isForJournal: isForJournal)
        }
    }
}
