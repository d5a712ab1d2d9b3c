package kit

import (
	"flag"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
	"fyne.io/fyne/v2/widget"
)

var update = flag.Bool("update", false, "write the pictures in testdata anew")

// gallery is every widget, by picture; each is drawn in light and in dark.
var gallery = []struct {
	name  string
	width float32
	build func() fyne.CanvasObject
}{
	{"text", 560, galleryText},
	{"buttons", 640, galleryButtons},
	{"states", 640, galleryStates},
	{"fields", 640, galleryFields},
	{"choices", 640, galleryChoices},
	{"code", 640, galleryCode},
	{"list", 480, galleryList},
}

func TestGallery(t *testing.T) {
	for _, g := range gallery {
		for mode, name := range map[Mode]string{Light: "light", Dark: "dark"} {
			t.Run(g.name+"-"+name, func(t *testing.T) {
				compare(t, g.name+"-"+name, picture(t, mode, g.width, g.build))
			})
		}
	}
}

// The pictures must not depend on when the theme was set: built in one mode and
// switched, a widget looks as if it was built in the other.
func TestThemeSwitchesAtRunTime(t *testing.T) {
	for _, g := range gallery {
		t.Run(g.name, func(t *testing.T) {
			built := picture(t, Dark, g.width, g.build)
			w := show(t, Light, g.width, g.build)
			test.ApplyTheme(t, Theme{Mode: Dark})
			if n := different(built, w.Canvas().Capture()); n > 0 {
				save(t, g.name+"-switched", w.Canvas().Capture())
				t.Errorf("%d pixels keep the colours of the theme before", n)
			}
		})
	}
}

// start begins an app without a display, in a theme.
func start(t *testing.T, th Theme) {
	t.Helper()
	test.NewTempApp(t)
	test.ApplyTheme(t, th)
}

func show(t *testing.T, mode Mode, width float32, build func() fyne.CanvasObject) fyne.Window {
	t.Helper()
	start(t, Theme{Mode: mode})
	o := Pad(16, 16, 16, 16, build())
	w := test.NewTempWindow(t, Over(Ground, o))
	w.SetPadded(false)
	w.Resize(fyne.NewSize(width, HeightFor(o, width)))
	return w
}

func picture(t *testing.T, mode Mode, width float32, build func() fyne.CanvasObject) image.Image {
	t.Helper()
	return show(t, mode, width, build).Canvas().Capture()
}

// compare checks got against testdata/name.png, pixel by pixel with a little
// room for other floating-point units.
func compare(t *testing.T, name string, got image.Image) {
	t.Helper()
	path := filepath.Join("testdata", name+".png")
	if *update {
		writePNG(t, path, got)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if n := different(want, got); n > 0 {
		save(t, name, got)
		t.Errorf("%s: %d pixels differ; look at testdata/failed/%s.png, and run with -update if it is right", path, n, name)
	}
}

func different(a, b image.Image) int {
	if a.Bounds() != b.Bounds() {
		return -1 + max(1, a.Bounds().Dx()*a.Bounds().Dy())
	}
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			for _, d := range []int{int(r1) - int(r2), int(g1) - int(g2), int(b1) - int(b2)} {
				if d > 0x800 || d < -0x800 {
					n++
					break
				}
			}
		}
	}
	return n
}

func save(t *testing.T, name string, img image.Image) {
	t.Helper()
	writePNG(t, filepath.Join("testdata", "failed", name+".png"), img)
}

func writePNG(t *testing.T, path string, img image.Image) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
}

func galleryText() fyne.CanvasObject {
	return Col(8,
		Row(10, Title("Missions"), Strong("strong 16"), Body("body 14"), Small("small 12"), Note("note 12"), Small("mono", Mono), Small("bold", Bold), Small("italic", Italic)),
		Row(8, Shrink(Body("A title that is much too long for the place that it has in this row, in any language", Bold).CutEnd()), Note("after"), Spring(), Note("right")),
		Row(8, Fix(180, Small("northwind/billing-platform-monorepo", Mono).CutMiddle()), Fix(80, Small("+84", Mono).Right()), Fix(80, Small("middle").Middle())),
		Wrapped("I'll start with the lexer. The tests describe the token kinds, so I read those first and keep the public names unchanged; byte offsets stay as they are."),
		AtMost(240, NewParagraph("Port the TypeScript parser to Go, file by file. Keep the public names and the error positions.\n\nLeave the command line alone.", SizeSmall, Quiet)),
		HLine(),
		Card(Pad(12, 12, 12, 12, Row(8, NewIcon(ShapeMark, 20, Accent), Strong("Reeve")))),
	)
}

