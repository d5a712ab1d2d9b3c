// Package assets holds the files that are built into the desktop program:
// fonts, translations, the application icon and the tray icons. It imports no toolkit, so
// that installers and tests can use it too.
package assets

import (
	"embed"
	_ "embed"
	"fmt"
	"slices"
)

// The fonts, each licensed under the SIL Open Font License 1.1; the licence
// texts lie beside them in fonts/. The data is shared: do not write to it.
var (
	//go:embed fonts/Inter-Regular.otf
	FontRegular []byte
	//go:embed fonts/Inter-SemiBold.otf
	FontSemiBold []byte
	//go:embed fonts/Inter-Italic.otf
	FontItalic []byte
	//go:embed fonts/IBMPlexMono-Regular.ttf
	FontMono []byte
	//go:embed fonts/IBMPlexMono-SemiBold.ttf
	FontMonoSemiBold []byte
)

//go:embed fonts/*-LICENSE.txt
var licences embed.FS

// FontLicences returns the licence texts of the embedded fonts by file name,
// for the window that shows them.
func FontLicences() map[string]string {
	texts := make(map[string]string)
	entries, _ := licences.ReadDir("fonts")
	for _, e := range entries {
		b, _ := licences.ReadFile("fonts/" + e.Name())
		texts[e.Name()] = string(b)
	}
	return texts
}

// Translations holds translations/TAG.json: what the program says, by its
// English text; a text that depends on a number has a form for each plural of
// the language. translations/fyne.TAG.json are the toolkit's own words where it
// has none for the language.
//
//go:embed translations/*.json
var Translations embed.FS

//go:embed app-icon.png
var appIcon []byte

// AppIcon returns the application icon, a PNG of 512 × 512 pixels.
func AppIcon() []byte { return appIcon }

// TrayState is what the tray icon says. Each is drawn as its own shape, so
// that no state depends on colour.
type TrayState string

// The tray's states; the values are the file names' middle parts.
const (
	TrayIdle      TrayState = "idle"
	TrayWorking   TrayState = "working"
	TrayNeedsYou  TrayState = "needs-you"
	TrayBlocked   TrayState = "blocked"
	TrayNoService TrayState = "no-service"
	TrayUpdating  TrayState = "updating"
)

// TrayStates lists every state.
func TrayStates() []TrayState {
	return []TrayState{TrayIdle, TrayWorking, TrayNeedsYou, TrayBlocked, TrayNoService, TrayUpdating}
}

// TraySizes lists the sizes in pixels that Tray has, in rising order.
func TraySizes() []int { return []int{16, 22, 24, 32, 48, 64} }

//go:embed tray/*.png
var tray embed.FS

// Tray returns the tray icon for state as a square PNG, dark strokes on a clear
// ground for light panels; TrayLight is the same for dark panels. size is in
// pixels: a size that is not in TraySizes gets the next larger one (or 64), so
// that panels only ever scale down. An unknown state panics: it is a fault in
// the program.
func Tray(state TrayState, size int) []byte { return trayPNG("dark", state, size) }

// TrayLight is Tray with light strokes, for dark panels.
func TrayLight(state TrayState, size int) []byte { return trayPNG("light", state, size) }

func trayPNG(stroke string, state TrayState, size int) []byte {
	sizes := TraySizes()
	i, _ := slices.BinarySearch(sizes, size)
	name := fmt.Sprintf("tray/%s-%s-%d.png", stroke, state, sizes[min(i, len(sizes)-1)])
	b, err := tray.ReadFile(name)
	if err != nil {
		panic("assets: no tray icon " + name)
	}
	return b
}
