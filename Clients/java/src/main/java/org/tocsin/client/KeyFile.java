// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/** A file with the 32 bytes of a private key, which only its owner can access. */
final class KeyFile {
    static final int LENGTH = 32;

    private KeyFile() {}

    /**
     * Reads the key.
     *
     * @param wrongLength the problem of a file with another length
     */
    static byte[] read(Path file, String wrongLength) throws IOException {
        Set<PosixFilePermission> permissions;
        try {
            permissions = Files.getPosixFilePermissions(file);
        } catch (UnsupportedOperationException error) {
            throw new IOException("the file system of " + file + " has no permissions to protect it", error);
        }
        permissions.removeAll(Set.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE));
        if (!permissions.isEmpty()) {
            throw new IOException("other users can access " + file + ": run chmod 600 " + file);
        }
        try (InputStream input = Files.newInputStream(file)) {
            byte[] content = input.readNBytes(LENGTH + 1);
            if (content.length != LENGTH) {
                throw new IOException(file + " " + wrongLength);
            }
            return content;
        }
    }

    /** Creates a file that does not exist. */
    static void create(Path file, byte[] key) throws IOException {
        try {
            Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        } catch (UnsupportedOperationException error) {
            throw new IOException("the file system of " + file + " has no permissions to protect it", error);
        }
        Files.write(file, key);
    }
}
