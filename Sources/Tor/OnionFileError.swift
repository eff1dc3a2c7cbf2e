// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why files of an onion service cannot be used: what, where, and what to do. Holds nothing of a key.
package enum OnionFileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// There is no such file or directory.
    case missing(file: String)
    /// Not only its owner may read the key file.
    case readableByOthers(file: String)
    /// It is no such file as it should be.
    case broken(file: String, problem: String)
    /// The public key file belongs to another secret key.
    case mismatch(directory: String)
    /// The keys were used by a service that did not hide its machine.
    case nonAnonymous(directory: String)
    /// The keys of another address lie there.
    case occupied(directory: String, address: OnionAddress)
    /// No name for an authorised client.
    case badName
    /// A client of this name is authorised already.
    case clientExists(ClientName)
    /// No client of this name is authorised.
    case noSuchClient(ClientName, directory: String)
    /// No more clients fit into the service's descriptor.
    case tooManyClients(limit: Int)
    /// Without this client the onion is open to everybody.
    case lastClient(ClientName)
    /// The operating system refuses: what was to be done, with which file, and its error number.
    case system(String, String, Int32)

    package var description: String {
        switch self {
        case .missing(let file):
            "there is no \(file); name the directory that tor calls HiddenServiceDir"
        case .readableByOthers(let file):
            """
            the key \(file) can be read by others than its owner, who could take the onion over; if nobody has, run: \
            chmod 600 \(file)
            """
        case .broken(let file, let problem):
            "\(file) cannot be used: \(problem); put it back from a backup"
        case .mismatch(let directory):
            """
            \(directory): \(OnionKeys.publicFile) does not belong to \(OnionKeys.secretFile), so it is not clear which \
            address is meant; if the secret key is the right one, remove the public one and try again
            """
        case .nonAnonymous(let directory):
            """
            the keys in \(directory) served an onion that did not hide its machine, so its place may be known; tor \
            refuses them for one that hides: take a new address
            """
        case .occupied(let directory, let address):
            """
            \(directory) holds the keys of \(address); to give that address up, stop the node and move the directory \
            away, then try again
            """
        case .badName:
            "a client's name must be 1 to 64 of the letters a-z and A-Z, digits, - and _"
        case .clientExists(let name):
            "\(name) is authorised already; to make a new key for it, revoke it first, or take another name"
        case .noSuchClient(let name, let directory):
            "no client \(name) is authorised in \(directory); tocsin onion list shows who is"
        case .tooManyClients(let limit):
            "\(limit) clients are authorised, and no more fit into the onion's descriptor; revoke those that are not used"
        case .lastClient(let name):
            """
            \(name) is the last client: without it everybody who knows the address can connect. Authorise another one \
            first, or say that this is wanted: --open-to-all
            """
        case .system(let action, let path, let code):
            "cannot \(action) \(path): \(String(cString: strerror(code)))"
        }
    }
}
