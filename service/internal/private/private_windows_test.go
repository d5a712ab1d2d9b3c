package private

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

// What is made is the user's alone, and what others may use is refused.
func TestPrivateOnWindows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := EnsureDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := EnsureDir(dir); err != nil {
		t.Errorf("once more: %v", err)
	}
	made, err := Create(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	_ = made.Close()
	for range 2 {
		f, err := OpenAppend(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString("line\n")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(filepath.Join(dir, "record"), []byte("one")); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := ReadFile(filepath.Join(dir, "log"), 99); err != nil || string(b) != "line\nline\n" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"made", "log", "record"} {
		if err := Check(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Another name, and another user.
	var v *Violation
	if err := os.Link(filepath.Join(dir, "made"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if err := Check(filepath.Join(dir, "made")); !errors.As(err, &v) {
		t.Errorf("a file with two names: %v", err)
	}
	record := filepath.Join(dir, "record")
	everybody(t, record)
	if err := Check(record); !errors.As(err, &v) {
		t.Errorf("everybody may read a file: %v", err)
	}
	if err := protect(record); err != nil {
		t.Fatal(err)
	}
	if err := Check(record); err != nil {
		t.Errorf("mended: %v", err)
	}
	everybody(t, dir)
	if err := CheckDir(dir); !errors.As(err, &v) {
		t.Errorf("everybody may read the directory: %v", err)
	}
}

// everybody lets all users read what is at path.
func everybody(t *testing.T, path string) {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;GA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := sd.DACL()
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, acl, nil); err != nil {
		t.Fatal(err)
	}
}
