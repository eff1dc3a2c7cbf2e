// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Redis
import Time

/// Connects to the engine's primary, and makes sure that this node may share its state.
package struct EngineHandshake {
    /// How long it may take to open a connection.
    private static let dialTimeout = Duration.seconds(5)
    private static let epochLength = 8

    let settings: EngineSettings
    let names: KeyNames
    let loop: EventLoop

    /// Connects, and loads the functions.
    /// - Parameter primary: the address of the engine's primary.
    /// - Returns: the connection, and the epoch of the engine's state.
    /// - Throws: ``EngineProblem``.
    func connect(
        to primary: Endpoint, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> (connection: RedisConnection, epoch: [UInt8]) {
        let connection = try await open(primary)
        do throws(EngineProblem) {
            try await authenticate(connection)
            try await checkRole(of: connection)
            return (connection, try await join(connection))
        } catch {
            connection.close(.disconnected(error.description))
            throw error
        }
    }

    /// Whether the engine answers a PING from a client that has not logged in.
    func isOpenToStrangers(at primary: Endpoint, isolation: isolated (any Actor)? = #isolation) async -> Bool {
        // The mode of a Unix socket decides who can connect.
        if case .unix = primary { return false }
        guard let connection = try? await open(primary) else { return false }
        defer { connection.close(.disconnected("the check has ended")) }
        return (try? await connection.call(RedisCommand("PING"))) != nil
    }

    private func open(
        _ endpoint: Endpoint, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisConnection {
        do {
            return RedisConnection(try await loop.dial(endpoint, tls: settings.tls, timeout: Self.dialTimeout))
        } catch {
            throw EngineProblem("cannot connect to \(endpoint): \(error)")
        }
    }

    private func call(
        _ command: RedisCommand, on connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        do {
            return try await connection.call(command)
        } catch {
            throw EngineProblem(error, user: settings.user)
        }
    }

    // MARK: After the connection

    private func authenticate(
        _ connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) {
        guard let password = settings.password else { return }
        var command = RedisCommand("AUTH")
        if let user = settings.user { command.append(user) }
        password.withBytes { $0.withUnsafeBytes { command.append($0) } }
        _ = try await call(command, on: connection)
    }

    private func checkRole(
        of connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) {
        let reply = try await call(RedisCommand("ROLE"), on: connection)
        guard reply.elements?.first?.text == "master" else {
            throw EngineProblem(.refused("READONLY"), user: settings.user)
        }
    }

    /// Loads the functions, and compares layout and key with those of the nodes that use the engine.
    private func join(
        _ connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> [UInt8] {
        do {
            _ = try await connection.call(RedisCommand("FUNCTION", "LOAD", FunctionLibrary.current.text))
        } catch {
            guard case .refused(let text) = error, text.hasSuffix("already exists") else {
                throw EngineProblem(error, user: settings.user)
            }
        }
        var kinds: [KeyNames.Kind] = [.schema, .check, .epoch]
        if settings.handleCheck != nil { kinds.append(.handleCheck) }
        var command = RedisCommand(.open, keys: kinds.map { names.name($0) })
        let check = names.hash(of: [], as: .check)
        command.append("\(FunctionLibrary.schema)")
        command.append(check)
        command.append(SecureRandom.bytes(Self.epochLength))
        let handleCheck = settings.handleCheck.map { names.hash(of: $0, as: .handleCheck) }
        if let handleCheck { command.append(handleCheck) }
        guard let values = try await call(command, on: connection).elements, values.count == kinds.count,
            let schema = values[0].text.flatMap({ Int($0, radix: 10) }), let epoch = values[2].bytes
        else { throw EngineProblem("the engine's state is not that of a cluster of Tocsin nodes") }
        if schema > FunctionLibrary.schema {
            throw EngineProblem(
                "the engine holds the state of newer nodes (layout \(schema); this node knows \(FunctionLibrary.schema)): upgrade this node"
            )
        }
        if schema < FunctionLibrary.schema {
            throw EngineProblem(
                "the engine holds the state of older nodes (layout \(schema); this node needs \(FunctionLibrary.schema)): stop all older nodes, and give the cluster another cluster.name"
            )
        }
        guard values[1].bytes == check else {
            throw EngineProblem(
                "cluster.key_file is not the key of the other nodes: copy theirs, or use another cluster.name")
        }
        if let handleCheck, values[3].bytes != handleCheck {
            throw EngineProblem(
                "handles.key is not that of the other nodes: stop this node, remove handles.* from its state directory, and copy their handles.key there"
            )
        }
        return epoch
    }
}
