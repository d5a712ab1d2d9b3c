package view

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/ui/view/kit"
)

// TestHiddenStartRaisesNothing: a start at log-on, while the program runs
// already, brings nothing to the front.
func TestHiddenStartRaisesNothing(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	if r.show(Wish(true)); r.main != nil {
		t.Error("a hidden start opened the window")
	}
	if r.show(Wish(false)); r.main == nil {
		t.Fatal("a start opened no window")
	}
	r.main.win.Close()
}

func TestSecondStartRaisesTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "desktop.sock")
	ctx, cancel := context.WithCancel(context.Background())
	first, err := Claim(ctx, path, Show{Show: ShowMain})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan Show, 1)
	served := make(chan struct{})
	go func() {
		defer close(served)
		first.Serve(ctx, func(s Show) { got <- s })
	}()
	want := Show{Show: ShowApproval, ID: "q-1"}
	if second, err := Claim(ctx, path, want); !Raised(err) || second != nil {
		t.Errorf("the second start: %v", err)
	}
	if s := <-got; s != want {
		t.Errorf("asked to show %+v", s)
	}
	cancel()
	<-served
	again, err := Claim(context.Background(), path, Show{})
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	again.Close()
}
