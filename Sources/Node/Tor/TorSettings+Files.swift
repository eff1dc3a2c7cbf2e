// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

extension TorSettings {
    /// Writes what the node's own tor needs before it starts: its torrc, and the files of its onions.
    /// - Parameters:
    ///   - services: the onions, from ``services(tnp:http:)``.
    ///   - build: the tor program.
    ///   - controller: the pid of the node if tor is its child process.
    ///   - extra: further lines for the torrc, e.g. those of a private network.
    /// - Throws: ``TorProblem`` or ``OnionFileError``.
    package func writeFiles(
        for services: [TorConfiguration.Service], _ build: TorBuild, controller: Int32?, extra: [String] = []
    ) throws {
        let configuration = try TorConfiguration(
            self, services: services, controller: controller, hasProofOfWork: build.hasProofOfWork, extra: extra)
        try OnionFile.makeDirectory(directory)
        // The directory holds the onion's keys; tor refuses a directory that other users can access.
        try setMode(of: directory)
        if runner == .service { try OnionFile.makeDirectory(controlDirectory) }
        for onion in onions where onion.isClosed { try close(self.directory(of: onion.name)) }
        // tor skips a client whose file is damaged, and would open an onion that has only such clients.
        for service in services where try !AuthorizedClients(serviceDirectory: service.directory).list().isEmpty {
            try close(service.directory)
        }
        for service in services {
            guard let file = service.onionBalanceFile else { continue }
            try OnionFile.makeDirectory(service.directory)
            try OnionFile.replace(file.path, with: Array(file.text.utf8).span.bytes)
        }
        // tor does not change the modes of existing directories, and refuses an onion whose directory other users can
        // read. Directories restored from a backup often have other modes.
        for directory in services.flatMap({ [$0.directory, "\($0.directory)/authorized_clients"] })
        where OnionFile.exists(directory) { try setMode(of: directory) }
        try OnionFile.replace(torrc, with: Array(configuration.text.utf8).span.bytes)
    }

    /// Lets only tor's user access a directory; if systemd runs tor, tor's group, to which the node belongs, may read
    /// it.
    private func setMode(of directory: String) throws(OnionFileError) {
        guard chmod(directory, runner == .service ? 0o750 : 0o700) == 0 else {
            throw .system(action: "set the mode of", path: directory, errno: errno)
        }
    }

    /// The problems that prevent tor from serving onions, or an authorised sender from connecting. Files that this user
    /// may not read are not checked.
    package func problems(of services: [TorConfiguration.Service], _ build: TorBuild) -> [String] {
        var problems: [String] = []
        do throws(TorProblem) {
            _ = try TorConfiguration(self, services: services, controller: nil, hasProofOfWork: build.hasProofOfWork)
        } catch {
            problems.append("\(error)")
        }
        for service in services {
            do throws(OnionFileError) {
                _ = try OnionKeys.address(in: service.directory)
                for client in try AuthorizedClients(serviceDirectory: service.directory).list() where !client.isValid {
                    problems.append(
                        "tor cannot read the key of sender \(client.name) in \(service.directory)/authorized_clients, so it"
                            + " cannot connect: restore the file, or revoke the sender and authorise it again")
                }
            } catch .system(_, _, EACCES) {
            } catch {
                problems.append("\(error)")
            }
        }
        return problems
    }

    /// Authorises a random key for an onion without a valid authorised sender, because tor would open such an onion to
    /// everyone.
    private func close(_ directory: String) throws(OnionFileError) {
        let clients = AuthorizedClients(serviceDirectory: directory)
        guard try !clients.list().contains(where: \.isValid) else { return }
        try OnionFile.makeDirectory(directory)
        try clients.authorize(SecureRandom.bytes(32), as: .nobody)
    }
}
