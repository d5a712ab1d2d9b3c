// Package kit is the desktop's look: the theme, a small layout language and the
// widgets that Fyne lacks or draws differently. It knows nothing of what the
// program is about.
//
// Widgets take their colours from the current theme whenever they refresh, so a
// change between light and dark reaches everything on screen. Like all of Fyne,
// nothing here may be used outside the UI goroutine.
package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/theme"

	"github.com/reevehq/reeve/assets"
)

// Color names a colour of the palette; the theme gives its value.
type Color = fyne.ThemeColorName

// The palette. See palettes for the values.
const (
	None Color = "" // draws nothing

	Ground   Color = "reeve.ground"   // windows
	Side     Color = "reeve.side"     // side bars and footers
	Surface  Color = "reeve.surface"  // cards and fields
	Sunken   Color = "reeve.sunken"   // code, headers within cards
	Raised   Color = "reeve.raised"   // buttons, menus
	Hover    Color = "reeve.hover"    // under the pointer
	Selected Color = "reeve.selected" // chosen item, counts

	Line      Color = "reeve.line"      // hairlines and card borders
	Edge      Color = "reeve.edge"      // button borders
	InputEdge Color = "reeve.inputEdge" // borders of what can be filled in
	Track     Color = "reeve.track"     // the empty part of a bar

	Ink      Color = "reeve.ink" // text
	Quiet    Color = "reeve.quiet"
	Accent   Color = "reeve.accent"
	OnAccent Color = "reeve.onAccent"
	Waiting  Color = "reeve.waiting"
	Wrong    Color = "reeve.wrong"
	Done     Color = "reeve.done"

	AccentTint  Color = "reeve.accentTint"
	WaitingTint Color = "reeve.waitingTint"
	WrongTint   Color = "reeve.wrongTint"
	DoneTint    Color = "reeve.doneTint"

	AccentLine  Color = "reeve.accentLine" // borders of tinted boxes
	WaitingLine Color = "reeve.waitingLine"
	WrongLine   Color = "reeve.wrongLine"

	Added         Color = "reeve.added"
	Removed       Color = "reeve.removed"
	AddedGutter   Color = "reeve.addedGutter"
	RemovedGutter Color = "reeve.removedGutter"

	Keyword Color = "reeve.keyword"
	Literal Color = "reeve.literal"
	Comment Color = "reeve.comment"
	Number  Color = "reeve.number"
)

// palettes holds each colour for light and dark, as 0xRRGGBB.
var palettes = map[Color][2]uint32{
	Ground:   {0xFBFAF7, 0x16181B},
	Side:     {0xF4F2EC, 0x111315},
	Surface:  {0xFFFFFF, 0x1E2125},
	Sunken:   {0xF8F6F1, 0x191B1E},
	Raised:   {0xFFFFFF, 0x262A2F},
	Hover:    {0xF1EEE7, 0x23262B},
	Selected: {0xE9E6DD, 0x272B30},

	Line:      {0xE3E0D8, 0x30343A},
	Edge:      {0xCFCBC0, 0x454A52},
	InputEdge: {0x928E84, 0x6F7680},
	Track:     {0xE6E3DB, 0x33373D},

	Ink:      {0x1D1F22, 0xECEBE7},
	Quiet:    {0x66645D, 0x9C9A93},
	Accent:   {0x2F5D8A, 0x7FB2E0},
	OnAccent: {0xFFFFFF, 0x0F1720},
	Waiting:  {0x985807, 0xF0B35A},
	Wrong:    {0xA4262C, 0xF28B82},
	Done:     {0x2E6B3E, 0x86C996},

	AccentTint:  {0xE8EFF6, 0x1F2C39},
	WaitingTint: {0xFDF4E4, 0x2A2318},
	WrongTint:   {0xFBECEB, 0x33201F},
	DoneTint:    {0xE9F3EB, 0x1B2A20},

	AccentLine:  {0x9DB9D3, 0x41617F},
	WaitingLine: {0xEBD3A6, 0x5A4825},
	WrongLine:   {0xEBC5C3, 0x643735},

	Added:         {0xEAF4EC, 0x1B2A20},
	Removed:       {0xFBEDEC, 0x331F1F},
	AddedGutter:   {0xD9ECDD, 0x1F3426},
	RemovedGutter: {0xF6DDDB, 0x452827},

	Keyword: {0x7A3E8E, 0xCFA3E0},
	Literal: {0x2B6457, 0x8CCBB9},
	Comment: {0x66645D, 0x9C9A93},
	Number:  {0x8A4B12, 0xE3B07C},
}

// Type sizes in Fyne's units.
const (
	SizeSmall  float32 = 12
	SizeBody   float32 = 14
	SizeStrong float32 = 16
	SizeTitle  float32 = 20
)

// Mode says where light or dark comes from.
type Mode int

// The modes.
const (
	System Mode = iota // what the desktop asks for, also when it changes
	Light
	Dark
)

// Theme is Reeve's Fyne theme. Set it with app.Settings().SetTheme; set another
// to change the mode while the program runs.
type Theme struct {
	Mode Mode
}

