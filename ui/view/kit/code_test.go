package kit

import (
	"strings"
	"testing"

	"fyne.io/fyne/v2"

	"pgregory.net/rapid"
)

func TestParseDiff(t *testing.T) {
	lines := ParseDiff(Lines(`diff --git a/x b/x
--- a/x
+++ b/x
@@ -10,3 +10,4 @@ func f()
 one
-two
+2
+2b
--- three

@@ -40 +41 @@
-+x
++y
\ No newline at end of file
`))
	want := []struct {
		kind     DiffKind
		old, new int
		text     string
	}{
		{DiffFile, 0, 0, "diff --git a/x b/x"},
		{DiffFile, 0, 0, "--- a/x"},
		{DiffFile, 0, 0, "+++ b/x"},
		{DiffHunk, 0, 0, "func f()"},
		{DiffContext, 10, 10, "one"},
		{DiffRemoved, 11, 0, "two"},
		{DiffAdded, 0, 11, "2"},
		{DiffAdded, 0, 12, "2b"},
		{DiffRemoved, 12, 0, "-- three"},
		{DiffAdded, 0, 13, ""},
		{DiffHunk, 0, 0, ""},
		{DiffRemoved, 40, 0, "+x"},
		{DiffAdded, 0, 41, "+y"},
		{DiffFile, 0, 0, `\ No newline at end of file`},
	}
	// An empty line inside a hunk is context whose space an editor ate; here it
	// counts for both sides, one more than the old side has left.
	want[9] = struct {
		kind     DiffKind
		old, new int
		text     string
	}{DiffContext, 13, 13, ""}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %+v", len(lines), len(want), lines)
	}
	for i, w := range want {
		l := lines[i]
		if l.Kind != w.kind || l.Old != w.old || l.New != w.new || joined(l.Spans) != w.text {
			t.Errorf("line %d is %+v, want %+v", i, l, w)
		}
	}
}

// Whatever comes, no line of a diff is left out, but for the empty last one.
func TestParseDiffKeepsEveryLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.SampledFrom([]string{"", " a", "+a", "-a", "--- a", "+++ b", "@@ -1,2 +1,2 @@", "@@ -1 +1 @@ x", "@@ junk", "x", "@@ -9999999999999999999 +1 @@", "\\ No newline"}), 1, 20).Draw(t, "lines")
		spans := Lines(strings.Join(in, "\n"))
		got := len(ParseDiff(spans))
		want := len(in)
		if in[len(in)-1] == "" && got == want-1 {
			return
		}
		if got != want {
			t.Fatalf("%d lines of %d: %q", got, want, in)
		}
	})
}

// A token at the start of a line must not be taken for a mark, nor be lost.
func TestDiffKeepsTokens(t *testing.T) {
	lines := [][]Span{
		{{Text: "@@ -1,2 +1,2 @@"}},
		{{Text: "+"}, {Text: "\u202e", Token: "RLO"}, {Text: "x"}},
		{{Text: "\u200b", Token: "ZWSP"}, {Text: "+x"}},
	}
	got := ParseDiff(lines)
	if got[1].Kind != DiffAdded || got[1].Spans[1].Token != "RLO" {
		t.Errorf("%+v", got[1])
	}
	if got[2].Kind != DiffFile || got[2].Spans[0].Token != "ZWSP" {
		t.Errorf("%+v", got[2])
	}
}

func TestHighlight(t *testing.T) {
	for _, c := range []struct {
		in   []Span
		want string
	}{
		{[]Span{{Text: "return x"}}, "keyword:return|ink: x"},
		{[]Span{{Text: `f("a\"b") // c "d"`}}, `ink:f(|literal:"a\"b"|ink:) |comment:// c "d"`},
		{[]Span{{Text: "https://x y"}}, "ink:https://x y"},
		{[]Span{{Text: "x1 = 0x1F + 2.5"}}, "ink:x1 = |number:0x1F|ink: + |number:2.5"},
		{[]Span{{Text: "it's a returned value"}}, "ink:it's a returned value"},
		{[]Span{{Text: `"a`}, {Text: "\u00a0", Token: "NBSP"}, {Text: `b" if`}}, `literal:"a|[NBSP]|literal:b"|ink: |keyword:if`},
		{[]Span{{Text: "a\tb"}}, "ink:a    b"},
		{[]Span{{Text: "# note"}}, "comment:# note"},
		{[]Span{{Text: "unended \"str"}}, `ink:unended |literal:"str`},
	} {
		var got []string
		for _, r := range highlight(c.in) {
			if r.chip {
				got = append(got, "["+r.text+"]")
			} else {
				got = append(got, strings.TrimPrefix(string(r.color), "reeve.")+":"+r.text)
			}
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%v: %s, want %s", c.in, s, c.want)
		}
	}
}

