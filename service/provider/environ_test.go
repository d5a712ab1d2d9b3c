package provider

import (
	"runtime"
	"testing"
)

func TestGetenv(t *testing.T) {
	get := Getenv([]string{"A=first", "HOME=/h", "USERPROFILE=C:\\u", "A=k=v", "EMPTY=x", "EMPTY=", "AB=no", "NOTHING"})
	for name, want := range map[string]string{"A": "k=v", "EMPTY": "", "NOTHING": "", "ABSENT": ""} {
		if got := get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	want := "/h"
	if runtime.GOOS == "windows" {
		want = "C:\\u"
	}
	if got := Home(get); got != want {
		t.Errorf("the home is %q, want %q", got, want)
	}
}
