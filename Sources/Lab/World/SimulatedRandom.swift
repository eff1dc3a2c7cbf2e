// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import CSodium

/// The source of random bytes of a simulation. It takes the place of libsodium's and OpenSSL's in the whole process, which
/// must have one thread only.
package enum SimulatedRandom {
    /// Fills the buffer with random bytes. Unsafe, because a simulation has one thread.
    nonisolated(unsafe) private static var fill: (UnsafeMutableRawBufferPointer) -> Void = { _ in }

    /// Takes all random bytes of the process from `fill`. There is no way back: nothing secret may be made in this process.
    package static func use(_ fill: @escaping (UnsafeMutableRawBufferPointer) -> Void) {
        self.fill = fill
        // Both libraries keep the pointers.
        let sodium = UnsafeMutablePointer<randombytes_implementation>.allocate(capacity: 1)
        sodium.initialize(
            to: randombytes_implementation(
                implementation_name: { simulatedName }, random: { SimulatedRandom.word() }, stir: nil, uniform: nil,
                buf: { bytes, count in SimulatedRandom.fill(bytes, count) }, close: nil))
        randombytes_set_implementation(sodium)
        let openSSL = UnsafeMutablePointer<RAND_METHOD>.allocate(capacity: 1)
        let bytes: @convention(c) (UnsafeMutablePointer<UInt8>?, Int32) -> Int32 = { bytes, count in
            SimulatedRandom.fill(bytes, Int(count))
            return 1
        }
        openSSL.initialize(
            to: RAND_METHOD(
                seed: { _, _ in 1 }, bytes: bytes, cleanup: nil, add: { _, _, _ in 1 }, pseudorand: bytes,
                status: { 1 }))
        cssl_take_random(openSSL)
    }

    private static func fill(_ bytes: UnsafeMutableRawPointer?, _ count: Int) {
        fill(UnsafeMutableRawBufferPointer(start: bytes, count: count))
    }

    private static func word() -> UInt32 {
        var number: UInt32 = 0
        withUnsafeMutableBytes(of: &number) { fill($0) }
        return number
    }
}

/// The name of the source, which libsodium keeps a pointer to. Unsafe, because a pointer is not Sendable; nothing writes
/// to it later.
nonisolated(unsafe) private let simulatedName: UnsafePointer<CChar> = {
    let text = "simulated"
    let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.utf8.count + 1)
    text.withCString { copy.update(from: $0, count: text.utf8.count + 1) }
    return UnsafePointer(copy)
}()
