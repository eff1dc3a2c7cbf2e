// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Cryptography
import FoundationEssentials

/// What the dashboard remembers across restarts: a file of a few kB in the state directory. It identifies no phone and
/// no sender, and tells no time of a notification more precisely than to ten minutes.
struct NodeHistory: Codable, Equatable {
    struct Route: Codable, Equatable {
        /// When the route delivered last, Unix time in seconds, rounded down to ten minutes; `nil` if it has not.
        var lastDelivery: Int64?
        /// Outcomes per hour of the last day.
        var hours: [[Int64]] = []
    }

    private var version = 1
    /// When the node was started in the last day, Unix times in seconds; the last is the start of this process.
    var starts: [Int64] = []
    /// Outcomes per ten minutes of the last day.
    var intervals: [[Int64]] = []
    /// The routes by name.
    var routes: [String: Route] = [:]

    /// The most routes that a file may have. A node has up to 252.
    private static let maximumRoutes = 300
    /// The most starts that are kept: far fewer show that a node restarts all the time.
    private static let maximumStarts = 50
    private static let day: Int64 = 86_400
    /// Age in seconds at which a start forgets the last delivery of a route, whose app may be gone.
    private static let maximumSpan = 30 * day
    /// The longest file, in bytes: more than one whose tables are full of the largest numbers.
    private static let maximumLength = 4 << 20

    init() {}

    /// Reads the file.
    /// - Returns: nothing but this start if there is no file, or none that can be read.
    /// - Parameter now: Unix time in seconds.
    init(_ file: String, startedAt now: Int64) {
        if let bytes = try? RegularFile.read(file, atMost: Self.maximumLength, access: .thisUser),
            let read = try? JSONDecoder().decode(Self.self, from: Data(bytes)), read.version == version
        {
            self = read
        }
        // A time in the future was taken while the clock was wrong.
        func isPast(_ time: Int64) -> Bool { (0...max(0, now)).contains(time) }
        starts = (starts.filter { isPast($0) && now - $0 < Self.day } + [now]).suffix(Self.maximumStarts)
        if routes.count > Self.maximumRoutes { routes = [:] }
        routes = routes.mapValues { route in
            Route(
                lastDelivery: route.lastDelivery.flatMap { isPast($0) && now - $0 < Self.maximumSpan ? $0 : nil },
                hours: route.hours)
        }
    }

    /// Writes the file without a sync: a power cut may cost it, and with it the dashboard's charts of a day.
    func write(to file: String) throws(PrivateFileError) {
        guard let data = try? JSONEncoder().encode(self) else { return }
        try PrivateFile.replace(file, holding: Array(data), isDurable: false)
    }
}
