// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Returns the reason of the oldest error in this thread's OpenSSL error queue, and clears the queue.
package func openSSLReason() -> String {
    let code = ERR_get_error()
    ERR_clear_error()
    guard code != 0, let reason = ERR_reason_error_string(code) else { return "no reason given" }
    return String(cString: reason)
}

/// The bytes that `write` writes to a memory BIO; empty unless `write` returns 1.
package func bytes(writtenBy write: (OpaquePointer) -> Int32) -> [UInt8] {
    guard let bio = cssl_memory_bio() else { return [] }
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { return [] }
    var data: UnsafeMutablePointer<CChar>?
    let length = cssl_bio_data(bio, &data)
    guard let data, length > 0 else { return [] }
    return UnsafeRawBufferPointer(start: data, count: length).map { $0 }
}

/// Calls `body` with a memory BIO that reads `bytes`.
package func withBIO<Result>(reading bytes: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
    bytes.withUnsafeBytes { withBIO(reading: $0, body) }
}

func withBIO<Result>(reading bytes: UnsafeRawBufferPointer, _ body: (OpaquePointer) -> Result?) -> Result? {
    guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
    defer { BIO_free(bio) }
    return body(bio)
}

/// Reads an unencrypted private key in PEM form. The callback supplies no pass phrase: OpenSSL must never prompt on the
/// terminal.
func readPrivateKey(_ bio: OpaquePointer) -> OpaquePointer? {
    PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil)
}

/// Reads the first certificate in a PEM text. The caller must free it.
func readCertificate(_ bio: OpaquePointer) -> OpaquePointer? { PEM_read_bio_X509(bio, nil, nil, nil) }

/// A private key as unencrypted PKCS #8 in PEM form.
package func pem(ofPrivateKey key: OpaquePointer) -> [UInt8] {
    bytes { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
}

/// An X509 certificate in PEM form.
package func pem(ofCertificate certificate: OpaquePointer) -> [UInt8] {
    bytes { PEM_write_bio_X509($0, certificate) }
}

/// The validity period of an X509 certificate, as Unix times in seconds.
package func certificateValidity(of certificate: OpaquePointer) -> (notBefore: Int64, notAfter: Int64) {
    guard let epoch = ASN1_TIME_set(nil, 0) else { return (0, 0) }
    defer { ASN1_STRING_free(epoch) }
    func unixTime(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var days: Int32 = 0
        var seconds: Int32 = 0
        ASN1_TIME_diff(&days, &seconds, epoch, time)
        return Int64(days) * 86_400 + Int64(seconds)
    }
    return (unixTime(X509_get0_notBefore(certificate)), unixTime(X509_get0_notAfter(certificate)))
}

/// An entry of the subject of an X509 certificate, at most 255 bytes of it; `nil` if there is none or it is not UTF-8.
package func subjectEntry(_ identifier: Int32, of certificate: OpaquePointer) -> String? {
    var text = [CChar](repeating: 0, count: 256)
    let subject = X509_get_subject_name(certificate)
    let length = X509_NAME_get_text_by_NID(subject, identifier, &text, Int32(text.count))
    guard length >= 0 else { return nil }
    return String(validating: text.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
