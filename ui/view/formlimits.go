package view

import (
	"slices"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// What the form offers as limits, in MiB and minutes; 0 is what goes
// without a choice. Others are set from the command line.
var (
	memoryLimits = []int64{0, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	cpuLimits    = []int64{0, 10, 30, 60, 120, 240}
)

// limitsRow is the part of the form that few people need: it is one line until
// it is opened.
type limitsRow struct {
	f           *formWindow
	root        *fyne.Container
	toggle      *kit.Press
	memory, cpu *kit.Select
	wait        *kit.CheckBox
	open        bool
}

func newLimitsRow(f *formWindow) *limitsRow {
	l := &limitsRow{f: f, root: kit.Col(6)}
	choice := func(name, none string, values []int64, write func(int64) string, set func(int64)) *kit.Select {
		var options []kit.Option
		for _, v := range values {
			label := none
			if v > 0 {
				label = write(v)
			}
			options = append(options, kit.Option{Label: label})
		}
		return kit.NewSelect(name, options, 0, func(i int) {
			set(values[i])
			f.changed()
			l.draw()
		}).Small()
	}
	l.memory = choice(say.T("Memory"), say.T("three quarters of all"), memoryLimits, func(v int64) string { return mission.Memory(v << 20) }, func(v int64) { f.form.Terms.Limits.MemoryMB = v })
	l.cpu = choice(say.T("Processor time"), say.T("no limit"), cpuLimits, func(v int64) string { return model.Duration(time.Duration(v) * time.Minute) }, func(v int64) { f.form.Terms.Limits.CPUMinutes = v })
	l.wait = kit.NewSwitch(kit.Body(say.T("Wait for a rate limit whose end is known")), false, func(on bool) {
		f.form.Terms.WaitForReset = on
		f.changed()
		l.draw()
	})
	l.toggle = kit.NewPress(kit.Col(0), 6, func() {
		l.open = !l.open
		l.draw()
		if l.open {
			f.body.ScrollToBottom() // it is the last part
		}
	})
	l.draw()
	return l
}

// fill takes the limits of an earlier mission. What is not among the choices is
// kept and shown in words.
func (l *limitsRow) fill(limits mission.Limits, wait bool) {
	l.f.form.Terms.Limits, l.f.form.Terms.WaitForReset = limits, wait
	l.wait.Set(wait)
	l.memory.Hint(say.T("another"))
	l.cpu.Hint(say.T("another"))
	l.memory.Set(slices.Index(memoryLimits, limits.MemoryMB))
	l.cpu.Set(slices.Index(cpuLimits, limits.CPUMinutes))
	l.draw()
}

func (l *limitsRow) draw() {
	text := model.LimitsNote(l.f.form.Terms.Limits)
	if l.f.form.Terms.WaitForReset {
		text += ", " + say.T("waits for rate limits")
	}
	l.toggle.SetContent(kit.Sized(0, 24, kit.Row(6, kit.NewIcon(chevron(l.open), 12, kit.Quiet), kit.Small(say.T("Limits"), kit.Bold), kit.Gap(2), kit.Note(text))))
	parts := []fyne.CanvasObject{kit.Pad(0, 0, 0, -2, kit.Row(0, l.toggle))}
	if l.open {
		parts = append(parts, kit.Row(8, kit.Fix(260, l.memory), kit.Fix(240, l.cpu)),
			kit.Sized(0, 26, kit.Row(10, l.wait, kit.Shrink(kit.Note(say.T("Its time runs on meanwhile. Else the mission is blocked until you resume it.")).CutEnd()), kit.Spring())))
	}
	kit.Set(l.root, parts...)
}
