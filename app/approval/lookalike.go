package approval

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// latinTwins are letters of other scripts that are drawn like Latin ones.
const latinTwins = "" +
	"аеорсухіјѕһԁԛԝӏѵүԍЅІЈАВЕКМНОРСТУХҮԌԚԜӀ" + // Cyrillic
	"οανρικτυχγωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ" + // Greek
	"օոսցքհաԼՕՍԱ" + // Armenian
	"ᎠᎡᎢᎪᎫᎬᎳᎷᎻᏀᏃᏎᏏᏔᏙᏚᏞᏟᏢᏦᏴ" // Cherokee

// twin reports whether r is drawn like a Latin letter.
func twin(r rune) bool { return r >= 0x370 && strings.ContainsRune(latinTwins, r) }

// nearLatin reports whether r is a letter of a script that has twins of Latin
// letters.
func nearLatin(r rune) bool {
	return r >= 0x370 && unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu) &&
		unicode.IsLetter(r)
}

// foreignProse reports whether a line is written in another script: it has
// letters that no one takes for Latin, and no Latin ones. There a word of
// nothing but twins is just a word.
func foreignProse(line string) bool {
	foreign := false
	for _, r := range line {
		switch {
		case r < utf8.RuneSelf && unicode.IsLetter(r):
			return false
		case r >= 0x370 && unicode.IsLetter(r) && !twin(r):
			foreign = true
		}
	}
	return foreign
}

// deceptive judges the word around the letter at s[at:]: whether it mixes that
// letter with Latin ones, or looks Latin as a whole.
func deceptive(s string, at int, prose bool) bool {
	const reach = 64 // bytes to each side; a longer word is judged by its nearest part
	latin, foreign := false, false
	inWord := func(r rune) bool {
		switch {
		case unicode.Is(unicode.Latin, r):
			latin = true
		case unicode.IsLetter(r):
			foreign = foreign || !twin(r)
		default:
			return r == '_' || unicode.In(r, unicode.N, unicode.M)
		}
		return true
	}
	for i := at; i > 0 && at-i < reach; {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if !inWord(r) {
			break
		}
		i -= size
	}
	for i := at; i < len(s) && i-at < reach; {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !inWord(r) {
			break
		}
		i += size
	}
	return latin || !foreign && !prose
}
