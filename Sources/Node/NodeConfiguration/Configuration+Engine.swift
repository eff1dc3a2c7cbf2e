// SPDX-License-Identifier: Apache-2.0

import Cluster
import Cryptography
import EventLoop
import Glibc
import Settings

extension Configuration.Cluster {
    /// The settings of the engine, with the content of the files that the table names.
    /// - Throws: ``ConfigurationError``, which contains nothing of the files.
    package func engineSettings(in configuration: Configuration) throws(ConfigurationError) -> EngineSettings {
        func problem(_ key: String, _ text: String) -> ConfigurationError {
            ConfigurationError(file: configuration.file, key: "cluster.\(key)", problem: text)
        }
        let secret: SecretBytes
        do {
            secret = try KeyFile.read(keyFile, copies: configuration.copies)
        } catch {
            throw problem("key_file", error.description)
        }
        var settings = EngineSettings(
            cluster: name, node: node ?? Self.machine, address: redis.map { .direct($0) } ?? .sentinels(sentinels),
            secret: secret)
        settings.user = user
        if let passwordFile {
            do {
                settings.password = try ConfiguredFile.secretLine(passwordFile, copies: configuration.copies)
            } catch {
                throw problem("password_file", "\(passwordFile): \(error.text)")
            }
        }
        guard usesTLS else { return settings }
        let authorities = try trustFile.map { file throws(ConfigurationError) in
            try ConfiguredFile.read(
                file, for: "cluster.trust_file", in: configuration.file, copies: configuration.copies)
        }
        do {
            settings.tls = try TLSContext.client(
                authorities: TrustedAuthorities(and: authorities), applicationProtocol: nil)
        } catch {
            throw problem("trust_file", "\(error)")
        }
        return settings
    }

    /// The name of the machine, up to its first dot; `node` if that cannot be the name of a node.
    private static var machine: String {
        var name = [CChar](repeating: 0, count: 65)
        guard gethostname(&name, name.count - 1) == 0 else { return "node" }
        let text = String(decoding: name.prefix { $0 != 0 && $0 != 0x2E }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return Configuration.isClusterName(text) ? text : "node"
    }
}