func galleryButtons() fyne.CanvasObject {
	disabled := NewButton(Tint, "Allow once", nil)
	disabled.Disable()
	disabled2 := NewButton(Primary, "Continue to approval", nil)
	disabled2.Disable()
	focused := NewButton(Plain, "Deny", nil).Least(84)
	focused.FocusGained()
	hover := NewButton(Plain, "Hovered", nil)
	hover.MouseIn(nil)
	return Col(12,
		Row(8, NewButton(Primary, "Review", nil), NewButton(Plain, "New mission", nil).Icon(ShapePlus), NewButton(QuietButton, "Deny and say why…", nil), NewButton(Danger, "Stop…", nil).Icon(ShapeStopped), NewButton(Tint, "Allow once", nil).Least(108)),
		Row(8, focused, hover, NewButton(QuietDanger, "Deny and stop", nil), Spring(), NewButton(Plain, "Allow for this mission", nil).After(ShapeDown)),
		Row(8, disabled, disabled2, NewButton(Plain, "Small", nil).Small(), NewButton(Primary, "Review", nil).Small(), NewButton(Plain, "Choose…", nil).Tall()),
	)
}

func galleryStates() fyne.CanvasObject {
	badges := []fyne.CanvasObject{}
	for s := Working; s <= Paused; s++ {
		badges = append(badges, NewBadge(s, ""))
	}
	icons := []fyne.CanvasObject{}
	for s := Working; s <= Paused; s++ {
		icons = append(icons, s.Icon(14))
	}
	for _, s := range []Shape{ShapeMark, ShapeMissions, ShapeApprovals, ShapeFolder, ShapeClock, ShapeRules, ShapeSettings, ShapePlus, ShapeLeft, ShapeRight, ShapeDown, ShapeSearch, ShapeCopy, ShapeCheck, ShapeBranch, ShapeRecover, ShapeQueue} {
		icons = append(icons, NewIcon(s, 16, Ink))
	}
	row := func(s State, title string, left float32) fyne.CanvasObject {
		return Sized(0, 56, Pad(0, 12, 0, 14, Row(0, s.Icon(14), Gap(12), Grow(Col(0, Fix(21, Row(8, Shrink(Body(title, Bold).CutEnd()))), Fix(18, Row(5, Note("reading"), Shrink(Small("packages/uploader/src/retry.ts", Mono).CutEnd()))))),
			Fix(136, Col(0, Fix(21, Row(0, Small("41 min left"), Spring(), Note("15:46"))), Fix(18, NewTimeBar(left, s.Color())))))))
	}
	return Col(12,
		Row(6, badges[:4]...),
		Row(6, badges[4:]...),
		Row(6, icons...),
		Row(8, Pill(Note("3"), Selected), Pill(Small("42"), AccentTint), Fix(200, NewTimeBar(.2, Waiting)), Fix(80, NewTimeBar(.86, Accent).NoTrack()), Fix(60, NewTimeBar(0, Accent))),
		TintedRows(WaitingTint, WaitingLine, 40, row(NeedsYou, "Port parser to Go", .2), row(NeedsYou, "Split the settings page", .41)),
		Rows(40, row(Working, "Add retry to uploader", .68), row(Paused, "Rewrite onboarding emails", .87)),
	)
}

func galleryFields() fyne.CanvasObject {
	title := widget.NewEntry()
	title.SetText("Split the settings page")
	scope := widget.NewMultiLineEntry()
	scope.Wrapping = fyne.TextWrapWord
	scope.SetText("Split the settings page into Profile, Notifications and Billing, each with its own route. Keep every form's behaviour and its tests.")
	hint := widget.NewEntry()
	hint.SetPlaceHolder("Steer at the next turn")
	filter, _ := NewSearch("Filter", "Ctrl F", nil)
	focused := NewSelect("Model", []Option{{Label: "sonnet"}}, 0, nil).Small()
	focused.FocusGained()
	slider := NewSlider(15, 240, 15, []Tick{{15, "15 min"}, {60, "1 h"}, {120, "2 h"}, {180, "3 h"}, {240, "4 h"}}, nil)
	slider.Set(60)
	slider2 := NewSlider(0, 10, 1, nil, nil)
	slider2.Set(7)
	slider2.FocusGained()
	return Col(12,
		Row(8, Grow(NewSelect("", []Option{{"~/code/shop-web", "northwind/shop-web, main"}}, 0, nil).Icon(ShapeFolder).Mono()), NewButton(Plain, "Choose…", nil).Tall()),
		Row(8, Fix(200, focused), Fix(200, NewSelect("Budget", []Option{{Label: "$5.00"}}, 0, nil).Small()), Fix(188, filter)),
		Field(title, 0),
		Field(scope, 104),
		Row(8, Grow(Field(hint, 0)), NewButton(Plain, "Queue", nil).Icon(ShapeQueue).Tall()),
		slider,
		slider2,
	)
}

