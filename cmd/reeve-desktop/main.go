// Command reeve-desktop is Reeve's tray and windows. It holds no work: end it at
// any time, and missions go on under the service.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"fyne.io/fyne/v2/app"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ui/view"
)

// appID names the program to the desktop, and its preferences.
const appID = "io.github.reevehq.reeve"

func main() {
	hidden := flag.Bool("hidden", false, "start in the tray, without a window")
	show := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *show {
		fmt.Println("reeve-desktop " + assets.Version)
		return
	}
	if err := run(*hidden); err != nil {
		fmt.Fprintf(os.Stderr, "reeve-desktop: %v\n", err)
		os.Exit(1)
	}
}

func run(hidden bool) error {
	if err := view.CheckDisplay(os.Getenv); err != nil {
		return err
	}
	socket, err := sock.Path(os.Getenv)
	if err != nil {
		return err
	}
	ctx := context.Background()
	wish := view.Show{Show: view.ShowMain}
	instance, err := view.Claim(ctx, filepath.Join(filepath.Dir(socket), "desktop.sock"), wish)
	if view.Raised(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer instance.Close()
	home, _ := os.UserHomeDir()
	options := client.Options{Client: "reeve-desktop", Version: assets.Version}
	view.Run(app.NewWithID(appID), view.Options{
		Dial:     func(ctx context.Context) (*client.Client, error) { return client.Dial(ctx, socket, options) },
		Reeve:    reeve(),
		Version:  assets.Version,
		PID:      os.Getpid(),
		Home:     home,
		Instance: instance,
		Hidden:   hidden,
		Theme:    os.Getenv("REEVE_THEME"),
	})
	return nil
}

// reeve finds the command line program: beside this one, or on the PATH.
func reeve() string {
	name := "reeve"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}
