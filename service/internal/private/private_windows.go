package private

import (
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// userOnly is an access list that is not inherited from above and lets only
// this user in; inside a directory new files inherit it.
func userOnly() (*windows.ACL, *windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, nil, fmt.Errorf("read this user's SID: %w", err)
	}
	sid := user.User.Sid
	acl, err := windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{{
		AccessPermissions: windows.GENERIC_ALL,
		AccessMode:        windows.SET_ACCESS,
		Inheritance:       windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
		Trustee: windows.TRUSTEE{
			TrusteeForm:  windows.TRUSTEE_IS_SID,
			TrusteeType:  windows.TRUSTEE_IS_USER,
			TrusteeValue: windows.TrusteeValueFromSID(sid),
		},
	}}, nil)
	return acl, sid, err
}

func protect(path string) error {
	acl, _, err := userOnly()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, acl, nil)
}

// mkdir makes a directory that is the user's from its first moment: what is
// opened before a list is changed stays open.
func mkdir(path string) error {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fmt.Errorf("read this user's SID: %w", err)
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;" + user.User.Sid.String() + ")")
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	sa := windows.SecurityAttributes{Length: uint32(unsafe.Sizeof(windows.SecurityAttributes{})), SecurityDescriptor: sd}
	if err := windows.CreateDirectory(name, &sa); err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

func open(path string, flag int) (*os.File, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
		return nil, &Violation{path, "is a link", "replace it by the file it leads to"}
	}
	return os.OpenFile(path, flag, 0o600)
}

func settle(f *os.File) error { return protect(f.Name()) }

func checkDir(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return &Violation{path, "is not a directory", "move it away"}
	}
	return checkAccess(path)
}

func checkFile(path string, f *os.File) error {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return fmt.Errorf("check the private file %s: %w", path, err)
	}
	switch {
	case info.FileAttributes&(windows.FILE_ATTRIBUTE_DIRECTORY|windows.FILE_ATTRIBUTE_REPARSE_POINT) != 0:
		return &Violation{path, "is not a regular file", "move it away"}
	case info.NumberOfLinks == 0:
		return errReplaced
	case info.NumberOfLinks > 1:
		return &Violation{path, fmt.Sprintf("has %d hard links", info.NumberOfLinks), "remove the other names"}
	}
	return checkAccess(path)
}

// checkAccess wants every entry of the access list to be this user's. SYSTEM
// and the administrators own the machine and are let through.
func checkAccess(path string) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("read the access list of %s: %w", path, err)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return fmt.Errorf("read the access list of %s: %w", path, err)
	}
	_, me, err := userOnly()
	if err != nil {
		return err
	}
	if dacl == nil {
		return shared(path)
	}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return fmt.Errorf("read the access list of %s: %w", path, err)
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if !sid.Equals(me) && !sid.IsWellKnown(windows.WinLocalSystemSid) && !sid.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
			return shared(path)
		}
	}
	return nil
}

func shared(path string) error {
	return &Violation{path, "can be used by others", `run: icacls "` + path + `" /inheritance:r /grant:r "%USERNAME%:F"`}
}

func violationOr(_ string, err error) error { return err }

// SyncDir does nothing here: NTFS journals its names.
func SyncDir(string) error { return nil }
