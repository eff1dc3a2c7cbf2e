// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Why the files of an onion service cannot be used, and what to do. Contains no key material.
package enum OnionFileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file or directory does not exist.
    case missing(file: String)
    /// Users other than the owner can access the key file.
    case accessibleByOthers(file: String)
    /// The file is malformed.
    case malformed(file: String, problem: String)
    /// The public key file belongs to another secret key.
    case mismatch(directory: String)
    /// The keys were used by a service that did not hide its machine.
    case nonAnonymous(directory: String)
    /// The directory holds the keys of another address.
    case occupied(directory: String, address: OnionAddress)
    /// The name is not valid for an authorised client.
    case badName
    /// The name of a client has a special meaning.
    case reservedName(ClientName)
    /// A client of this name is already authorised.
    case clientExists(ClientName)
    /// No client of this name is authorised.
    case noSuchClient(ClientName, directory: String)
    /// No more clients fit into the service's descriptor.
    case tooManyClients(limit: Int)
    /// This is the last client: without it, the onion would be open to every client.
    case lastClient(ClientName)
    /// A system call failed: the action, the path and the error number.
    case system(action: String, path: String, errno: Int32)

    package var description: String {
        switch self {
        case .missing(let file):
            "\(file) does not exist; specify the directory that tor calls HiddenServiceDir"
        case .accessibleByOthers(let file):
            """
            users other than its owner can access the key \(file), and anyone who has it can take over the onion; if \
            it has not been copied, run: chmod 600 \(file)
            """
        case .malformed(let file, let problem):
            "\(file) cannot be used: \(problem); correct it or restore it from a backup"
        case .mismatch(let directory):
            """
            \(directory): \(OnionKeys.publicFile) does not match \(OnionKeys.secretFile), so the intended address is \
            unclear; if the secret key is the right one, delete the public key and try again
            """
        case .nonAnonymous(let directory):
            """
            the keys in \(directory) served an onion that did not hide its machine, so its location may be known; tor \
            refuses them for an anonymous onion service: use a new address
            """
        case .occupied(let directory, let address):
            """
            \(directory) already holds the keys of \(address); to abandon that address, stop the node, move the \
            directory away and try again
            """
        case .badName:
            "a sender's name must be 1 to 64 characters: letters a-z and A-Z, digits, - and _"
        case .reservedName(let name):
            "the name \(name) is reserved: choose another name"
        case .clientExists(let name):
            "sender \(name) is already authorised; to issue a new key, revoke it first, or choose another name"
        case .noSuchClient(let name, let directory):
            "no sender \(name) is authorised in \(directory); tocsin onion list shows the authorised ones"
        case .tooManyClients(let limit):
            "\(limit) senders are authorised, the most that fit into the onion's descriptor; revoke unused ones"
        case .lastClient(let name):
            """
            \(name) is the last authorised sender: without it, anyone who knows the address can connect. Authorise \
            another sender first, or confirm with --open-to-all
            """
        case .system(let action, let path, let code):
            "cannot \(action) \(path): \(String(cString: strerror(code)))"
        }
    }
}
