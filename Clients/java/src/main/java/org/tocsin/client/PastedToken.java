// SPDX-License-Identifier: Apache-2.0
package org.tocsin.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntUnaryOperator;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A pairing token as people paste it: what mail, editors and web pages do to it is undone where it is unambiguous. */
final class PastedToken {
    /** The longest pasted text that is looked at, in bytes of UTF-8. */
    private static final int LONGEST = 16 * 1024;

    /** Longer than all pairing tokens, in characters. */
    private static final int MAXIMUM_TOKEN = 2048;

    /** Digits of Apple's device tokens of today. */
    private static final int APPLE_LENGTH = 64;

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

    private static final Pattern QUOTED_PRINTABLE = Pattern.compile(
            "=7C|=3D(1?\\||=| *(\\n|$))|(^|\\n)[^\\n]{69,76}= *\\n(?!\\|)", Pattern.CASE_INSENSITIVE);
    private static final Pattern PERCENT = Pattern.compile("%7[Cc]");
    private static final Pattern LINE_TAG =
            Pattern.compile("<(br|p|/p|div|/div)( [^<>]*|/)?>", Pattern.CASE_INSENSITIVE);
    private static final Pattern ENTITY = Pattern.compile("&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});");
    private static final Pattern START =
            Pattern.compile("(?<![A-Za-z])(iOSDev|iOS|android|web) *\\|", Pattern.CASE_INSENSITIVE);
    private static final Pattern GOOGLE = Pattern.compile("[A-Za-z0-9_-]+:(APA91b[A-Za-z0-9_-]*)");

    private PastedToken() {}

    /** The pairing token that a pasted text holds, as the phone showed it; another text if it holds none. */
    static String tokenIn(String pasted) {
        if (pasted.getBytes(StandardCharsets.UTF_8).length > LONGEST) {
            return pasted;
        }
        // A query's end is no soft line break.
        String text = plainSpaces(pasted).replaceAll("([?&]up=) *\\n", "$1");
        if (QUOTED_PRINTABLE.matcher(text).find()) {
            // Quoted-printable (RFC 2045 §6.7): a line break after = belongs to the mail.
            text = plainSpaces(unescaped('=', text.replaceAll("= *\\n(?!\\|)", "")));
        }
        if (PERCENT.matcher(text).find()) {
            text = plainSpaces(unescaped('%', text));
        }
        text = LINE_TAG.matcher(text).replaceAll("\n").replaceAll("</?[A-Za-z][^<>|]*>", "");
        text = ENTITY.matcher(text).replaceAll(match -> Matcher.quoteReplacement(entity(match)));
        text = mapped(plainSpaces(text), PastedToken::plain);
        // Markdown.
        text = text.replaceAll("\\\\([|_\\-*+.:=/])", "$1");
        return tidied(joined(text.split("\n", -1)));
    }

    private static String mapped(String text, IntUnaryOperator change) {
        return text.codePoints()
                .map(change)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
    }

    /** The text without invisible characters, and with two kinds of white space: spaces and line feeds. */
    private static String plainSpaces(String text) {
        String visible = text.codePoints()
                .filter(c -> Character.getType(c) != Character.FORMAT)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
        return mapped(visible.replaceAll("\r\n|[\r\u000B\f\u0085\u2028\u2029]", "\n"), c -> {
            boolean isSpace = c == '\t' || c >= 0x1C && c <= 0x1F || Character.getType(c) == Character.SPACE_SEPARATOR;
            return isSpace ? ' ' : c;
        });
    }

