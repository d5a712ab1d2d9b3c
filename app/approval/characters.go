package approval

import (
	"fmt"
	"strings"
	"unicode"
)

var controls = strings.Fields(`NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI
	DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US`)

// named are the characters that have a customary short name. Every other one
// that needs a token gets its code point.
var named = map[rune][2]string{
	0x007F: {"DEL", "delete"},
	0x0085: {"NEL", "next line"},
	0x009B: {"CSI", "control sequence introducer"},
	0x009D: {"OSC", "operating system command"},
	0x00A0: {"NBSP", "no-break space"},
	0x00AD: {"SHY", "soft hyphen"},
	0x034F: {"CGJ", "combining grapheme joiner"},
	0x061C: {"ALM", "Arabic letter mark"},
	0x115F: {"HCF", "Hangul choseong filler"},
	0x1160: {"HJF", "Hangul jungseong filler"},
	0x1680: {"OGSP", "Ogham space mark"},
	0x180E: {"MVS", "Mongolian vowel separator"},
	0x2000: {"NQSP", "en quad"},
	0x2001: {"MQSP", "em quad"},
	0x2002: {"ENSP", "en space"},
	0x2003: {"EMSP", "em space"},
	0x2004: {"3/MSP", "three-per-em space"},
	0x2005: {"4/MSP", "four-per-em space"},
	0x2006: {"6/MSP", "six-per-em space"},
	0x2007: {"FSP", "figure space"},
	0x2008: {"PSP", "punctuation space"},
	0x2009: {"THSP", "thin space"},
	0x200A: {"HSP", "hair space"},
	0x200B: {"ZWSP", "zero width space"},
	0x200C: {"ZWNJ", "zero width non-joiner"},
	0x200D: {"ZWJ", "zero width joiner"},
	0x200E: {"LRM", "left-to-right mark"},
	0x200F: {"RLM", "right-to-left mark"},
	0x2028: {"LS", "line separator"},
	0x2029: {"PS", "paragraph separator"},
	0x202A: {"LRE", "left-to-right embedding"},
	0x202B: {"RLE", "right-to-left embedding"},
	0x202C: {"PDF", "pop directional formatting"},
	0x202D: {"LRO", "left-to-right override"},
	0x202E: {"RLO", "right-to-left override"},
	0x202F: {"NNBSP", "narrow no-break space"},
	0x2039: {"U+2039", "the bracket that marks what was hidden"},
	0x203A: {"U+203A", "the bracket that marks what was hidden"},
	0x205F: {"MMSP", "medium mathematical space"},
	0x2060: {"WJ", "word joiner"},
	0x2066: {"LRI", "left-to-right isolate"},
	0x2067: {"RLI", "right-to-left isolate"},
	0x2068: {"FSI", "first strong isolate"},
	0x2069: {"PDI", "pop directional isolate"},
	0x2800: {"BRSP", "blank Braille pattern"},
	0x3000: {"IDSP", "ideographic space"},
	0x3164: {"HF", "Hangul filler"},
	0xFEFF: {"BOM", "zero width no-break space"},
	0xFFA0: {"HWHF", "half-width Hangul filler"},
	0xFFFC: {"OBJ", "object replacement character"},
}

// describe returns the token of a character that would not be seen, or be
// taken for another one whatever stands around it.
func describe(r rune) (Hidden, bool) {
	if n, ok := named[r]; ok {
		return Hidden{n[0], codepoint(r), n[1], 1}, true
	}
	switch {
	case r < ' ':
		return Hidden{controls[r], codepoint(r), "control character", 1}, true
	case unicode.IsControl(r):
		return unnamed(r, "control character"), true
	case r >= 0xFE00 && r <= 0xFE0F:
		return Hidden{fmt.Sprintf("VS%d", r-0xFE00+1), codepoint(r), "variation selector", 1}, true
	case r >= 0xE0100 && r <= 0xE01EF:
		return Hidden{fmt.Sprintf("VS%d", r-0xE0100+17), codepoint(r), "variation selector", 1}, true
	case r > 0xE0020 && r < 0xE007F:
		return Hidden{fmt.Sprintf("TAG-%c", r-0xE0000), codepoint(r), "tag character", 1}, true
	case r >= 0xE0000 && r <= 0xE0FFF:
		return unnamed(r, "tag character"), true
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r),
		unicode.Is(unicode.Variation_Selector, r):
		return unnamed(r, "character without width"), true
	case unicode.Is(unicode.Z, r):
		return unnamed(r, "space"), true
	case strings.ContainsRune(lookalikeSigns, r), r >= 0xFF01 && r <= 0xFF5E, r >= 0x1D400 && r <= 0x1D7FF:
		return asASCII(r), true
	case !unicode.IsGraphic(r):
		return unnamed(r, "character without a shape"), true
	}
	return Hidden{}, false
}

func asASCII(r rune) Hidden {
	token := fmt.Sprintf("%c=%s", r, codepoint(r))
	if unicode.Is(unicode.M, r) { // would be drawn into what stands before it
		token = codepoint(r)
	}
	return Hidden{token, codepoint(r), "character that looks like an ASCII one", 1}
}

func unnamed(r rune, name string) Hidden { return Hidden{codepoint(r), codepoint(r), name, 1} }

func codepoint(r rune) string { return fmt.Sprintf("U+%04X", r) }

// lookalikeSigns are taken for ; / \ . - : ! | & ~ ' " and `, but a shell or a file
// system sees something else.
const lookalikeSigns = "\u037e\u2215\u2044\u29f8\u2571\u2216\u29f5\u29f9\u2024\u2010\u2011\u2212\u02d7" +
	"\u2236\ua789\u02d0\u01c3\u01c0\u2223\u2758\ua4fa\ufe52\ufe54\ufe55\ufe57\ufe60\ufe63\ufe68\u223c\u02bc\u02b9\u02ba\u02cb\u1fef"

// commandTwins are taken for ASCII characters as well, but are usual in prose,
// or are letters of some language. In a command, where nobody expects them, they
// count: dashes, quotes and primes, brackets, dots and commas, strokes through a
// letter, and letters.
const commandTwins = "\u2012\u2013\u2014\u2015\u2043" +
	"\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00b4\u2032\u2033\u2035\u2036\u02bb\u02bd\u02c8\u02ca\u05f3\u05f4\ua78c" +
	"\u02c2\u02c3\u276e\u276f\u2329\u232a\u27e8\u27e9\u3008\u3009\u2768\u2769\u2772\u2773\u2774\u2775" +
	"\u00b7\u2022\u2027\u22c5\u00a6\u02c6\u02dc\u2053\u2217\u204e\u066a\u204f\u061b\u060c\u0589\u205a\u27cb\u27cd" +
	"\u0335\u0336\u0337\u0338\u20e5\u20d2\u20d3\u20eb" +
	"\u0131\u017f\u0237\u0251\u0261\u0269\u026a\u1d04\u1d0f\u1d20\u1d21\u1d22\u2113\u212a\u212f\u2134\u2139" +
	"\u2160\u2164\u2169\u216c\u216d\u216e\u216f\u2170\u2174\u2179\u217c\u217d\u217e\u217f"
