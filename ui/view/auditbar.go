package view

import (
	"context"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// auditBar verifies the audit log and says how it stands.
type auditBar struct {
	d      *desk
	root   fyne.CanvasObject
	body   *fyne.Container
	verify *kit.Button
	copy   *kit.Button

	busy    bool
	result  *wire.AuditVerifyResult // nil: not verified yet
	at      string                  // when
	problem string
}

func newAuditBar(d *desk) *auditBar {
	b := &auditBar{d: d, body: kit.Col(6)}
	b.verify = kit.NewButton(kit.Plain, say.T("Verify"), b.run).Small().Least(84)
	b.copy = kit.NewButton(kit.QuietButton, say.T("Copy"), func() {
		if b.result != nil {
			d.app.Clipboard().SetContent(b.result.Head)
		}
	}).Icon(kit.ShapeCopy).Small()
	b.root = b.body
	b.draw()
	return b
}

func (b *auditBar) refresh() {
	link, _ := b.d.st.Link()
	enable(b.verify, link == model.Running && !b.busy)
}

func (b *auditBar) run() {
	if b.busy {
		return
	}
	b.busy, b.result, b.problem = true, nil, ""
	b.draw()
	task(b.d, func(ctx context.Context) (wire.AuditVerifyResult, error) {
		var r wire.AuditVerifyResult
		err := b.d.call(ctx, wire.MethodAuditVerify, struct{}{}, &r)
		return r, err
	}, func(r wire.AuditVerifyResult, err error) {
		b.busy, b.problem = false, sentence(err)
		if err == nil {
			b.result, b.at = &r, model.Clock(b.d.now(), b.d.now())
		}
		b.draw()
	})
}

func (b *auditBar) draw() {
	b.refresh()
	text := say.T("Every approval, answer, rule and refusal, in a chain. Keep its head elsewhere.")
	if b.busy {
		text = say.T("Verifying the chain")
	}
	rows := []fyne.CanvasObject{kit.Row(10, kit.NewIcon(kit.ShapeApprovals, 16, kit.Quiet), kit.Small(say.T("Audit log"), kit.Bold),
		kit.Grow(kit.Note(text).CutEnd()), b.verify)}
	switch {
	case b.problem != "":
		rows = append(rows, problemBox(say.T("The audit log could not be verified"), b.problem))
	case b.result != nil && b.result.OK:
		rows = append(rows, kit.Pad(0, 0, 0, 26, kit.Row(8, kit.NewIcon(kit.ShapeDone, 12, kit.Done),
			kit.NewText(say.T("Whole"), kit.SizeSmall, kit.Done, kit.Bold), kit.Small(say.T("%d entries hold, verified %s", b.result.Entries, b.at)),
			kit.Note(say.T("head")), kit.Shrink(kit.Small(model.GroupDigest(b.result.Head), kit.Mono).CutMiddle()), kit.Spring(), b.copy)))
	case b.result != nil:
		rows = append(rows, problemBox(say.T("The chain is broken at entry %d", b.result.BrokenAt),
			model.Clean(b.result.Detail)+" "+say.T("What stands there was changed by something other than the service. Compare it with an export, and keep the state directory as it is.")))
	}
	kit.Set(b.body, rows...)
}