func galleryChoices() fyne.CanvasObject {
	agent := func(name, version, note string) *Radio {
		return NewRadioCard(Col(4, Row(8, Body(name, Bold), Spring(), Note(version, Mono)), Row(5, NewIcon(ShapeCheck, 11, Done), Grow(Note(note).CutEnd()))))
	}
	a, b := agent("Claude Code", "2.0.31", "signed in as mika@northwind.example"), agent("Codex", "0.63.0", "signed in")
	NewRadios(0, nil, a, b)
	c, d := NewRadio(Body("It happened")), NewRadio(Body("I don't know; the agent should look first"))
	NewRadios(1, nil, c, d)
	off := NewCheckBox(Body("Not here"), true, nil)
	off.Disable()
	focused := NewCheckBox(Row(6, Body("Run"), Body("npm test", Mono)), false, nil)
	focused.FocusGained()
	tabs := NewTabs(0, nil, "Transcript", "Changes", "Turns", "Effects")
	tabs.SetCount(1, 3)
	tabs.SetCount(2, 4)
	nav := NewNavItem(ShapeMissions, "Missions", nil)
	nav.SetCount(3, true)
	nav.SetSelected(true)
	nav2 := NewNavItem(ShapeApprovals, "Approvals", nil)
	nav2.SetCount(12, false)
	return Col(14,
		Columns(8, Grow(Sized(1, 0, a)), Grow(Sized(1, 0, b))),
		Row(20, c, d),
		Row(20, NewCheckBox(Body("Read and search"), true, nil), focused, off),
		Row(20, NewSwitch(Body("Work in a separate worktree"), false, nil), NewSwitch(Body("On"), true, nil)),
		Row(0, NewSegments(0, nil, "All", "Live", "Finished"), Spring()),
		Col(0, Row(0, tabs, Spring()), HLine()),
		Sized(208, 0, AtMost(208, Over(Side, Pad(12, 12, 12, 12, Col(2, nav, nav2, NewNavItem(ShapeSettings, "Settings", nil)))))),
	)
}

func galleryCode() fyne.CanvasObject {
	code := [][]Span{
		{{Text: "go test ./... -run 'TestLexer|TestPosition' -count=1 \\"}},
		{{Text: "  && rm -rf build"}, {Text: "\u00a0", Token: "NBSP"}, {Text: "cache"}, {Text: "\u200b", Token: "ZWSP"}, {Text: "/ \\"}},
		{{Text: "  && echo \"ok "}, {Text: "\u202e", Token: "RLO"}, {Text: "txt.sh\" | tee result.txt"}, {Text: " ", Token: "SP"}, {Text: " ", Token: "SP"}},
		{{Text: "curl --fail --silent --show-error --location https://example.org/a/very/long/path/that/goes/past/the/end --output build/archive.tar.gz"}},
	}
	diff := append(Lines(`--- a/db/migrations/0042_ledger_backfill.go
+++ b/db/migrations/0042_ledger_backfill.go
@@ -18,5 +18,5 @@ func backfill(ctx context.Context, tx *sql.Tx) error
 	const batch = 500
-	rows, err := tx.Query("SELECT id FROM invoice")
+	rows, err := tx.QueryContext(ctx, // with a context, so that the backfill can be stopped half way
 	if err != nil {
-		return err`), []Span{{Text: "+\t\treturn fmt.Errorf(\"invoices"}, {Text: "\u00a0", Token: "NBSP"}, {Text: "to move: %w\", err)"}}, []Span{{Text: " \t}"}})
	return Col(14,
		CodeBlock(code),
		Row(20, Row(6, Chip("NBSP", 14), Small("U+00A0", Mono), Note("space that does not break")), Row(6, Chip("SP", 14), Small("×2", Mono), Note("spaces at the end of the line"))),
		Box(Surface, Line, 6, Pad(1, 1, 1, 1, Diff(ParseDiff(diff), 20))),
	)
}

func galleryList() fyne.CanvasObject {
	l := NewList(24, func(i int) fyne.CanvasObject {
		if i%3 == 1 {
			return Columns(8, Fix(44, Col(0, Sized(0, 24, Row(0, Note("14:52", Mono))))), Grow(Pad(2, 0, 2, 0, Wrapped("The lexer compiles. I want to run its tests before I go on to the parser, and then some more."))))
		}
		return Sized(0, 24, Row(8, Fix(44, Note("14:53", Mono)), NewIcon(ShapeRight, 12, Quiet), Small("Read", Bold), Shrink(Small("parser/lexer.ts", Mono).CutEnd()), Spring(), Note("0.1 s")))
	})
	l.Reset(100_000)
	l.Follow()
	return Sized(0, 200, l)
}
