// SPDX-License-Identifier: Apache-2.0

import TNP

/// Numbers routes, so that an envelope's way through delivery needs no hashing of texts. Apple's environments and Google
/// have one number each; Web Push has ``webLanes``, which ``OriginLanes`` gives to push servers. A number is never reused:
/// the table grows only when a reload adds an app.
struct RouteTable {
    /// The number of a route: an index into tables of routes.
    typealias Number = Int

    /// How many push servers of Web Push an app's lanes may serve at a time.
    static let webLanes = 64
    /// Numbers of an app; those of Web Push are the last.
    private static let numbersPerApp = firstWebLane + webLanes
    private static let firstWebLane = Magic.appleAndGoogle.count

    /// All apps, by number. Few enough that a search takes less time than hashing a name.
    private var apps: [String] = []
    /// All routes, by number.
    private(set) var routes: [Route] = []

    /// The number of a route, for Web Push the first; `nil` if its app was never configured.
    func number(app: String, magic: Magic) -> Number? {
        apps.firstIndex(of: app).map { $0 * Self.numbersPerApp + Self.offset(of: magic) }
    }

    /// All numbers of a route; empty if its app was never configured.
    func numbers(app: String, magic: Magic) -> Range<Number> {
        number(app: app, magic: magic).map { $0..<$0 + (magic == .web ? Self.webLanes : 1) } ?? 0..<0
    }

    /// The number of the same app's route on another platform.
    func number(_ route: Number, on magic: Magic) -> Number {
        magic == routes[route].magic ? route : route - route % Self.numbersPerApp + Self.offset(of: magic)
    }

    /// The index of a route's app in tables of apps.
    func app(of route: Number) -> Int { route / Self.numbersPerApp }

    /// Adds the routes of an app if it is new.
    mutating func add(app: String) {
        guard !apps.contains(app) else { return }
        apps.append(app)
        routes += Magic.appleAndGoogle.map { Route(app: app, magic: $0) }
        routes += Array(repeating: Route(app: app, magic: .web), count: Self.webLanes)
    }

    private static func offset(of magic: Magic) -> Int {
        switch magic {
        case .iOS: 0
        case .iOSDev: 1
        case .android: 2
        case .web: firstWebLane
        }
    }
}
