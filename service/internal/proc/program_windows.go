package proc

import "os"

func programOf(pid int) (os.FileInfo, error) {
	info, err := Inspect(pid)
	if err != nil {
		return nil, err
	}
	return os.Stat(info.Exe)
}
