// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The fields of a certificate that matter for a push provider.
package struct CertificateFacts: Sendable, Equatable {
    /// The APNs environments in which a push certificate is valid.
    package enum Environment: Sendable, Equatable {
        case development, production, both
    }

    /// The subject's common name.
    package var commonName: String?
    /// The subject's user id, in which Apple writes the app's bundle id.
    package var userID: String?
    /// The APNs environment; `nil` if the certificate names none, for instance because Apple did not issue it.
    package var environment: Environment?
    /// The start of the validity period, Unix time in seconds.
    package var notBefore: Int64
    /// The end of the validity period, Unix time in seconds.
    package var notAfter: Int64

    // The object identifiers of Apple's extensions "APNs development" and "APNs production".
    private static let developmentExtension = "1.2.840.113635.100.6.3.1"
    private static let productionExtension = "1.2.840.113635.100.6.3.2"
}

extension CertificateFacts {
    /// Reads the first certificate in a PEM text; `nil` if there is none.
    package init?(pem: [UInt8]) {
        defer { ERR_clear_error() }
        guard let certificate = withBIO(reading: pem, readCertificate) else { return nil }
        defer { X509_free(certificate) }
        commonName = subjectEntry(NID_commonName, of: certificate)
        userID = subjectEntry(NID_userId, of: certificate)
        environment =
            switch (Self.has(Self.developmentExtension, certificate), Self.has(Self.productionExtension, certificate)) {
            case (true, true): .both
            case (true, false): .development
            case (false, true): .production
            case (false, false): nil
            }
        (notBefore, notAfter) = certificateValidity(of: certificate)
    }

    /// The app's bundle id, from the user id or the end of a common name like `Apple Push Services: com.example.app`.
    package var topic: String? {
        if let userID, !userID.isEmpty { return userID }
        guard let commonName, let colon = commonName.lastIndex(of: ":") else { return nil }
        let topic = commonName[colon...].dropFirst().drop { $0 == " " }
        return topic.isEmpty ? nil : String(topic)
    }

    private static func has(_ identifier: String, _ certificate: OpaquePointer) -> Bool {
        guard let object = OBJ_txt2obj(identifier, 1) else { return false }
        defer { ASN1_OBJECT_free(object) }
        return X509_get_ext_by_OBJ(certificate, object, -1) >= 0
    }
}
