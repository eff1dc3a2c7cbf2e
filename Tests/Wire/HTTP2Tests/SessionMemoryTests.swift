// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import Glibc
import TestSupport
import Testing

/// The memory that nghttp2's sessions use (`CNGHTTP2`).
@Suite(.tags(.computing)) struct SessionMemoryTests {
    /// The functions, for the memory of one session.
    private func withMemory(_ body: (nghttp2_mem) throws -> Void) throws {
        let memory = try #require(tocsin_session_memory_new())
        defer { tocsin_session_memory_del(memory) }
        try body(tocsin_session_memory_functions(memory))
    }

    @Test func `blocks of every size hold what is written, each its own`() throws {
        try withMemory { memory in
            for _ in 0..<2 {
                let sizes = Array(0...700) + [4096, 100_000]
                let blocks = try sizes.map { try #require(memory.malloc($0, memory.mem_user_data)) }
                for (number, block) in blocks.enumerated() {
                    memset(block, Int32(number % 251), sizes[number])
                    #expect(UInt(bitPattern: block) % 16 == 0)
                }
                for (number, block) in blocks.enumerated() {
                    let bytes = UnsafeRawBufferPointer(start: block, count: sizes[number])
                    #expect(bytes.allSatisfy { $0 == UInt8(number % 251) })
                    memory.free(block, memory.mem_user_data)
                }
            }
        }
    }

    @Test func `a block that grows keeps its content`() throws {
        try withMemory { memory in
            var block = try #require(memory.realloc(nil, 10, memory.mem_user_data))
            memset(block, 7, 10)
            for size in [64, 65, 500, 513, 5000] {
                block = try #require(memory.realloc(block, size, memory.mem_user_data))
                #expect(UnsafeRawBufferPointer(start: block, count: 10).allSatisfy { $0 == 7 })
            }
            memory.free(block, memory.mem_user_data)
        }
    }

    @Test func `zeroed memory is zero, also where a block was used before`() throws {
        try withMemory { memory in
            let used = try #require(memory.malloc(128, memory.mem_user_data))
            memset(used, 0xff, 128)
            memory.free(used, memory.mem_user_data)
            let block = try #require(memory.calloc(2, 64, memory.mem_user_data))
            #expect(UnsafeRawBufferPointer(start: block, count: 128).allSatisfy { $0 == 0 })
            memory.free(block, memory.mem_user_data)
        }
    }

    @Test func `sizes that no address space has are refused`() throws {
        try withMemory { memory in
            #expect(memory.malloc(.max, memory.mem_user_data) == nil)
            #expect(memory.calloc(.max, 2, memory.mem_user_data) == nil)
        }
    }
}
