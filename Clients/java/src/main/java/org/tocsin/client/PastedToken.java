// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A pairing token as people paste it: what mail, editors and web pages do to it is undone where it is unambiguous. */
final class PastedToken {
    /** The longest pasted text that is looked at, in characters. */
    private static final int LONGEST = 16 * 1024;

    /** Characters after the colon of Google's device tokens that begin with APA91b, as issued since 2015. */
    private static final int GOOGLE_LENGTH = 140;

    private static final String BARS = "│┃¦｜￨ǀ∣❘︱║‖";
    private static final String QUOTES = "\"'`“”„‘’«»";
    /** Cyrillic and Greek letters that look like Latin ones, and those. */
    private static final String LETTERS = "АВЕЅІЈКМНОРСТХаеосрхѕіјΑΒΕΖΗΙΚΜΝΟΡΤΧο";

    private static final String LATIN = "ABESIJKMHOPCTXaeocpxsijABEZHIKMNOPTXo";
    private static final Map<String, String> ENTITIES = Map.ofEntries(
            Map.entry("amp", "&"), Map.entry("lt", "<"), Map.entry("gt", ">"), Map.entry("quot", "\""),
            Map.entry("apos", "'"), Map.entry("nbsp", " "), Map.entry("vert", "|"), Map.entry("verbar", "|"),
            Map.entry("VerticalLine", "|"), Map.entry("plus", "+"), Map.entry("sol", "/"), Map.entry("equals", "="),
            Map.entry("colon", ":"), Map.entry("lowbar", "_"), Map.entry("hyphen", "-"));
    private static final Map<String, String> MAGICS =
            Map.of("ios", "iOS", "iosdev", "iOSDev", "android", "android", "web", "web");

    private static final Pattern QUOTED_PRINTABLE = Pattern.compile("=7[Cc]|=3[Dd]|=[ \\t]*\\n(?!\\|)");
    private static final Pattern PERCENT = Pattern.compile("%7[Cc]");
    private static final Pattern LINE_TAG =
            Pattern.compile("<(br|p|/p|div|/div)(\\s[^<>]*|/)?>", Pattern.CASE_INSENSITIVE);
    private static final Pattern ENTITY = Pattern.compile("&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});");
    private static final Pattern START =
            Pattern.compile("(?<![A-Za-z])(iOSDev|iOS|android|web)\\s*\\|", Pattern.CASE_INSENSITIVE);
    private static final Pattern GOOGLE = Pattern.compile("[A-Za-z0-9_-]+:(APA91b[A-Za-z0-9_-]*)");

    private PastedToken() {}

    /** The pairing token that a pasted text holds, as the phone showed it; another text if it holds none. */
    static String tokenIn(String pasted) {
        if (pasted.length() > LONGEST) {
            return pasted;
        }
        String text = pasted.codePoints()
                .filter(c -> Character.getType(c) != Character.FORMAT)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString()
                .replaceAll("\r\n|[\r\u2028\u2029]", "\n");
        if (QUOTED_PRINTABLE.matcher(text).find()) {
            // Quoted-printable (RFC 2045 §6.7): a line break after = belongs to the mail.
            text = unescaped('=', text.replaceAll("=[ \\t]*\\n(?!\\|)", ""));
        }
        if (PERCENT.matcher(text).find()) {
            text = unescaped('%', text);
        }
        text = LINE_TAG.matcher(text).replaceAll("\n").replaceAll("</?[A-Za-z][^<>|]*>", "");
        text = ENTITY.matcher(text).replaceAll(match -> Matcher.quoteReplacement(entity(match)));
        text = text.codePoints()
                .map(PastedToken::plain)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
        // Markdown.
        text = text.replaceAll("\\\\([|_\\-*+.:=/])", "$1");
        return tidied(joined(text.split("\n", -1)));
    }

    /** Why a token that conforms to the protocol is still no token that Google issues. */
    static Optional<String> doubt(Magic magic, String deviceToken) {
        if (magic != Magic.ANDROID) {
            return Optional.empty();
        }
        Optional<String> foreign = deviceToken.codePoints().filter(c -> c >= 0x80).mapToObj(c -> "the device token contains "
                + Character.toString(c) + String.format(" (U+%04X)", c) + ", which Google does not use: a mail program or "
                + "an editor may have put it in place of another character; copy the pairing token again").findFirst();
        if (foreign.isPresent()) {
            return foreign;
        }
        Matcher match = GOOGLE.matcher(deviceToken);
        if (match.matches() && match.group(1).length() < GOOGLE_LENGTH) {
            return Optional.of("the device token was cut off: after the colon, Google's have " + GOOGLE_LENGTH
                    + " characters, this one " + match.group(1).length() + "; copy the whole pairing token");
        }
        return Optional.empty();
    }

