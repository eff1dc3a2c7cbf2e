// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// Numbers routes, so that an envelope's way through delivery needs no hashing of texts. A platform has one number for
/// each app, or ``serverLanes`` if its senders name the push server: ``PushServerLanes`` assigns those to servers. A
/// number is never reused: the table grows only when a reload adds an app, or a stored envelope names an app that is
/// not configured.
struct RouteTable {
    /// The number of a route: an index into tables of routes.
    typealias Number = Int

    /// How many push servers have a lane at a time, for each app.
    static let serverLanes = 64
    /// How many numbers each platform has, by its index.
    private static let counts = Magic.allCases.map { $0.service.hasLanePerServer ? serverLanes : 1 }
    /// The first number of each platform within an app, by the platform's index, and how many numbers an app has.
    private static let (offsets, numbersPerApp) = counts.reduce(into: ([Int](), 0)) { table, count in
        table.0.append(table.1)
        table.1 += count
    }

    /// All apps, by number. Few enough that a search takes less time than hashing a name.
    private var apps: [String] = []
    /// All routes, by number.
    private var routes: [Route] = []

    /// How many numbers there are.
    var count: Int { routes.count }
    var appCount: Int { apps.count }

    subscript(number: Number) -> Route { routes[number] }

    /// The index of an app in tables of apps; `nil` if it was never configured.
    func app(named name: String) -> Int? { apps.firstIndex(of: name) }

    /// The first number of a route, which is the only one unless its servers have lanes; `nil` if its app was never
    /// configured.
    func number(app: String, magic: Magic) -> Number? {
        self.app(named: app).map { $0 * Self.numbersPerApp + Self.offsets[magic.index] }
    }

    /// All numbers of a route; empty if its app was never configured.
    func numbers(app: String, magic: Magic) -> Range<Number> {
        number(app: app, magic: magic).map { $0..<$0 + Self.counts[magic.index] } ?? 0..<0
    }

    /// Which of its route's lanes this is, from 0.
    func lane(of route: Number) -> Int { route % Self.numbersPerApp - Self.offsets[routes[route].magic.index] }

    /// Whether each server of the route has a lane of its own.
    func hasLanePerServer(_ route: Number) -> Bool { Self.counts[routes[route].magic.index] > 1 }

    /// The number of the same app's route on another platform.
    func number(_ route: Number, on magic: Magic) -> Number {
        magic == routes[route].magic ? route : route - route % Self.numbersPerApp + Self.offsets[magic.index]
    }

    /// The index of a route's app in tables of apps.
    func app(of route: Number) -> Int { route / Self.numbersPerApp }

    /// Adds the routes of an app if it is new.
    mutating func add(app: String) {
        guard !apps.contains(app) else { return }
        apps.append(app)
        for magic in Magic.allCases {
            routes += Array(repeating: Route(app: app, magic: magic), count: Self.counts[magic.index])
        }
    }
}
