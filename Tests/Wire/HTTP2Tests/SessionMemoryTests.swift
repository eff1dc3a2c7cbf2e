// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import Glibc
import TestSupport
import Testing

/// The memory that nghttp2's sessions use (`CNGHTTP2`).
@Suite(.tags(.computing)) struct SessionMemoryTests {
    /// The functions, for the memory of one session.
    private func withMemory(_ body: (nghttp2_mem, _ kept: () -> Int) throws -> Void) throws {
        let memory = try #require(tocsin_session_memory_new())
        defer { tocsin_session_memory_del(memory) }
        try body(tocsin_session_memory_functions(memory)) { tocsin_session_memory_kept(memory) }
    }

    @Test func `blocks of every size hold what is written, each its own`() throws {
        try withMemory { memory, _ in
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
        try withMemory { memory, _ in
            var block = try #require(memory.realloc(nil, 10, memory.mem_user_data))
            memset(block, 7, 10)
            var size = 10
            for larger in [64, 65, 500, 513, 5000] {
                block = try #require(memory.realloc(block, larger, memory.mem_user_data))
                #expect(UnsafeRawBufferPointer(start: block, count: size).allSatisfy { $0 == 7 })
                memset(block, 7, larger)
                size = larger
            }
            memory.free(block, memory.mem_user_data)
        }
    }

    @Test func `a freed block serves the next request of its size, and is zero where that is asked for`() throws {
        try withMemory { memory, kept in
            let used = try #require(memory.malloc(128, memory.mem_user_data))
            memset(used, 0xff, 128)
            #expect(kept() == 0)
            memory.free(used, memory.mem_user_data)
            let keepsBlocks = kept() > 0
            let block = try #require(memory.calloc(2, 64, memory.mem_user_data))
            // AddressSanitizer's build keeps nothing.
            if keepsBlocks { #expect(block == used && kept() == 0) }
            #expect(UnsafeRawBufferPointer(start: block, count: 128).allSatisfy { $0 == 0 })
            memory.free(block, memory.mem_user_data)
        }
    }

    @Test func `a session keeps 64 KiB at most, and no large blocks`() throws {
        try withMemory { memory, kept in
            let large = try #require(memory.malloc(513, memory.mem_user_data))
            memory.free(large, memory.mem_user_data)
            #expect(kept() == 0)
            for size in [64, 500, 64] {
                let blocks = try (0..<2000).map { _ in try #require(memory.malloc(size, memory.mem_user_data)) }
                for block in blocks { memory.free(block, memory.mem_user_data) }
                #expect(kept() <= 64 * 1024)
            }
        }
    }

    @Test func `a number of objects whose size is no number is refused`() throws {
        try withMemory { memory, _ in
            #expect(memory.calloc(.max, 3, memory.mem_user_data) == nil)
        }
    }
}
