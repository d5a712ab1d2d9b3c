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
	"github.com/reevehq/reeve/service/keychain"
	_ "github.com/reevehq/reeve/ui/locale" // before Fyne looks
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
	relaunch, err := run(*hidden)
	if err == nil && relaunch != nil {
		err = again(relaunch)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "reeve-desktop: %v\n", err)
		os.Exit(1)
	}
}

// run shows the program until its end. relaunch is the command that starts its
// successor after an upgrade, or nil.
func run(hidden bool) (relaunch []string, err error) {
	if err := view.CheckDisplay(os.Getenv); err != nil {
		return nil, err
	}
	// Read before anything can be replaced: afterwards the system may name the
	// old file as deleted.
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	socket, err := sock.Path(os.Getenv)
	if err != nil {
		return nil, err
	}
	private, err := sock.PrivateState(os.Getenv)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	instance, err := view.Claim(ctx, sock.Beside(socket, "desktop"), view.Show{Show: view.ShowMain})
	if view.Raised(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer instance.Close()
	home, _ := os.UserHomeDir()
	options := client.Options{Client: "reeve-desktop", Version: assets.Version}
	renewed, hidden := view.Run(app.NewWithID(appID), view.Options{
		Dial:     func(ctx context.Context) (*client.Client, error) { return client.Dial(ctx, socket, options) },
		Reeve:    reeve(),
		Version:  assets.Version,
		PID:      os.Getpid(),
		Home:     home,
		Instance: instance,
		Hidden:   hidden,
		Renewed:  view.Replaced(self),
		Secret:   keychain.Open(private).Get,
		Theme:    os.Getenv("REEVE_THEME"),
	})
	if !renewed {
		return nil, nil
	}
	relaunch = []string{self}
	if hidden {
		relaunch = append(relaunch, "-hidden")
	}
	return relaunch, nil
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
