package view

import (
	"context"
	"path/filepath"
	"testing"
)

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
