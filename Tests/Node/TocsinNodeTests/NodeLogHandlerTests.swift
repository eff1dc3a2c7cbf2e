// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import TestSupport
import Testing

@testable import NodeConfiguration
@testable import TocsinNode

@Suite(.tags(.sockets)) struct NodeLogHandlerTests {
    private func line(
        _ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata = [:],
        format: Configuration.LogFormat = .text, isForJournal: Bool = false
    ) -> String {
        let handler = NodeLogHandler(logLevel: .trace, format: format, isForJournal: isForJournal)
        let event = LogEvent(
            level: level, message: "\(message)", error: nil, metadata: metadata, source: "", file: "", function: "",
            line: 0)
        return handler.line(for: event, at: "12:34:56.789")
    }

    @Test func `a text line is time, level, message and sorted metadata`() {
        let text = line(.warning, "something", ["b": "2", "a": "1"])
        #expect(text == "12:34:56.789 WARNING something a=1 b=2\n")
    }

    @Test(arguments: [
        (Logger.Level.critical, 2), (.error, 3), (.warning, 4), (.notice, 5), (.info, 6), (.debug, 7), (.trace, 7),
    ])
    func `a journal line starts with the priority and has no time`(_ level: Logger.Level, _ priority: Int) {
        #expect(line(level, "something", isForJournal: true) == "<\(priority)>something\n")
    }

    @Test func `a JSON line is one object after the journal's priority`() throws {
        let text = line(.error, "say \"no\"\nand go", ["file": "a"], format: .json, isForJournal: true)
        #expect(text.hasPrefix("<3>{") && text.hasSuffix("}\n") && text.dropLast().contains("\n") == false)
        let object = try JSONSerialization.jsonObject(with: Data(text.dropFirst(3).utf8)) as? [String: String]
        #expect(
            object == ["level": "error", "message": "say \"no\"\nand go", "file": "a", "time": "12:34:56.789"])
    }

    @Test func `a number is one in JSON, and counts are an object`() {
        let metadata: Logger.Metadata = [
            "spool": .number(3), "bisq/iOS": .dictionary(["retry": .number(2), "delivered": .number(174)]),
        ]
        #expect(line(.notice, "m", metadata).hasSuffix("m bisq/iOS=delivered 174, retry 2 spool=3\n"))
        #expect(
            line(.notice, "m", metadata, format: .json).hasPrefix(
                #"{"bisq/iOS":{"delivered":174,"retry":2},"level":"notice","message":"m","spool":3,"#))
    }

    @Test func `external text cannot start a line or control a terminal`() {
        let text = line(.info, "one\ntwo\u{1B}[31m", ["tor": "a\r\n<0>b"])
        #expect(text.dropLast().allSatisfy { !$0.isNewline } && !text.contains("\u{1B}"))
    }

    /// A reader with a limit to what it takes.
    private final class Reader {
        private var output = LogOutput()
        private(set) var text = ""
        /// The number of bytes that it still takes.
        var room = Int.max

        func log(_ line: String) {
            output.write(line.utf8, notice: { Array("\($0) missing\n".utf8) }) { bytes in
                let taken = bytes.prefix(min(room, 4))
                room -= taken.count
                text += String(decoding: taken, as: UTF8.self)
                return taken.count
            }
        }
    }

    @Test func `lines for a reader that takes no more are dropped, counted and reported, and none is cut`() {
        let reader = Reader()
        reader.log("first line\n")
        reader.room = 6
        reader.log("second line\n")
        for _ in 0..<3 { reader.log("lost\n") }
        #expect(reader.text == "first line\nsecond")
        reader.room = 10
        // Room for the rest of the second line, and for a part of the report.
        reader.log("lost\n")
        #expect(reader.text == "first line\nsecond line\n3 mi")
        reader.room = .max
        reader.log("sixth line\n")
        #expect(reader.text == "first line\nsecond line\n3 missing\n1 missing\nsixth line\n")
        reader.room = 0
        reader.log("lost\n")
        reader.room = .max
        reader.log("last\n")
        #expect(reader.text.hasSuffix("sixth line\n1 missing\nlast\n"))
    }

    @Test func `standard error is the journal only if JOURNAL_STREAM names its file`() {
        #expect(!NodeLogHandler.isJournal(nil))
        #expect(!NodeLogHandler.isJournal("1:1"))
        var status = stat()
        #expect(fstat(STDERR_FILENO, &status) == 0)
        #expect(NodeLogHandler.isJournal("\(status.st_dev):\(status.st_ino)"))
    }
}
