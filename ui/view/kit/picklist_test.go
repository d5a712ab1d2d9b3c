package kit

import (
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
)

func TestPickList(t *testing.T) {
	test.NewTempApp(t)
	test.ApplyTheme(t, Theme{Mode: Light})
	var told []int
	l := NewPickList(20, func(int) fyne.CanvasObject { return Sized(0, 20) }, func(i int) { told = append(told, i) })
	w := test.NewTempWindow(t, l)
	w.SetPadded(false)
	w.Resize(fyne.NewSize(200, 100))
	l.Reset(50)
	l.Tapped(&fyne.PointEvent{Position: fyne.NewPos(10, 45)})
	if l.Chosen() != 2 || w.Canvas().Focused() != fyne.Focusable(l) {
		t.Errorf("a click chose %d, focus %v", l.Chosen(), w.Canvas().Focused())
	}
	for _, k := range []fyne.KeyName{fyne.KeyDown, fyne.KeyUp, fyne.KeyUp, fyne.KeyUp, fyne.KeyUp, fyne.KeyEnd, fyne.KeyDown} {
		l.TypedKey(&fyne.KeyEvent{Name: k})
	}
	want := []int{2, 3, 2, 1, 0, 49}
	if len(told) != len(want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Fatalf("told %v, want %v", told, want)
		}
	}
	if first, end := l.InView(); first > 49 || end != 50 {
		t.Errorf("rows %d to %d are in sight", first, end)
	}
	l.Set(0)
	if first, _ := l.InView(); first != 0 || len(told) != len(want) {
		t.Errorf("row %d is first in sight, told %v", first, told)
	}
	l.Tapped(&fyne.PointEvent{Position: fyne.NewPos(10, 25)})
	if l.Chosen() != 1 {
		t.Errorf("chosen %d", l.Chosen())
	}
}
