// SPDX-License-Identifier: Apache-2.0

import TNP

/// Numbers routes, so that an envelope's way through delivery needs no hashing of texts. A number is never reused: the
/// table grows only when a reload adds an app.
struct RouteTable {
    /// The number of a route: an index into tables of routes.
    typealias Number = Int

    private var apps: [String: Int] = [:]
    /// All routes, by number.
    private(set) var routes: [Route] = []

    /// The number of a route; `nil` if its app was never configured.
    func number(app: String, magic: Magic) -> Number? {
        apps[app].map { $0 * Magic.allCases.count + Self.offset(of: magic) }
    }

    /// The number of the same app's route on another platform.
    func number(_ route: Number, on magic: Magic) -> Number {
        route - route % Magic.allCases.count + Self.offset(of: magic)
    }

    /// The index of a route's app in tables of apps.
    func app(of route: Number) -> Int { route / Magic.allCases.count }

    /// The number of a route; adds the routes of its app if it is new.
    mutating func add(app: String, magic: Magic) -> Number {
        if apps[app] == nil {
            apps[app] = apps.count
            routes += Magic.allCases.map { Route(app: app, magic: $0) }
        }
        return (apps[app] ?? 0) * Magic.allCases.count + Self.offset(of: magic)
    }

    private static func offset(of magic: Magic) -> Int {
        switch magic {
        case .iOS: 0
        case .iOSDev: 1
        case .android: 2
        }
    }
}