// Color gives a colour of the palette, or of Fyne's own names in the terms of
// the palette.
func (t Theme) Color(name fyne.ThemeColorName, variant fyne.ThemeVariant) color.Color {
	switch t.Mode {
	case Light:
		variant = theme.VariantLight
	case Dark:
		variant = theme.VariantDark
	}
	if name == None {
		return color.Transparent
	}
	if name == theme.ColorNameShadow { // under menus
		return color.NRGBA{A: 0x50}
	}
	if own, ok := stockNames[name]; ok {
		c := paletteColor(own.color, variant)
		c.A = own.alpha
		return c
	}
	if _, ok := palettes[name]; ok {
		return paletteColor(name, variant)
	}
	return theme.DefaultTheme().Color(name, variant)
}

func paletteColor(name Color, variant fyne.ThemeVariant) color.NRGBA {
	i := 0
	if variant == theme.VariantDark {
		i = 1
	}
	v := palettes[name][i]
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 0xff}
}

// stockNames maps what Fyne's own widgets ask for to the palette.
var stockNames = map[fyne.ThemeColorName]struct {
	color Color
	alpha uint8
}{
	theme.ColorNameBackground:          {Ground, 0xff},
	theme.ColorNameButton:              {Raised, 0xff},
	theme.ColorNameDisabled:            {Quiet, 0xff},
	theme.ColorNameDisabledButton:      {Sunken, 0xff},
	theme.ColorNameError:               {Wrong, 0xff},
	theme.ColorNameFocus:               {Accent, 0x40},
	theme.ColorNameForeground:          {Ink, 0xff},
	theme.ColorNameForegroundOnPrimary: {OnAccent, 0xff},
	theme.ColorNameHeaderBackground:    {Sunken, 0xff},
	theme.ColorNameHover:               {Hover, 0xff},
	theme.ColorNameHyperlink:           {Accent, 0xff},
	theme.ColorNameInputBackground:     {Surface, 0xff},
	theme.ColorNameInputBorder:         {InputEdge, 0xff},
	theme.ColorNameMenuBackground:      {Raised, 0xff},
	theme.ColorNameOverlayBackground:   {Surface, 0xff},
	theme.ColorNamePlaceHolder:         {Quiet, 0xff},
	theme.ColorNamePressed:             {Selected, 0xff},
	theme.ColorNamePrimary:             {Accent, 0xff},
	theme.ColorNameScrollBar:           {Quiet, 0x80},
	theme.ColorNameScrollBarBackground: {Quiet, 0x00},
	theme.ColorNameSelection:           {Accent, 0x40},
	theme.ColorNameSeparator:           {Line, 0xff},
	theme.ColorNameSuccess:             {Done, 0xff},
	theme.ColorNameWarning:             {Waiting, 0xff},
}

var (
	fontRegular      = fyne.NewStaticResource("Inter-Regular.otf", assets.FontRegular)
	fontSemiBold     = fyne.NewStaticResource("Inter-SemiBold.otf", assets.FontSemiBold)
	fontItalic       = fyne.NewStaticResource("Inter-Italic.otf", assets.FontItalic)
	fontMono         = fyne.NewStaticResource("IBMPlexMono-Regular.ttf", assets.FontMono)
	fontMonoSemiBold = fyne.NewStaticResource("IBMPlexMono-SemiBold.ttf", assets.FontMonoSemiBold)
)

// Font gives Inter and IBM Plex Mono. Bold is their semi-bold: Fyne knows two
// weights only.
func (t Theme) Font(s fyne.TextStyle) fyne.Resource {
	switch {
	case s.Symbol:
		return theme.DefaultTheme().Font(s)
	case s.Monospace && s.Bold:
		return fontMonoSemiBold
	case s.Monospace:
		return fontMono
	case s.Bold:
		return fontSemiBold
	case s.Italic:
		return fontItalic
	}
	return fontRegular
}

// Icon gives Fyne's own icons, which its stock widgets need.
func (t Theme) Icon(n fyne.ThemeIconName) fyne.Resource { return theme.DefaultTheme().Icon(n) }

// Size gives the measures of the stock widgets.
func (t Theme) Size(n fyne.ThemeSizeName) float32 {
	switch n {
	case theme.SizeNameText:
		return SizeBody
	case theme.SizeNameCaptionText:
		return SizeSmall
	case theme.SizeNameSubHeadingText:
		return SizeStrong
	case theme.SizeNameHeadingText:
		return SizeTitle
	case theme.SizeNamePadding, theme.SizeNameLineSpacing:
		return 4
	case theme.SizeNameInnerPadding:
		return 8
	case theme.SizeNameInputRadius, theme.SizeNameSelectionRadius:
		return 6
	case theme.SizeNameInputBorder, theme.SizeNameSeparatorThickness:
		return 1
	case theme.SizeNameScrollBar:
		return 8
	case theme.SizeNameScrollBarSmall, theme.SizeNameScrollBarRadius:
		return 4
	}
	return theme.DefaultTheme().Size(n)
}
