package model

import (
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestOffers(t *testing.T) {
	a := wire.Approval{ID: "p-1", Kind: string(approval.ToolCall), State: "pending", Subject: []byte(`{"command":"npm test"}`),
		Offers: []wire.Offer{{Sentence: "exactly this command"}, {Pattern: "npm\u202e test *", Sentence: "x\ny"}}}
	v := NewApproval(a, "", time.Now())
	if len(v.Offers) != 2 || v.Offers[0].Pattern != "" || v.Offers[1].Pattern != "npm\u202e test *" {
		t.Fatalf("%+v", v.Offers)
	}
	if o := v.Offers[1]; o.Shown != "npm‹RLO› test *" || o.Sentence != "x y" {
		t.Errorf("something hides in %q, %q", o.Shown, o.Sentence)
	}
	for _, kind := range []approval.Kind{approval.QuestionAsked, approval.MissionStart, approval.MissionRecover} {
		a.Kind = string(kind)
		if v := NewApproval(a, "", time.Now()); len(v.Offers) != 0 {
			t.Errorf("%s can make a rule", kind)
		}
	}
	a.Kind, a.State = string(approval.ToolCall), "allowed"
	if v := NewApproval(a, "", time.Now()); len(v.Offers) != 0 {
		t.Error("what was answered offers rules")
	}
}
