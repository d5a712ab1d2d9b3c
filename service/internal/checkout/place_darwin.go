package checkout

import "golang.org/x/sys/unix"

// mountsIn returns the mount points at dir and below it.
func mountsIn(dir string) (found []string, err error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, err
	}
	all := make([]unix.Statfs_t, n+8) // some more could come meanwhile
	if n, err = unix.Getfsstat(all, unix.MNT_NOWAIT); err != nil {
		return nil, err
	}
	for _, m := range all[:n] {
		if p := unix.ByteSliceToString(m.Mntonname[:]); within(p, dir) {
			found = append(found, p)
		}
	}
	return found, nil
}
