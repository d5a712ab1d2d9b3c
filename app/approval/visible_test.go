package approval_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/reevehq/reeve/app/approval"
	"pgregory.net/rapid"
)

// shows holds show to what each text is to look like, with nothing lost.
func shows(t *testing.T, show func(string) approval.Shown, all map[string]string) {
	t.Helper()
	for text, want := range all {
		s := show(text)
		if got := s.Plain(); got != want {
			t.Errorf("%q is shown as\n %q, want\n %q", text, got, want)
		}
		if got := s.Rejoin(); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	}
}

func TestVisible(t *testing.T) {
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	shows(t, approval.Visible, map[string]string{
		"go test ./... && echo 'ü 漢字 🙂'": "go test ./... && echo 'ü 漢字 🙂'",
		"":                               "",
		"a\n\nb":                         "a\n\nb",
		"rm \u202etxt.exe":               "rm ‹RLO›txt.exe",
		"a\u200db\u200b\u200bc":          "a‹ZWJ›b‹ZWSP×2›c",
		"a\x00b":                         "a‹NUL›b",
		"\x1b[31mred\x1b[0m\x7f\u009b":   "‹ESC›[31mred‹ESC›[0m‹DEL›‹CSI›",
		"ls" + spaces(300) + "; rm":      "ls‹SP×300›; rm",
		"ls" + spaces(8) + "x":           "ls‹SP×8›x",
		"ls" + spaces(7) + "x":           "ls" + spaces(7) + "x",
		spaces(40) + "x":                 spaces(40) + "x",
		spaces(41) + "x":                 "‹SP×41›x",
		"rm -rf build  ":                 "rm -rf build‹SP×2›",
		"a \nb":                          "a‹SP›\nb",
		"a\tb":                           "a\tb",
		"\t\tfoo":                        "\t\tfoo",
		"a\t\t\tb":                       "a‹TAB×3›b",
		"a" + spaces(7) + "\t" + spaces(7) + "\tb": "a‹BLANK×16›b",
		"a\r\nb":                    "a‹CR›\nb",
		"a\u00a0b\u2003\u3000":      "a‹NBSP›b‹EMSP›‹IDSP›",
		"a\ufe0f\U000e0101":         "a‹VS16›‹VS18›",
		"\U000e0001\U000e0068i":     "‹U+E0001›‹TAG-h›i",
		"a\xffb\xc3":                `a‹\xFF›b‹\xC3›`,
		"\ufeffx\u2060\u00ad\u034f": "‹BOM›x‹WJ›‹SHY›‹CGJ›",
		"\u3164\u2800\uffa0":        "‹HF›‹BRSP›‹HWHF›",
		"a\u2028b\u0085":            "a‹LS›b‹NEL›",
		"‹RLO›":                     "‹U+2039›RLO‹U+203A›",
		"gіthub.com":                "g‹і=U+0456›thub.com",
		"сору /a /b":                "‹с=U+0441›‹о=U+043E›‹р=U+0440›‹у=U+0443› /a /b",
		"Исправь тест у сервера": "Исправь тест у сервера",
		"φάκελος":              "φάκελος",
		"ls ； rm ∕":            "ls ‹；=U+FF1B› rm ‹∕=U+2215›",
		"10µs, naïve – Straße": "10µs, naïve – Straße",
		"\ue000\U0010ffff":     "‹U+E000›‹U+10FFFF›",
	})
}

func TestVisibleCommand(t *testing.T) {
	shows(t, approval.VisibleCommand, map[string]string{
		"rsync \u2013n a b":                    "rsync ‹\u2013=U+2013›n a b",
		"echo \u2018$(id)\u2019 \u201cx\u201d": "echo ‹\u2018=U+2018›$(id)‹\u2019=U+2019› ‹\u201c=U+201C›x‹\u201d=U+201D›",
		"\u0261it push":                        "‹\u0261=U+0261›it push",
		"a\u0336b":                             "a‹U+0336›b",
		"ls\u2011la \u202e":                    "ls‹\u2011=U+2011›la ‹RLO›",
		"echo 'ü 漢字 🙂 naïve'":                  "echo 'ü 漢字 🙂 naïve'",
		"":                                     "",
		"a\n\n\nb\n":                           "a\n\n\nb\n",
		"a\n\n\n\nb":                           "a\n‹LF×3›\nb",
		"a" + strings.Repeat("\n", 24) + "b":   "a\n‹LF×23›\nb",
		"\n\n\na\n\n\n\n\n\nb\n\n\n":           "‹LF×3›\na\n‹LF×5›\nb\n‹LF×3›",
		"\n\n\n":                               "‹LF×4›",
	})
	if h := approval.VisibleCommand("a\n\n\n\nb\n\n\n\n\n").Hidden; len(h) != 1 || h[0] != (approval.Hidden{Token: "LF", Codepoint: "U+000A", Name: "run of empty lines", Count: 8}) {
		t.Errorf("%+v", h)
	}
	// Prose keeps its dashes and quotes.
	if got := approval.Visible("it’s 3–4 “times”").Plain(); got != "it’s 3–4 “times”" {
		t.Errorf("%q", got)
	}
}

