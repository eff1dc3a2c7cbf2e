// SPDX-License-Identifier: Apache-2.0

import CLua
import Redis

/// The functions of a simulated engine. They run in Lua 5.1, as in Redis ("Redis Lua API reference").
final class EngineFunctions {
    private let lua: OpaquePointer
    /// Executes a command that a function passes to `redis.call`.
    private let execute: ([[UInt8]]) -> RedisReply
    private var libraries: Set<String> = []
    /// Where Lua's registry holds each function.
    private var functions: [String: Int32] = [:]

    init(execute: @escaping ([[UInt8]]) -> RedisReply) {
        self.execute = execute
        // Without memory, the simulation cannot go on.
        guard let lua = luaL_newstate() else { fatalError("no memory for Lua") }
        self.lua = lua
        luaL_openlibs(lua)
        lua_createtable(lua, 0, 4)
        define("call") { lua in
            let functions = EngineFunctions.of(lua)
            functions.push(functions.execute((1...lua_gettop(lua)).map { functions.bytes(at: $0) }))
            return 1
        }
        define("status_reply") { lua in EngineFunctions.of(lua).pushTable(of: "ok") }
        define("error_reply") { lua in EngineFunctions.of(lua).pushTable(of: "err") }
        define("register_function") { lua in
            let functions = EngineFunctions.of(lua)
            lua_pushvalue(lua, 2)
            let name = String(decoding: functions.bytes(at: 1), as: UTF8.self)
            functions.functions[name] = luaL_ref(lua, LUA_REGISTRYINDEX)
            return 0
        }
        lua_setfield(lua, LUA_GLOBALSINDEX, "redis")
    }

    deinit { lua_close(lua) }

    /// Defines a field of the table on the stack's top.
    private func define(_ name: String, _ body: @escaping @convention(c) (OpaquePointer?) -> Int32) {
        lua_pushlightuserdata(lua, Unmanaged.passUnretained(self).toOpaque())
        lua_pushcclosure(lua, body, 1)
        lua_setfield(lua, -2, name)
    }

    /// The object that has defined the function which Lua calls.
    private static func of(_ lua: OpaquePointer?) -> EngineFunctions {
        // The first upvalue.
        Unmanaged<EngineFunctions>.fromOpaque(lua_touserdata(lua, LUA_GLOBALSINDEX - 1)).takeUnretainedValue()
    }

    // MARK: Libraries

    /// Loads a library, as FUNCTION LOAD does.
    func load(_ text: String) -> RedisReply {
        let lines = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
        guard lines.count == 2, lines[0].hasPrefix("#!lua name=") else { return .error("ERR Missing library metadata") }
        let name = String(lines[0].dropFirst("#!lua name=".count))
        guard !libraries.contains(name) else { return .error("ERR Library '\(name)' already exists") }
        let body = Array(lines[1].utf8)
        let isLoaded = body.withUnsafeBytes {
            luaL_loadbuffer(lua, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count, name)
        }
        guard isLoaded == 0, lua_pcall(lua, 0, 0, 0) == 0 else { return popError() }
        libraries.insert(name)
        return .bytes(Array(name.utf8))
    }

    /// Calls a function, as FCALL does.
    func call(_ name: String, keys: ArraySlice<[UInt8]>, arguments: ArraySlice<[UInt8]>) -> RedisReply {
        guard let function = functions[name] else { return .error("ERR Function not found") }
        lua_rawgeti(lua, LUA_REGISTRYINDEX, function)
        for list in [keys, arguments] {
            lua_createtable(lua, Int32(list.count), 0)
            for (index, item) in list.enumerated() {
                push(item)
                lua_rawseti(lua, -2, Int32(index + 1))
            }
        }
        guard lua_pcall(lua, 2, 1, 0) == 0 else { return popError() }
        defer { lua_settop(lua, -2) }
        return reply(at: lua_gettop(lua))
    }

    private func popError() -> RedisReply {
        defer { lua_settop(lua, -2) }
        return .error("ERR \(String(decoding: bytes(at: -1), as: UTF8.self))")
    }

    // MARK: Values

    private func push(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { lua_pushlstring(lua, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count) }
    }

    private func pushTable(of field: String) -> Int32 {
        lua_createtable(lua, 0, 1)
        lua_pushvalue(lua, 1)
        lua_setfield(lua, -2, field)
        return 1
    }

    /// Pushes a reply as Redis converts it from RESP 2.
    private func push(_ reply: RedisReply) {
        switch reply {
        case .bytes(let bytes): push(bytes)
        case .integer(let number): lua_pushnumber(lua, Double(number))
        case .null: lua_pushboolean(lua, 0)
        case .status(let text): pushField("ok", text)
        case .error(let text): pushField("err", text)
        case .array(let elements):
            lua_createtable(lua, Int32(elements.count), 0)
            for (index, element) in elements.enumerated() {
                push(element)
                lua_rawseti(lua, -2, Int32(index + 1))
            }
        }
    }

    private func pushField(_ name: String, _ text: String) {
        lua_createtable(lua, 0, 1)
        push(Array(text.utf8))
        lua_setfield(lua, -2, name)
    }

    /// The text of a string or a number. Redis writes a fraction with 17 digits; this writes the fewest digits from
    /// which the same number is read.
    private func bytes(at index: Int32) -> [UInt8] {
        if lua_type(lua, index) == LUA_TNUMBER {
            let number = lua_tonumber(lua, index)
            return Array((Int64(exactly: number).map { "\($0)" } ?? "\(number)").utf8)
        }
        var count = 0
        guard let text = lua_tolstring(lua, index, &count) else { return [] }
        return Array(UnsafeRawBufferPointer(start: text, count: count))
    }

    /// A value as Redis converts it to RESP 2.
    private func reply(at index: Int32) -> RedisReply {
        switch lua_type(lua, index) {
        case LUA_TSTRING: return .bytes(bytes(at: index))
        case LUA_TNUMBER: return .integer(Int64(lua_tonumber(lua, index)))
        case LUA_TBOOLEAN: return lua_toboolean(lua, index) == 0 ? .null : .integer(1)
        case LUA_TTABLE:
            for (field, make) in [("err", RedisReply.error), ("ok", RedisReply.status)] {
                lua_getfield(lua, index, field)
                defer { lua_settop(lua, -2) }
                if lua_type(lua, -1) == LUA_TSTRING { return make(String(decoding: bytes(at: -1), as: UTF8.self)) }
            }
            var elements: [RedisReply] = []
            while true {
                lua_rawgeti(lua, index, Int32(elements.count + 1))
                defer { lua_settop(lua, -2) }
                // An array ends before the first nil.
                guard lua_type(lua, -1) != LUA_TNIL else { return .array(elements) }
                elements.append(reply(at: lua_gettop(lua)))
            }
        default: return .null
        }
    }
}
