import Glibc

/// A lock that one process at a time holds, until it is released or the process ends however it ends.
public final class FileLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock by means of the file `path`, which is made where there is none and is never removed: a lock on a
    /// file that was removed excludes nobody.
    /// - Throws: ``PrivateFileError/inUse(file:)``, naming `file`, where another holds it.
    public init(at path: String, for file: String) throws(PrivateFileError) {
        _ = try PrivateFile.ensure(path)
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error = errno == EWOULDBLOCK ? PrivateFileError.inUse(file: file) : .system(path)
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }
}
