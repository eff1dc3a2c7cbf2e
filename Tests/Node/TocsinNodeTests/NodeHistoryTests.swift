// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct NodeHistoryTests {
    private func temporary<Result>(_ body: (String) throws -> Result) throws -> Result {
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        return try body("\(directory.path())/history.json")
    }

    @Test func `a restart adds its time, and keeps the rest`() throws {
        try temporary { file in
            var history = NodeHistory(file, startedAt: 1000)
            #expect(history.starts == [1000] && history.intervals.isEmpty)
            history.intervals = [[600, 1, 2, 3, 4]]
            history.routes["bisq/iOS"] = NodeHistory.Route(lastDelivery: 990, hours: [[0, 1, 0, 0, 0]])
            try history.write(to: file)
            let read = NodeHistory(file, startedAt: 1100)
            #expect(
                read.starts == [1000, 1100] && read.intervals == history.intervals && read.routes == history.routes)
            // The clock was wrong, or the start is older than the chart.
            #expect(NodeHistory(file, startedAt: 900).starts == [900])
            #expect(NodeHistory(file, startedAt: 87_400).starts == [87_400])
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
    }

    @Test(arguments: [
        "", "{}", "[", "{\"version\":2,\"starts\":[],\"intervals\":[],\"routes\":{}}", "null",
    ])
    func `a file that cannot be read is no history`(_ text: String) throws {
        try temporary { file in
            try Data(text.utf8).write(to: URL(filePath: file))
            #expect(chmod(file, 0o600) == 0)
            #expect(NodeHistory(file, startedAt: 5).starts == [5])
        }
    }

    @Test func `times that cannot be are ignored`() throws {
        try temporary { file in
            for time in [Int64.min, -1, 1001, .max] {
                let text = """
                    {"version":1,"starts":[\(time),900],"intervals":[[\(time),1,1,1,1]],
                     "routes":{"bisq/iOS":{"lastDelivery":\(time),"hours":[]}}}
                    """
                try Data(text.utf8).write(to: URL(filePath: file))
                #expect(chmod(file, 0o600) == 0)
                let read = NodeHistory(file, startedAt: 1000)
                #expect(read.starts == [900, 1000] && read.routes["bisq/iOS"]?.lastDelivery == nil, "\(time)")
            }
        }
    }

    @Test func `many starts are bounded`() throws {
        try temporary { file in
            for time in 0..<200 { try NodeHistory(file, startedAt: Int64(time)).write(to: file) }
            #expect(NodeHistory(file, startedAt: 200).starts == Array(151...200))
        }
    }
}