func TestHiddenIsCounted(t *testing.T) {
	s := approval.Visible("a\u202eb\u202ec\u200b\nls" + strings.Repeat(" ", 300) + "; rm \u202e")
	want := []approval.Hidden{
		{Token: "RLO", Codepoint: "U+202E", Name: "right-to-left override", Count: 3},
		{Token: "ZWSP", Codepoint: "U+200B", Name: "zero width space", Count: 1},
		{Token: "SP", Codepoint: "U+0020", Name: "long or trailing run of spaces", Count: 300},
	}
	if len(s.Hidden) != len(want) {
		t.Fatalf("got %+v", s.Hidden)
	}
	for i := range want {
		if s.Hidden[i] != want[i] {
			t.Errorf("got %+v, want %+v", s.Hidden[i], want[i])
		}
	}
	if len(s.Lines) != 2 {
		t.Errorf("%d lines", len(s.Lines))
	}
}

// unseen is an own list of what must never reach a screen, so that it does not
// depend on the tables that it checks.
func unseen(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) ||
		unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Zs, r) && r != ' ')
}

func checkShown(t interface{ Fatalf(string, ...any) }, text string) {
	s := approval.Visible(text)
	if got := s.Rejoin(); got != text {
		t.Fatalf("%q came back as %q", text, got)
	}
	plain := s.Plain()
	if !utf8.ValidString(plain) {
		t.Fatalf("%q is shown as invalid UTF-8 %q", text, plain)
	}
	for _, r := range plain {
		if unseen(r) {
			t.Fatalf("%q is shown with U+%04X in it", text, r)
		}
	}
	command := approval.VisibleCommand(text)
	if got := command.Rejoin(); got != text {
		t.Fatalf("as a command %q came back as %q", text, got)
	}
	for _, r := range command.Plain() {
		if unseen(r) {
			t.Fatalf("as a command %q is shown with U+%04X in it", text, r)
		}
	}
	if strings.Contains("\n"+command.Plain()+"\n", "\n\n\n\n") {
		t.Fatalf("as a command %q is shown with many empty lines", text)
	}
	if strings.Count(plain, "\n") != strings.Count(text, "\n") {
		t.Fatalf("%q is shown with other lines: %q", text, plain)
	}
	if (plain == text) != (len(s.Hidden) == 0) {
		t.Fatalf("%q: shown as it is: %v, but hidden is %v", text, plain == text, s.Hidden)
	}
	for line := range strings.SplitSeq(plain, "\n") {
		if strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") {
			t.Fatalf("%q is shown with white space at an end of line", text)
		}
		if strings.Contains(strings.TrimLeft(line, " \t"), "        ") {
			t.Fatalf("%q is shown with a long run of spaces", text)
		}
	}
}

func TestNothingHidesAndNothingIsLost(t *testing.T) {
	odd := rapid.SampledFrom([]rune{' ', '\t', '\n', '\r', 0, 0x1b, 0x7f, 0x9b, 0xa0, 0x202e, 0x200d, 0xfe0f, 0xe0041, 0x3164, 0x456, 'a', ';', '‹', 0xfffd, 0x0301})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				b.WriteString(rapid.String().Draw(t, "text"))
			case 1:
				b.Write(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes"))
			case 2:
				b.WriteString(strings.Repeat(" ", rapid.IntRange(0, 50).Draw(t, "spaces")))
			default:
				b.WriteRune(odd.Draw(t, "odd"))
			}
		}
		checkShown(t, b.String())
	})
}

func TestEveryCharacterOfUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r > 0x30000 && r < 0xe0000 || r > 0xf0000 {
			r += 0xfff // unassigned or for private use; a sample will do
		}
		checkShown(t, "a"+string(r))
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\u202eb", "\x1b[31m", "ls" + strings.Repeat(" ", 300) + "; rm", "\xff\xfe", "gіthub", "\t\t \t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkShown(t, s) })
}
