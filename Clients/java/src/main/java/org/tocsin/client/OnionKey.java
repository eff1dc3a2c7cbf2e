// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Base64;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A sender's key to a closed onion. Prints without the key. */
final class OnionKey {
    private static final Pattern LINE = Pattern.compile("([a-z2-7]{56}):descriptor:x25519:([A-Z2-7]{52})\\s*");

    private final String label;
    private final byte[] key;

    private OnionKey(String label, byte[] key) {
        this.label = label;
        this.key = key;
    }

    /** The onion's address without {@code .onion}. */
    String label() {
        return label;
    }

    /** The key as tor's control port takes it. */
    String base64() {
        return Base64.getEncoder().encodeToString(key);
    }

    /**
     * Reads a line {@code ADDRESS:descriptor:x25519:KEY}, as {@code tocsin onion authorize} writes it.
     *
     * @throws TorException also if other users of the machine can read the file
     */
    static OnionKey read(Path file) throws TorException {
        byte[] content;
        try {
            if (!Files.isRegularFile(file) && Files.exists(file)) {
                throw new TorException(file + " is not a regular file");
            }
            Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
            permissions.removeAll(Set.of(
                    PosixFilePermission.OWNER_READ,
                    PosixFilePermission.OWNER_WRITE,
                    PosixFilePermission.OWNER_EXECUTE));
            if (!permissions.isEmpty()) {
                throw new TorException("other users can access " + file + ": run chmod 600 " + file);
            }
            try (InputStream input = Files.newInputStream(file)) {
                content = input.readNBytes(256);
            }
        } catch (NoSuchFileException error) {
            throw new TorException("cannot read " + file + ": no such file or directory");
        } catch (IOException | UnsupportedOperationException error) {
            throw new TorException("cannot read " + file + ": " + error.getClass().getSimpleName());
        }
        Matcher line = LINE.matcher(new String(content, StandardCharsets.ISO_8859_1));
        if (!line.matches() || !OnionAddress.isValid(line.group(1))) {
            throw new TorException(file + " does not contain a line ADDRESS:descriptor:x25519:KEY");
        }
        return new OnionKey(line.group(1), OnionAddress.base32(line.group(2)).orElseThrow());
    }

    @Override
    public String toString() {
        return "<OnionKey redacted>";
    }
}
