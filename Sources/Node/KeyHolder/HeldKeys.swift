// SPDX-License-Identifier: Apache-2.0

import Cryptography
import NodeConfiguration
import Providers
import Settings
import Time

/// The keys of a key holder. Only ``load(_:)`` reads files; after it, requests and the time go in, answers come out.
package struct HeldKeys {
    private var keys: [Int: (file: String, key: any HeldKey)] = [:]
    /// The provider tokens that were issued.
    package var issued: IssuedTokens

    var count: Int { keys.count }

    /// - Parameter issued: the provider tokens that earlier key holders of this node have issued.
    package init(issued: IssuedTokens) { self.issued = issued }

    /// Reads the configuration and all keys.
    /// - Parameter file: the configuration file.
    package mutating func load(_ file: String) -> HolderReport {
        var report = HolderReport(copies: FileCopies(), credentials: [])
        report.copies.add(file, atMost: ConfiguredFile.maximumBytes)
        // The node reports what is wrong with the configuration.
        guard let configuration = try? Configuration(file: file, copies: report.copies) else { return report }
        let state = configuration.canonicalState
        for other in configuration.otherFiles {
            report.copies.add(other, atMost: ConfiguredFile.maximumBytes, notBeneath: state)
        }
        for reference in configuration.credentials {
            do {
                let loaded = try CredentialFiles().load(reference)
                keys[report.credentials.count] = (reference.files[0], loaded.credential.key)
                report.credentials.append(
                    HolderReport.Entry(
                        reference: reference, result: .facts(Base64Bytes(loaded.credential.facts)),
                        fingerprint: Base64Bytes(loaded.fingerprint.bytes)))
            } catch {
                report.credentials.append(
                    HolderReport.Entry(reference: reference, result: .unusable(error), fingerprint: Base64Bytes()))
            }
        }
        return report
    }

    /// Answers a request.
    package mutating func answer(_ request: HolderRequest, at time: ClockReading) -> KeyAnswer {
        guard var held = keys[request.credential] else { return .refused }
        let answer = held.key.answer(request.question.bytes, about: held.file, at: time, &issued)
        keys[request.credential] = held
        return answer
    }
}