// Colouring and wrapping show every character and every token, in order, also of
// text that holds the character used inside.
func TestCodeShowsEverything(t *testing.T) {
	start(t, Theme{})
	rapid.Check(t, func(t *rapid.T) {
		var spans []Span
		var want strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			if rapid.Bool().Draw(t, "token") {
				spans = append(spans, Span{Text: "\u200b", Token: "ZWSP"})
				want.WriteString("[ZWSP]")
			} else {
				s := rapid.StringMatching(`[a-c"'/#0-9 é漢]{0,30}`).Draw(t, "text")
				spans = append(spans, Span{Text: s})
				want.WriteString(s)
			}
		}
		for _, runs := range [][]run{highlight(spans), plainRuns(spans, Ink)} {
			line := newCodeLine(runs, 12, 18)
			var got strings.Builder
			for _, row := range line.wrapAt(float32(rapid.IntRange(1, 200).Draw(t, "width"))) {
				for _, r := range row {
					if r.chip {
						got.WriteString("[" + r.text + "]")
					} else {
						got.WriteString(r.text)
					}
				}
			}
			if got.String() != want.String() {
				t.Fatalf("%q became %q", want.String(), got.String())
			}
		}
	})
	if got := highlight([]Span{{Text: "a\uE000b"}}); len(got) != 1 || got[0].text != "a\uFFFDb" {
		t.Errorf("the private character gives %+v", got)
	}
}

func TestCodeLineWraps(t *testing.T) {
	start(t, Theme{})
	line := newCodeLine(plainRuns([]Span{{Text: strings.Repeat("x", 100)}}, Ink), 12, 18)
	if h := line.heightFor(7.2 * 50.5); h != 36 {
		t.Errorf("100 characters in a place for 50 are %v high, want 36", h)
	}
	if h := line.heightFor(2000); h != 18 {
		t.Errorf("with room they are %v high, want 18", h)
	}
}

// A line of a megabyte, as agents may well send, must not hold up the window. The
// work is counted by what is measured.
func TestLongLinesTakeLinearWork(t *testing.T) {
	for name, text := range map[string]string{
		"letters": strings.Repeat("x", 200_000),
		"quotes":  strings.Repeat(`'\\`, 100_000),
	} {
		for _, r := range chunked(highlight([]Span{{Text: text}})) {
			if n := len([]rune(r.text)); n > chunk {
				t.Fatalf("%s: %d runes in a run", name, n)
			}
		}
		measured := 0
		wrap(text, 80, func(s string) float32 { measured += len(s); return float32(len(s)) })
		if measured > 40*len(text) {
			t.Errorf("%s: wrapping %d bytes measured %d", name, len(text), measured)
		}
	}
}

func FuzzParseDiff(f *testing.F) {
	f.Add("--- a\n+++ b\n@@ -1,2 +1 @@ f\n a\n-b\n")
	f.Add("@@ -0,0 +1,9999999999 @@\n+a\n\n@@")
	f.Fuzz(func(t *testing.T, s string) {
		in := Lines(s)
		out := ParseDiff(in)
		if len(out) != len(in) && len(out) != len(in)-1 {
			t.Fatalf("%d lines of %d", len(out), len(in))
		}
		for _, l := range out {
			highlight(l.Spans)
		}
	})
}

func FuzzHighlight(f *testing.F) {
	f.Add("'\\", "NBSP", "\uE000 # x")
	f.Fuzz(func(t *testing.T, a, token, b string) {
		chips := 0
		for _, r := range highlight([]Span{{Text: a}, {Text: "?", Token: token}, {Text: b}}) {
			if r.chip {
				chips++
			}
		}
		if token != "" && chips != 1 {
			t.Fatalf("%d chips for one token", chips)
		}
	})
}

func BenchmarkListWheel(b *testing.B) {
	lines := make([]DiffLine, 100_000)
	for i := range lines {
		lines[i] = DiffLine{Kind: DiffKind(i % 3), Old: i, New: i, Spans: []Span{{Text: "\treturn fmt.Errorf(\"invoices to move: %w\", err) // and why"}}}
	}
	fyne.CurrentApp().Settings().SetTheme(Theme{})
	l := DiffList(lines, 20)
	l.Resize(fyne.NewSize(900, 700))
	b.ResetTimer()
	for range b.N {
		l.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, -40)})
	}
}
