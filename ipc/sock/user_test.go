package sock

import "testing"

// Only a peer that the system names, and names as this user, is the same user.
func TestSameUser(t *testing.T) {
	me, err := userID()
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]bool{me: true, "": false, me + "0": false, "1" + me: false} {
		if got := SameUser(Peer{UID: uid, PID: 1}); got != want {
			t.Errorf("user %q: %v, want %v", uid, got, want)
		}
	}
}
