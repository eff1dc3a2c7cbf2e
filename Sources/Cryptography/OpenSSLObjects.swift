// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Returns the reason of the oldest error in this thread's OpenSSL error queue, and clears the queue.
func openSSLReason() -> String {
    let code = ERR_get_error()
    ERR_clear_error()
    guard code != 0, let reason = ERR_reason_error_string(code) else { return "no reason given" }
    return String(cString: reason)
}

/// The bytes that `write` writes to a memory BIO; empty if it fails.
func bytes(writtenBy write: (OpaquePointer) -> Int32) -> [UInt8] {
    guard let bio = cssl_memory_bio() else { return [] }
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { return [] }
    var data: UnsafeMutablePointer<CChar>?
    let length = cssl_bio_data(bio, &data)
    guard let data, length > 0 else { return [] }
    return UnsafeRawBufferPointer(start: data, count: length).map { $0 }
}

/// Calls `body` with a memory BIO that reads `bytes`.
func withBIO<Result>(reading bytes: [UInt8], _ body: (OpaquePointer) throws -> Result) rethrows -> Result? {
    try bytes.withUnsafeBytes { buffer in
        guard let bio = BIO_new_mem_buf(buffer.baseAddress, Int32(buffer.count)) else { return nil }
        defer { BIO_free(bio) }
        return try body(bio)
    }
}
