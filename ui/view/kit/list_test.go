package kit

import (
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
	"pgregory.net/rapid"
)

// rows counts what a list builds; row i is 20 to 26 high.
type rows struct {
	built map[int]int
	last  map[int]fyne.CanvasObject
}

func (r *rows) build(i int) fyne.CanvasObject {
	r.built[i]++
	r.last[i] = fixed(10, 20+float32(i%7))
	return r.last[i]
}

func newRows() *rows {
	return &rows{built: map[int]int{}, last: map[int]fyne.CanvasObject{}}
}

func shownList(t *testing.T, r *rows, n int) *List {
	t.Helper()
	start(t, Theme{})
	l := NewList(24, r.build)
	l.Reset(n)
	w := test.NewTempWindow(t, l)
	w.SetPadded(false)
	w.Resize(fyne.NewSize(300, 400))
	return l
}

func TestListBuildsOnlyWhatIsInSight(t *testing.T) {
	r := newRows()
	l := shownList(t, r, 100_000)
	if n := len(r.built); n > 30 {
		t.Errorf("%d rows built for a view of 400", n)
	}
	clear(r.built)
	l.ScrollTo(50_000)
	if n := len(r.built); n == 0 || n > 30 {
		t.Errorf("%d rows built after a jump", n)
	}
	if first, end := l.InView(); first != 50_000 || end < 50_015 || end > 50_021 {
		t.Errorf("rows %d to %d in sight", first, end)
	}
	clear(r.built)
	for range 20 {
		l.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, -5)})
	}
	if n := len(r.built); n > 8 {
		t.Errorf("%d rows built for 100 units of scrolling", n)
	}
	for i, times := range r.built {
		if times > 1 {
			t.Errorf("row %d was built %d times while in sight", i, times)
		}
	}
	if n := len(l.content.Objects); n > 22 {
		t.Errorf("%d objects are kept", n)
	}
	l.Follow()
	if _, end := l.InView(); end != 100_000 {
		t.Errorf("the end shows rows up to %d", end)
	}
	o := l.content.Objects[len(l.content.Objects)-1]
	if bottom := o.Position().Y + o.Size().Height; bottom != 400 {
		t.Errorf("the last row ends at %v, not at the view's end", bottom)
	}
}

func TestListFollowsItsEnd(t *testing.T) {
	r := newRows()
	l := shownList(t, r, 100)
	if l.Following() {
		t.Error("follows before it is told")
	}
	l.Follow()
	l.Append(50)
	if _, end := l.InView(); end != 150 || !l.Following() {
		t.Errorf("shows up to %d, following %v", end, l.Following())
	}
	l.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, 100)})
	if l.Following() {
		t.Error("still follows after scrolling up")
	}
	first, _ := l.InView()
	y := l.content.Objects[0].Position().Y
	l.Append(50)
	if f, _ := l.InView(); f != first || l.content.Objects[0].Position().Y != y {
		t.Errorf("rows in sight moved from %d at %v to %d at %v", first, y, f, l.content.Objects[0].Position().Y)
	}
	l.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEnd})
	if _, end := l.InView(); end != 200 || !l.Following() {
		t.Error("End does not go to the end")
	}
}

func TestListKeepsItsPlaceWhenRowsComeBefore(t *testing.T) {
	r := newRows()
	l := shownList(t, r, 1000)
	l.ScrollTo(500)
	l.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, -7)})
	o, y := l.content.Objects[0], l.content.Objects[0].Position().Y
	l.Insert(0, 200)
	if l.content.Objects[0] != o || o.Position().Y != y {
		t.Error("the rows in sight moved")
	}
	if first, _ := l.InView(); first != 700 {
		t.Errorf("the first in sight is %d, want 700", first)
	}
}

func TestListRebuildsChangedRows(t *testing.T) {
	r := newRows()
	l := shownList(t, r, 1000)
	l.Changed(3)
	if r.built[3] != 2 || r.built[4] != 1 {
		t.Errorf("row 3 was built %d times, row 4 %d times", r.built[3], r.built[4])
	}
	l.Reset(2)
	if first, end := l.InView(); first != 0 || end != 2 || len(l.content.Objects) != 2 {
		t.Errorf("after a reset rows %d to %d", first, end)
	}
	l.Reset(0)
	if len(l.content.Objects) != 0 {
		t.Error("an empty list shows rows")
	}
}

// However one scrolls, the view is full, without holes, and its rows in order.
func TestListHasNoHoles(t *testing.T) {
	r := newRows()
	l := shownList(t, r, 300)
	rapid.Check(t, func(t *rapid.T) {
		l.Reset(rapid.IntRange(1, 300).Draw(t, "n"))
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				l.ScrollTo(rapid.IntRange(0, l.Len()-1).Draw(t, "to"))
			case 1:
				l.Follow()
			case 2:
				l.Insert(rapid.IntRange(0, l.Len()).Draw(t, "at"), rapid.IntRange(1, 9).Draw(t, "more"))
			case 3:
				l.Changed(rapid.IntRange(0, l.Len()-1).Draw(t, "changed"))
			default:
				l.Scrolled(&fyne.ScrollEvent{Scrolled: fyne.NewDelta(0, rapid.Float32Range(-3000, 3000).Draw(t, "by"))})
			}
			objects := l.content.Objects
			if top := objects[0].Position().Y; top > 0 {
				t.Fatalf("a hole of %v at the top", top)
			}
			for i := 1; i < len(objects); i++ {
				if d := objects[i].Position().Y - objects[i-1].Position().Y - objects[i-1].Size().Height; d < -1 || d > 1 {
					t.Fatalf("%v between rows %d and %d", d, i-1, i)
				}
			}
			end := objects[len(objects)-1]
			if bottom := end.Position().Y + end.Size().Height; bottom < 399 && l.heights.total() > 400 {
				t.Fatalf("rows end at %v", bottom)
			}
		}
	})
}

func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sums
		var plain []float64
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h := float64(rapid.IntRange(1, 50).Draw(t, "h"))
			if len(plain) == 0 || rapid.Bool().Draw(t, "insert") {
				at, n := rapid.IntRange(0, len(plain)).Draw(t, "at"), rapid.IntRange(1, 9).Draw(t, "n")
				s.insert(at, n, h)
				var next []float64
				next = append(next, plain[:at]...)
				for range n {
					next = append(next, h)
				}
				plain = append(next, plain[at:]...)
			} else {
				i := rapid.IntRange(0, len(plain)-1).Draw(t, "i")
				s.set(i, h)
				plain[i] = h
			}
		}
		var sum float64
		for i, h := range plain {
			if got := s.before(i); got != sum {
				t.Fatalf("before %d: %v, want %v", i, got, sum)
			}
			for _, y := range []float64{sum, sum + h - 0.5} {
				if row, before := s.find(y); row != i || before != sum {
					t.Fatalf("at %v is row %d from %v, want %d from %v", y, row, before, i, sum)
				}
			}
			sum += h
		}
		if row, _ := s.find(sum + 100); row != len(plain)-1 {
			t.Fatalf("beyond the end is row %d", row)
		}
	})
}