    private static String unescaped(char mark, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (int index = 0; index < bytes.length; index++) {
            int high = index + 2 < bytes.length ? Character.digit(bytes[index + 1], 16) : -1;
            int low = index + 2 < bytes.length ? Character.digit(bytes[index + 2], 16) : -1;
            if (bytes[index] == mark && high >= 0 && low >= 0) {
                output.write(high << 4 | low);
                index += 2;
            } else {
                output.write(bytes[index]);
            }
        }
        return output.toString(StandardCharsets.UTF_8);
    }

    private static String entity(MatchResult match) {
        String name = match.group(1);
        if (!name.startsWith("#")) {
            return ENTITIES.getOrDefault(name, match.group());
        }
        boolean isHexadecimal = Character.toLowerCase(name.charAt(1)) == 'x';
        int code = Integer.parseInt(name.substring(isHexadecimal ? 2 : 1), isHexadecimal ? 16 : 10);
        return code >= 0x20 && code < 0xD800 ? Character.toString(code) : match.group();
    }

    private static int plain(int scalar) {
        if (BARS.indexOf(scalar) >= 0) {
            return '|';
        }
        if (scalar >= 0xFF01 && scalar <= 0xFF5E) {
            return scalar - 0xFEE0;
        }
        if (scalar == '\u2010' || scalar == '\u2011' || scalar == '\u2212') {
            return '-';
        }
        if (Character.getType(scalar) == Character.SPACE_SEPARATOR) {
            return ' ';
        }
        int letter = LETTERS.indexOf(scalar);
        return letter >= 0 ? LATIN.charAt(letter) : scalar;
    }

    /** The lines of the token as one: without quotation marks of mail, and without what stands before and after. */
    private static String joined(String[] lines) {
        String joined = "";
        for (String whole : lines) {
            String line = whole.replaceAll("^[\\s>]+", "").stripTrailing();
            if (joined.isEmpty()) {
                Matcher found = START.matcher(line);
                joined = found.find() ? line.substring(found.start()) : "";
            } else if (line.isEmpty()
                    || line.equals("--")
                    || joined.chars().filter(c -> c == '|').count() >= 3 && line.contains(" ")
                    || isWhole(joined, line)) {
                break;
            } else {
                joined += line;
            }
        }
        return joined;
    }

    /** Whether a token ends here, although another line follows. */
    private static boolean isWhole(String token, String following) {
        String[] parts = token.split("\\|", -1);
        if (parts.length != 4) {
            return false;
        }
        return switch (parts[0].strip().toLowerCase(Locale.ROOT)) {
            case "android" -> {
                Matcher match = GOOGLE.matcher(parts[3]);
                yield match.matches() && match.group(1).length() == GOOGLE_LENGTH;
            }
            case "web" -> false;
            default -> !following.matches("[0-9A-Fa-f]*") && !parts[3].startsWith(Handle.PREFIX);
        };
    }

    private static String tidied(String token) {
        String[] parts = token.split("\\|", -1);
        for (int index = 0; index < parts.length; index++) {
            parts[index] = index == 1 ? trimmed(parts[index]) : bare(parts[index]);
        }
        parts[0] = MAGICS.getOrDefault(parts[0].toLowerCase(Locale.ROOT), parts[0]);
        int last = parts.length - 1;
        parts[last] = parts[last].replaceAll("[.,;:!?)\\]}>*]+$", "");
        if (parts.length > 3 && parts[3].toLowerCase(Locale.ROOT).startsWith(Handle.PREFIX)) {
            parts[3] = Handle.PREFIX + digits(parts[3].substring(Handle.PREFIX.length()));
        } else if (parts.length > 3 && parts[0].startsWith("iOS")) {
            parts[3] = digits(parts[3]);
        }
        return String.join("|", parts);
    }

    private static String trimmed(String text) {
        int start = 0;
        int end = text.length();
        while (start < end && (" " + QUOTES).indexOf(text.charAt(start)) >= 0) {
            start++;
        }
        while (end > start && (" " + QUOTES).indexOf(text.charAt(end - 1)) >= 0) {
            end--;
        }
        return text.substring(start, end);
    }

    private static String bare(String text) {
        return text.codePoints()
                .filter(c -> QUOTES.indexOf(c) < 0 && !Character.isWhitespace(c))
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
    }

    /** Hexadecimal digits, of which O, l and I are none. */
    private static String digits(String text) {
        return text.replace('O', '0').replace('o', '0').replace('l', '1').replace('I', '1');
    }
}
