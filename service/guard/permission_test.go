//go:build unix

package guard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

func resolve(t *testing.T, c *guard.Client, p wire.ResolveParams) string {
	t.Helper()
	r, err := c.Resolve(within(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

func TestPermission(t *testing.T) {
	w, c := started(t, "fake")
	ctx := within(t)
	w.turn(c, `
echo "@ask 1 execute rm -rf <x> && y"; read a; echo "$a" >>answers
echo "@ask 1 execute rm -rf <x> && y"; read a; echo "$a" >>answers
echo "@ask 3 edit ed"; read a; echo "$a" >>answers`)
	p := asked(t, c)
	if p.Kind != "tool_call" || p.Class != "execute" || p.Turn != "t-1" || !strings.HasPrefix(p.Request, "p-") {
		t.Fatalf("%+v", p)
	}
	var s approval.Subject
	if err := json.Unmarshal(p.Subject, &s); err != nil || s.Command != "rm -rf <x> && y" {
		t.Fatalf("%+v %v", s, err)
	}
	// Whoever has the entry can compute the digest.
	digest, err := approval.Digest(approval.Envelope{
		ID: p.Request, Kind: approval.Kind(p.Kind), Mission: "m-1",
		Attempt: filepath.Base(w.dir), Turn: 1, Subject: s,
	})
	if err != nil || digest != p.Digest {
		t.Fatalf("digest %s, want %s (%v)", p.Digest, digest, err)
	}

	answer := wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"}
	wrong := answer
	wrong.Digest = strings.Repeat("0", 64)
	_, err = c.Resolve(ctx, wrong)
	code(t, err, wire.CodeApprovalMismatch)
	unknown := answer
	unknown.Request = "p-none"
	if got := resolve(t, c, unknown); got != "gone" {
		t.Fatal(got)
	}
	for range 2 { // the second is sent again with another command id
		if got := resolve(t, c, answer); got != "delivered" {
			t.Fatal(got)
		}
	}
	_, err = c.Resolve(ctx, wrong)
	code(t, err, wire.CodeApprovalMismatch)
	no := answer
	no.Allow = false
	_, err = c.Resolve(ctx, no)
	code(t, err, wire.CodeAlreadyAnswered)

	q := asked(t, c) // the same again is another question
	if q.Request == p.Request || q.Digest == p.Digest {
		t.Fatal("the repeated request has the id or digest of the first")
	}
	if got := resolve(t, c, wire.ResolveParams{Request: q.Request, Digest: q.Digest, Message: "not that", By: "rule"}); got != "delivered" {
		t.Fatal(got)
	}
	r := data[wire.PermissionResolved](t, next(t, c, wire.KindPermissionResolved))
	if r.Outcome != "denied" || r.By != "rule" || r.Reason != "not that" {
		t.Fatalf("%+v", r)
	}
	q = asked(t, c)
	if q.Kind != "file_change" {
		t.Fatalf("%+v", q)
	}
	resolve(t, c, wire.ResolveParams{Request: q.Request, Digest: q.Digest, Allow: true, By: "program"})
	finished(t, c)
	if raw, err := os.ReadFile(filepath.Join(w.folder, "answers")); err != nil || string(raw) != "yes\nno not that\nyes\n" {
		t.Fatalf("answers %q, %v", raw, err)
	}
	for i, e := range w.log() {
		if e.Kind == wire.KindPermissionResolved && data[wire.PermissionResolved](t, e).Request == p.Request {
			if got := data[wire.PermissionResolved](t, e); got.Outcome != "allowed" || got.By != "program" {
				t.Fatalf("%d: %+v", i, got)
			}
		}
	}
}

func TestPermissionEndsWithoutAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		end    func(*testing.T, *guard.Client)
		by     string
	}{
		"withdrawn by the agent": {`echo "@ask 1 execute x"; echo "@withdraw 1"; read a; sleep 300`, nil, "provider"},
		"turn over":              {`echo "@ask 1 execute x"; exit 0`, nil, "turn"},
		"interrupted": {`echo "@ask 1 execute x"; read a; sleep 300`, func(t *testing.T, c *guard.Client) {
			if err := c.Interrupt(within(t), wire.InterruptParams{}); err != nil {
				t.Fatal(err)
			}
		}, "turn"},
		"stopped": {`echo "@ask 1 execute x"; read a; sleep 300`, func(t *testing.T, c *guard.Client) {
			if _, err := c.Stop(within(t), wire.GuardStopParams{}); err != nil {
				t.Fatal(err)
			}
		}, "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			w.turn(c, test.script)
			p := asked(t, c)
			if test.end != nil {
				test.end(t, c)
			}
			r := data[wire.PermissionResolved](t, next(t, c, wire.KindPermissionResolved))
			if r.Request != p.Request || r.Outcome != "withdrawn" || r.By != test.by {
				t.Fatalf("%+v", r)
			}
			if test.by == "stop" {
				return
			}
			if got := resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"}); got != "gone" {
				t.Fatal(got)
			}
		})
	}
}

func TestAnswerToAForgottenRequest(t *testing.T) {
	w, c := started(t, "fake")
	w.turn(c, `echo "@ask 1 execute x"; echo "@forget 1"; echo forgotten; read a`)
	p := asked(t, c)
	next(t, c, wire.KindText)
	if got := resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"}); got != "gone" {
		t.Fatal(got)
	}
	next(t, c, wire.KindNotice)
}

func TestRequestTooLargeToShow(t *testing.T) {
	w, c := started(t, "fake")
	w.turn(c, `echo "@ask 1 edit huge"; read a; echo "@final $a"`)
	next(t, c, wire.KindNotice)
	if fin := finished(t, c); !strings.HasPrefix(fin.Result, "no ") {
		t.Fatalf("%+v", fin)
	}
	for _, e := range w.log() {
		if e.Kind == wire.KindPermissionAsked {
			t.Fatal("it was asked all the same")
		}
	}
}

func TestPathsAreResolved(t *testing.T) {
	w, c := started(t, "fake")
	outside := t.TempDir()
	for link, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "none"), "here": "."} {
		if err := os.Symlink(target, filepath.Join(w.folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := filepath.EvalSymlinks(w.folder)
	if err != nil {
		t.Fatal(err)
	}
	outside, err = filepath.EvalSymlinks(outside)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // "" where there must be an error
		"new/deep/file":  folder + "/new/deep/file",
		"./here/here/f":  folder + "/f",
		"out/f":          outside + "/f",
		"out":            outside,
		outside + "/new": outside + "/new",
		"../x":           filepath.Dir(folder) + "/x",
		"out/../x":       "", // beside outside, or in the folder
		"new/../../x":    "",
		"dangling":       "",
		"dangling/f":     "",
		"~/x":            "",
	}
	for asked, resolved := range want {
		w.turn(c, `echo "@path 1 `+asked+`"; read a`)
		p := data[wire.Permission](t, next(t, c, wire.KindPermissionAsked))
		if len(p.Paths) != 1 || p.Paths[0].Asked != asked || p.Paths[0].Resolved != resolved || (p.Paths[0].Err == "") != (resolved != "") {
			t.Errorf("%s: %+v, want %q", asked, p.Paths, resolved)
		}
		resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, By: "program"})
		finished(t, c)
	}
}
