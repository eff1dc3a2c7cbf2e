import Glibc

/// What tells a file from its next version without reading it.
public struct FileVersion: Equatable, Sendable {
    private let device: dev_t
    private let inode: ino_t
    private let size: off_t
    private let seconds: time_t
    private let nanoseconds: Int

    /// The version that is at `path` now, at the end of symbolic links; nil where there is none.
    public init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        device = status.st_dev
        inode = status.st_ino
        size = status.st_size
        seconds = status.st_mtim.tv_sec
        nanoseconds = status.st_mtim.tv_nsec
    }
}
