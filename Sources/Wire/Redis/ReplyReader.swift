// SPDX-License-Identifier: Apache-2.0

import CHiredis

/// Reads the replies of a Redis server from its bytes, with hiredis' parser. Bounded: see ``maximumReply``,
/// ``maximumArrayLength`` and ``maximumParts``.
package final class ReplyReader {
    /// Maximum number of bytes that wait for the end of a reply.
    static let maximumReply = 16 << 20
    /// Maximum number of elements of an array.
    static let maximumArrayLength = 1 << 16
    /// Maximum number of parts of a reply, arrays and their elements.
    static let maximumParts = 1 << 18

    /// hiredis calls these for each part of a reply, parents before their elements. The objects that they return are
    /// numbers of ``parts``, from 1 on, in the form of pointers. `unsafe`, because hiredis takes a pointer to the
    /// variable; nothing changes it.
    nonisolated(unsafe) private static var functions = {
        // hiredis 1.0 has functions for types of RESP 3, too. They are not set: a node does not ask for RESP 3, and
        // such a part of a reply then has its type's number in place of an object.
        var functions = redisReplyObjectFunctions()
        functions.createString = { task, start, count in
            let bytes = UnsafeRawBufferPointer(start: start, count: count)
            switch task!.pointee.type {
            case REDIS_REPLY_STATUS: return add(.status(String(decoding: bytes, as: UTF8.self)), task)
            case REDIS_REPLY_ERROR: return add(.error(String(decoding: bytes, as: UTF8.self)), task)
            default: return add(.bytes(Array(bytes)), task)
            }
        }
        functions.createArray = { task, count in count <= maximumArrayLength ? add(.array([]), task) : nil }
        functions.createInteger = { task, number in add(.integer(number), task) }
        functions.createNil = { task in add(.null, task) }
        functions.freeObject = { _ in }
        return functions
    }()

    /// A part of a reply, with the numbers of its elements if it is an array.
    private struct Part {
        let value: RedisReply
        var elements: [Int] = []
    }

    private let reader: UnsafeMutablePointer<redisReader>
    private var parts: [Part] = []

    package init() {
        guard let reader = redisReaderCreateWithFunctions(&Self.functions) else { fatalError("no memory for a parser") }
        self.reader = reader
        reader.pointee.privdata = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit { redisReaderFree(reader) }

    private static func add(_ value: RedisReply, _ task: UnsafePointer<redisReadTask>?) -> UnsafeMutableRawPointer? {
        guard let task, let context = task.pointee.privdata else { return nil }
        let reader = Unmanaged<ReplyReader>.fromOpaque(context).takeUnretainedValue()
        guard reader.parts.count < maximumParts else { return nil }
        reader.parts.append(Part(value: value))
        if let parent = task.pointee.parent {
            reader.parts[Int(bitPattern: parent.pointee.obj) - 1].elements.append(reader.parts.count - 1)
        }
        return UnsafeMutableRawPointer(bitPattern: reader.parts.count)
    }

    /// Adds bytes from the server.
    /// - Throws: ``RedisError/malformed(_:)`` if more than ``maximumReply`` bytes would wait.
    package func append(_ bytes: RawSpan) throws(RedisError) {
        guard reader.pointee.len - reader.pointee.pos + bytes.byteCount <= Self.maximumReply else {
            throw .malformed("more than \(Self.maximumReply) bytes")
        }
        let isTaken = bytes.withUnsafeBytes {
            redisReaderFeed(reader, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count) == REDIS_OK
        }
        guard isTaken else { throw problem }
    }

    /// The next whole reply; `nil` if its end has not arrived.
    /// - Throws: ``RedisError/malformed(_:)``.
    package func next() throws(RedisError) -> RedisReply? {
        var found: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &found) == REDIS_OK else { throw problem }
        guard let found else { return nil }
        defer { parts.removeAll(keepingCapacity: true) }
        // The first part of a reply is the reply.
        guard !parts.isEmpty, Int(bitPattern: found) == 1 else { throw .malformed("a type that Redis 2 does not have") }
        return reply(0)
    }

    private func reply(_ number: Int) -> RedisReply {
        guard case .array = parts[number].value else { return parts[number].value }
        return .array(parts[number].elements.map(reply))
    }

    private var problem: RedisError {
        // hiredis reports a part that is not created as a lack of memory.
        if reader.pointee.err == REDIS_ERR_OOM { return .malformed("an array is too long, or has too many parts") }
        let text = withUnsafeBytes(of: reader.pointee.errstr) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return .malformed(text)
    }
}
