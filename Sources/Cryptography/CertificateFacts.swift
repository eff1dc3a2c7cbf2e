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

    /// - Parameters: as the properties of the same names.
    package init(
        commonName: String?, userID: String?, environment: Environment?, notBefore: Int64, notAfter: Int64
    ) {
        self.commonName = commonName
        self.userID = userID
        self.environment = environment
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    // The object identifiers of Apple's extensions "APNs development" and "APNs production".
    private static let developmentExtension = "1.2.840.113635.100.6.3.1"
    private static let productionExtension = "1.2.840.113635.100.6.3.2"
    private static let longestName = 256

    /// Reads the first certificate in a PEM text; `nil` if there is none.
    package init?(pem: [UInt8]) {
        defer { ERR_clear_error() }
        let certificate = withBIO(reading: pem) { PEM_read_bio_X509($0, nil, nil, nil) } ?? nil
        guard let certificate else { return nil }
        defer { X509_free(certificate) }
        let subject = X509_get_subject_name(certificate)
        let isOfDevelopment = Self.has(Self.developmentExtension, certificate)
        let isOfProduction = Self.has(Self.productionExtension, certificate)
        let environment: Environment? =
            switch (isOfDevelopment, isOfProduction) {
            case (true, true): .both
            case (true, false): .development
            case (false, true): .production
            case (false, false): nil
            }
        self.init(
            commonName: Self.name(NID_commonName, in: subject), userID: Self.name(NID_userId, in: subject),
            environment: environment, notBefore: certificate.notBefore, notAfter: certificate.notAfter)
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

    private static func name(_ identifier: Int32, in subject: OpaquePointer?) -> String? {
        var text = [CChar](repeating: 0, count: longestName)
        let length = X509_NAME_get_text_by_NID(subject, identifier, &text, Int32(text.count))
        guard length >= 0 else { return nil }
        return String(validating: text.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension OpaquePointer {
    /// The start of the validity period of this X509 certificate, Unix time in seconds.
    fileprivate var notBefore: Int64 {
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard let epoch = ASN1_TIME_set(nil, 0) else { return 0 }
        defer { ASN1_STRING_free(epoch) }
        ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notBefore(self))
        return Int64(days) * 86_400 + Int64(seconds)
    }
}
