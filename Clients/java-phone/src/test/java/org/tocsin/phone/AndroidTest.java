// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * The library uses nothing that Android lacks: what its classes refer to is BouncyCastle's, or stands in android.txt. Who adds
 * a line there has looked it up in Android's reference.
 */
class AndroidTest {
    @Test
    void everyReferenceIsListed() throws IOException {
        Path root = Paths.get(System.getProperty("user.dir"));
        TreeSet<String> used = new TreeSet<>();
        try (Stream<Path> files = Files.walk(root.resolve("target/classes"))) {
            for (Path file : files.filter(file -> file.toString().endsWith(".class")).collect(Collectors.toList())) {
                used.addAll(references(file));
            }
        }
        assertTrue(used.size() > 50);
        List<String> listed = Files.readAllLines(
                root.resolve("src/test/resources/android.txt"), StandardCharsets.UTF_8);
        assertEquals(
                String.join("\n", used),
                listed.stream().filter(line -> !line.startsWith("#")).collect(Collectors.joining("\n")));
    }

    /** The members and classes of others that a class file refers to (JVMS §4.4), as {@code class member}. */
    private static TreeSet<String> references(Path file) throws IOException {
        TreeSet<String> found = new TreeSet<>();
        try (DataInputStream input = new DataInputStream(Files.newInputStream(file))) {
            input.readInt();
            input.readInt();
            int count = input.readUnsignedShort();
            int[] tags = new int[count];
            int[][] parts = new int[count][2];
            String[] texts = new String[count];
            for (int index = 1; index < count; index++) {
                tags[index] = input.readUnsignedByte();
                switch (tags[index]) {
                    case 1:
                        texts[index] = input.readUTF();
                        break;
                    case 3:
                    case 4:
                        input.readInt();
                        break;
                    case 5:
                    case 6:
                        input.readLong();
                        index++;
                        break;
                    case 7:
                    case 8:
                    case 16:
                        parts[index][0] = input.readUnsignedShort();
                        break;
                    case 15:
                        input.readUnsignedByte();
                        input.readUnsignedShort();
                        break;
                    default:
                        parts[index][0] = input.readUnsignedShort();
                        parts[index][1] = input.readUnsignedShort();
                        break;
                }
            }
            for (int index = 1; index < count; index++) {
                // Field, method and method of an interface.
                boolean isMember = tags[index] >= 9 && tags[index] <= 11;
                if (!isMember && tags[index] != 7) {
                    continue;
                }
                String owner = texts[isMember ? parts[parts[index][0]][0] : parts[index][0]].replaceAll("^\\[+L?|;$", "");
                boolean isOurs = owner.startsWith("org/tocsin/phone/") || owner.startsWith("org/bouncycastle/");
                if (isOurs || owner.length() == 1) {
                    continue;
                }
                found.add(isMember ? owner + " " + texts[parts[parts[index][1]][0]] : owner);
            }
        }
        return found;
    }
}
