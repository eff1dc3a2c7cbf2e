// SPDX-License-Identifier: Apache-2.0
package org.tocsin.phone;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A reader of JSON (RFC 8259), because neither the JDK nor BouncyCastle has one, and Android's is not the JDK's. */
final class Json {
    private static final int DEEPEST = 32;

    private final String text;
    private int position;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Reads an object: texts, numbers ({@link Double} or {@link Long}), booleans, {@code null}, maps and lists.
     *
     * @throws PhoneException if the text is no JSON object. The message has no part of the text.
     */
    static Map<String, Object> object(byte[] text) throws PhoneException {
        Json json = new Json(Bytes.text(text));
        Object value = json.value(0);
        json.skipSpace();
        if (json.position != json.text.length() || !(value instanceof Map)) {
            throw json.broken();
        }
        @SuppressWarnings("unchecked")
        Map<String, Object> object = (Map<String, Object>) value;
        return object;
    }

    private PhoneException broken() {
        return new PhoneException("not a JSON object");
    }

    private Object value(int depth) throws PhoneException {
        skipSpace();
        if (depth > DEEPEST || position >= text.length()) {
            throw broken();
        }
        char first = text.charAt(position);
        switch (first) {
            case '{':
                return members(depth);
            case '[':
                return elements(depth);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Object word(String word, Object value) throws PhoneException {
        if (!text.startsWith(word, position)) {
            throw broken();
        }
        position += word.length();
        return value;
    }

    private Object number() throws PhoneException {
        int start = position;
        while (position < text.length() && "+-.0123456789eE".indexOf(text.charAt(position)) >= 0) {
            position++;
        }
        String digits = text.substring(start, position);
        try {
            return digits.matches("-?[0-9]{1,18}") ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
        } catch (NumberFormatException error) {
            throw broken();
        }
    }

    private Map<String, Object> members(int depth) throws PhoneException {
        Map<String, Object> members = new LinkedHashMap<>();
        position++;
        if (takes('}')) {
            return members;
        }
        do {
            skipSpace();
            String name = string();
            if (!takes(':')) {
                throw broken();
            }
            members.put(name, value(depth + 1));
        } while (takes(','));
        if (!takes('}')) {
            throw broken();
        }
        return members;
    }

    private List<Object> elements(int depth) throws PhoneException {
        List<Object> elements = new ArrayList<>();
        position++;
        if (takes(']')) {
            return elements;
        }
        do {
            elements.add(value(depth + 1));
        } while (takes(','));
        if (!takes(']')) {
            throw broken();
        }
        return elements;
    }

    private String string() throws PhoneException {
        if (!takes('"')) {
            throw broken();
        }
        StringBuilder output = new StringBuilder();
        while (position < text.length()) {
            char next = text.charAt(position++);
            if (next == '"') {
                return output.toString();
            }
            if (next < 0x20) {
                throw broken();
            }
            output.append(next == '\\' ? escaped() : next);
        }
        throw broken();
    }

    private char escaped() throws PhoneException {
        if (position >= text.length()) {
            throw broken();
        }
        char kind = text.charAt(position++);
        int index = "\"\\/bfnrt".indexOf(kind);
        if (index >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(index);
        }
        byte[] unit = kind == 'u' && position + 4 <= text.length()
                ? Bytes.ofHex(text.substring(position, position + 4))
                : null;
        if (unit == null) {
            throw broken();
        }
        position += 4;
        return (char) Bytes.number(unit, 0, 2);
    }

    private boolean takes(char wanted) {
        skipSpace();
        if (position < text.length() && text.charAt(position) == wanted) {
            position++;
            return true;
        }
        return false;
    }

    private void skipSpace() {
        while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) {
            position++;
        }
    }
}
