// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Redis

/// The functions that decide in the engine (Redis, "Redis functions"). Each call is atomic, and uses the engine's clock.
package struct FunctionLibrary: Sendable {
    /// A function. What it takes and returns stands in functions.lua.
    package enum Function: String, CaseIterable, Sendable {
        case open, renew, leave, members, offer, token, take, resume, conclude, unbind, keep, adopt, handle, ring,
            spend
    }

    /// The version of the layout of the keys. Nodes with different versions cannot share an engine.
    package static let schema = 2

    /// The library of this version of Tocsin.
    package static let current = FunctionLibrary()

    /// The text that FUNCTION LOAD takes.
    package let text: String
    private let names: [Function: String]

    private init() {
        // The name changes with the text, so that nodes of different versions do not replace each other's functions.
        let body = PackageResources.functions_lua
        let name = "tocsin_" + Hex.encode(BLAKE2b.hash256(body).bytes.prefix(4))
        text = "#!lua name=\(name)\nlocal library = '\(name)'\n" + String(decoding: body, as: UTF8.self)
        names = Dictionary(uniqueKeysWithValues: Function.allCases.map { ($0, "\(name)_\($0.rawValue)") })
    }

    /// The name by which FCALL calls a function.
    package func name(of function: Function) -> String { names[function]! }
}

extension RedisCommand {
    /// A call of a function of the library.
    /// - Parameter encodedKeys: keys that are encoded already; they stand before `keys`.
    package init(_ function: FunctionLibrary.Function, _ encodedKeys: RedisCommand = RedisCommand(), keys: [[UInt8]]) {
        self.init(function: FunctionLibrary.current.name(of: function), encodedKeys, keys: keys)
    }
}
