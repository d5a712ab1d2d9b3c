package view

import (
	"context"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// providers is what was found on this machine, as the service said last.
type providers struct {
	list    []wire.Provider
	known   bool
	stale   bool // the connection is new: ask again
	asking  bool
	problem string
}

// probe asks the service what agents there are, in the person's environment.
func (d *desk) probe() {
	p := &d.providers
	if link, _ := d.st.Link(); p.asking || link != model.Running {
		return
	}
	p.asking, p.stale = true, false
	d.withEnv(func() {
		task(d, func(ctx context.Context) (wire.ProviderListResult, error) {
			var r wire.ProviderListResult
			err := d.call(ctx, wire.MethodProviderList, wire.ProviderListParams{Env: d.env}, &r)
			return r, err
		}, func(r wire.ProviderListResult, err error) {
			p.asking, p.problem = false, sentence(err)
			if err == nil {
				p.list, p.known = r.Providers, true
			}
			d.changed()
		})
	})
}

// standing says of a provider in a line how it is found, with its shape.
func providerStanding(p wire.Provider) (shape kit.Shape, color kit.Color, text string, usable bool) {
	switch {
	case !p.Found:
		return kit.ShapeFailed, kit.Quiet, "not found on this computer", false
	case p.SignedIn != nil && !*p.SignedIn:
		return kit.ShapeFailed, kit.Wrong, "not signed in", false
	case p.Problem != "":
		return kit.ShapeFailed, kit.Wrong, model.Clean(p.Problem), false
	case p.SignedIn != nil:
		return kit.ShapeCheck, kit.Done, "signed in", true
	}
	return kit.ShapeCheck, kit.Done, "ready", true
}

func providerTitle(p wire.Provider) string {
	if p.Title != "" {
		return model.Clean(p.Title)
	}
	return model.ProviderTitle(p.Name)
}
