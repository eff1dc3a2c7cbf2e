// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads the JSON of vectors and transcripts: objects as maps, arrays as lists, numbers as doubles. */
final class Json {
    private final String text;
    private int position;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.next() != '\0') {
            throw new IllegalArgumentException("more follows the value");
        }
        return value;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    static String quoted(String text) {
        StringBuilder output = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            output.append(c < 0x20 || c > 0x7E || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
        }
        return output.append('"').toString();
    }

    /** The next character that is not white space, which is not consumed; NUL at the end. */
    private char next() {
        while (position < text.length() && Character.isWhitespace(text.charAt(position))) {
            position++;
        }
        return position < text.length() ? text.charAt(position) : '\0';
    }

    private Object value() {
        switch (next()) {
            case '{':
                Map<String, Object> object = new LinkedHashMap<>();
                for (char separator = text.charAt(position++); next() != '}'; separator = text.charAt(position)) {
                    if (separator == ',') {
                        position++;
                        next();
                    }
                    String key = string();
                    next();
                    position++;
                    object.put(key, value());
                    next();
                }
                position++;
                return object;
            case '[':
                List<Object> list = new ArrayList<>();
                for (position++; next() != ']'; ) {
                    if (next() == ',') {
                        position++;
                    }
                    list.add(value());
                }
                position++;
                return list;
            case '"':
                return string();
            default:
                int start = position;
                while (position < text.length() && ",]} \n\t\r".indexOf(text.charAt(position)) < 0) {
                    position++;
                }
                String word = text.substring(start, position);
                return switch (word) {
                    case "true" -> true;
                    case "false" -> false;
                    case "null" -> null;
                    default -> Double.valueOf(word);
                };
        }
    }

    private String string() {
        StringBuilder output = new StringBuilder();
        for (position++; text.charAt(position) != '"'; position++) {
            char c = text.charAt(position);
            if (c != '\\') {
                output.append(c);
                continue;
            }
            c = text.charAt(++position);
            switch (c) {
                case 'u' -> {
                    output.append((char) Integer.parseInt(text.substring(position + 1, position + 5), 16));
                    position += 4;
                }
                case 'n' -> output.append('\n');
                case 't' -> output.append('\t');
                case 'r' -> output.append('\r');
                case 'b' -> output.append('\b');
                case 'f' -> output.append('\f');
                default -> output.append(c);
            }
        }
        position++;
        return output.toString();
    }
}
