// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import StandIns
import TestSupport
import Testing

@testable import Cryptography

/// OpenSSL signs with a key that another process has: here, with one that is a Swift object.
@Suite(.tags(.computing)) struct RemoteKeyTests {
    private final class Remote: RemoteKey {
        let key: CertifiedKey
        let isReachable: Bool

        init(_ key: CertifiedKey, isReachable: Bool = true) {
            self.key = key
            self.isReachable = isReachable
        }

        func sign(_ input: [UInt8], padding: Int32) -> [UInt8]? {
            isReachable ? key.sign(input, padding: padding) : nil
        }
    }

    /// How OpenSSL signs in TLS: ECDSA and RSA as in TLS 1.2, and RSA-PSS as in TLS 1.3.
    enum Scheme: CaseIterable {
        case ecdsa, rsa, rsaPSS

        var key: CertificateAuthority.KeyKind { self == .ecdsa ? .ecdsa : .rsa }
    }

    private let message = Array("a transcript of a handshake".utf8)

    private func issue(_ kind: CertificateAuthority.KeyKind) -> CertifiedKey {
        CertificateAuthority(name: "test").issue(subject: "client", purpose: .client, key: kind)
    }

    private func remote(_ key: any RemoteKey, _ certificates: [UInt8]) -> CertifiedKey {
        CertifiedKey(certificates: certificates, privateKey: .remote(key), notAfter: 0)
    }

    private func setPadding(_ context: OpaquePointer?, _ scheme: Scheme) -> Bool {
        scheme != .rsaPSS || cssl_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
    }

    private func sign(_ certified: CertifiedKey, _ scheme: Scheme) -> [UInt8]? {
        defer { ERR_clear_error() }
        guard let key = certified.makeKey() else { return nil }
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
        }
        var padding: OpaquePointer?
        var length = 512
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSignInit(context, &padding, EVP_sha256(), nil, key) == 1, setPadding(padding, scheme),
            EVP_DigestSign(context, &signature, &length, message, message.count) == 1
        else { return nil }
        return Array(signature.prefix(length))
    }

    private func isValid(_ signature: [UInt8], _ certificates: [UInt8], _ scheme: Scheme) throws -> Bool {
        let certificate = try #require(withBIO(reading: certificates, readCertificate))
        let context = EVP_MD_CTX_new()
        defer {
            X509_free(certificate)
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        var padding: OpaquePointer?
        return EVP_DigestVerifyInit(context, &padding, EVP_sha256(), nil, X509_get0_pubkey(certificate)) == 1
            && setPadding(padding, scheme)
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    @Test(arguments: Scheme.allCases) func `a remote key signs as one that is here`(_ scheme: Scheme) throws {
        let key = issue(scheme.key)
        for certified in [key, remote(Remote(key), key.certificates)] {
            let signature = try #require(sign(certified, scheme))
            #expect(try isValid(signature, key.certificates, scheme))
        }
    }

    @Test(arguments: Scheme.allCases) func `a remote key that does not answer signs nothing`(_ scheme: Scheme) {
        let key = issue(scheme.key)
        #expect(sign(remote(Remote(key, isReachable: false), key.certificates), scheme) == nil)
    }

    @Test func `a remote key is released with the last key of OpenSSL`() throws {
        let key = issue(.ecdsa)
        var signer: Remote? = Remote(key)
        weak let released = signer
        var certified: CertifiedKey? = remote(try #require(signer), key.certificates)
        let made = try #require(certified?.makeKey())
        (signer, certified) = (nil, nil)
        #expect(released != nil)
        EVP_PKEY_free(made)
        #expect(released == nil)
    }

    @Test func `a raw signature needs a key that is here and a padding of TLS`() {
        let key = issue(.rsa)
        #expect(remote(Remote(key), key.certificates).sign(message, padding: RSA_PKCS1_PADDING) == nil)
        #expect(key.sign([UInt8](repeating: 1, count: 51), padding: RSA_PKCS1_PADDING)?.count == 256)
        for padding in [RSA_PKCS1_OAEP_PADDING, RSA_X931_PADDING, 0, -1] {
            #expect(key.sign([UInt8](repeating: 1, count: 32), padding: padding) == nil)
        }
        // Not the length of the key.
        #expect(key.sign([1], padding: RSA_NO_PADDING) == nil)
    }
}
