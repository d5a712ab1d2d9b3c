package view

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
)

// openFolder shows a folder in the desktop's own program for folders. failed is
// told on the UI goroutine what went wrong.
func (d *desk) openFolder(path string, failed func(error)) {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	u := &url.URL{Scheme: "file", Path: path}
	// Some desktops answer only when their program is up.
	task(d, func(context.Context) (struct{}, error) { return struct{}{}, d.openURL(u) }, func(_ struct{}, err error) {
		if err != nil {
			failed(err)
		}
	})
}