    /** Why a token that conforms to the protocol is still no token that Google issues. */
    static Optional<String> doubt(Magic magic, String deviceToken) {
        if (magic != Magic.ANDROID) {
            return Optional.empty();
        }
        boolean isEndpoint = deviceToken.startsWith("https://") || deviceToken.startsWith("http://");
        Optional<String> foreign = deviceToken.codePoints().filter(c -> isEndpoint ? c <= ' ' || c > '~' : !isGoogles(c)).mapToObj(c -> "the device token contains "
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

    private static boolean isGoogles(int c) {
        return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == ':' || c == '-';
    }

    /** Why what is left of a damaged text may not be the whole token. */
    static Optional<String> cut(Magic magic, String deviceToken) {
        boolean isApple = magic == Magic.IOS || magic == Magic.IOS_DEV;
        if (!isApple || deviceToken.isEmpty() || deviceToken.length() >= APPLE_LENGTH) {
            return Optional.empty();
        }
        return Optional.of("the device token was cut off: Apple's have " + APPLE_LENGTH + " digits, this one "
                + deviceToken.length() + "; copy the whole pairing token");
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
        int letter = LETTERS.indexOf(scalar);
        return letter >= 0 ? LATIN.charAt(letter) : scalar;
    }

    /** The lines of the token as one: without quotation marks of mail, and without what stands before and after. */
    private static String joined(String[] lines) {
        StringBuilder joined = new StringBuilder();
        long bars = 0;
        for (String whole : lines) {
            String line = stripped(whole, " >", " ");
            if (joined.isEmpty()) {
                Matcher found = START.matcher(line);
                line = found.find() ? line.substring(found.start()) : "";
            } else if (line.isEmpty()
                    || line.equals("--")
                    || bars >= 3 && (line.contains(" ") || ends(joined.toString(), line))) {
                break;
            }
            joined.append(line);
            bars += line.chars().filter(c -> c == '|').count();
            if (joined.length() > MAXIMUM_TOKEN) {
                break;
            }
        }
        return joined.toString();
    }

    /** Whether a token is whole, although another line follows. Apple may have longer tokens than today's. */
    private static boolean ends(String token, String following) {
        String[] parts = token.split("\\|", -1);
        return isWhole(magic(parts[0]), parts.length, parts[parts.length - 1])
                && !following.matches("[0-9A-Fa-f]{16,}");
    }

    /** Whether the last part of a token is as long as those of today. */
    private static boolean isWhole(String magic, int count, String part) {
        String last = bareLast(magic, count, part);
        if (count == 6) {
            return magic.equals("web") && last.matches("[A-Za-z0-9_-]{22}");
        }
        if (count != 4) {
            return false;
        }
        if (last.startsWith(Handle.PREFIX)) {
            return MAGICS.containsKey(magic) && last.substring(Handle.PREFIX.length()).matches("[0-9A-Fa-f]{64}");
        }
        return switch (magic) {
            case "ios", "iosdev" -> last.matches("[0-9A-Fa-f]{64}");
            case "android" -> last.matches("[A-Za-z0-9_-]+:APA91b[A-Za-z0-9_-]{134}");
            default -> false;
        };
    }

    private static String tidied(String token) {
        String[] parts = token.split("\\|", -1);
        int last = parts.length - 1;
        String magic = magic(parts[0]);
        String[] words = stripped(parts[last], " ", " ").split(" ", -1);
        if (words.length > 1 && isWhole(magic, parts.length, words[0])) {
            parts[last] = words[0];
        }
        for (int index = 0; index < parts.length; index++) {
            parts[index] = index == 1 ? stripped(parts[index], " " + QUOTES, " " + QUOTES) : bare(parts[index]);
        }
        parts[0] = MAGICS.getOrDefault(magic, parts[0]);
        parts[last] = bareLast(magic, parts.length, parts[last]);
        return String.join("|", parts);
    }

    private static String magic(String part) {
        return stripped(part, " " + QUOTES, " " + QUOTES).toLowerCase(Locale.ROOT);
    }

    static String stripped(String text, String before, String after) {
        int start = 0;
        int end = text.length();
        while (start < end && before.indexOf(text.charAt(start)) >= 0) {
            start++;
        }
        while (end > start && after.indexOf(text.charAt(end - 1)) >= 0) {
            end--;
        }
        return text.substring(start, end);
    }

    private static String bare(String text) {
        return text.codePoints()
                .filter(c -> QUOTES.indexOf(c) < 0 && c != ' ')
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
    }

    /** The last part without what stands around it. */
    private static String bareLast(String magic, int count, String part) {
        String last = stripped(bare(part), "", ".,;:!?)]}>*");
        if (count == 4 && last.toLowerCase(Locale.ROOT).startsWith(Handle.PREFIX)) {
            return Handle.PREFIX + digits(last.substring(Handle.PREFIX.length()));
        }
        return count == 4 && magic.startsWith("ios") ? digits(last) : last;
    }

    /** Hexadecimal digits, of which O, l and I are none. */
    private static String digits(String text) {
        return text.replace('O', '0').replace('o', '0').replace('l', '1').replace('I', '1');
    }
}
